"""Files of definitions that can't be used: each fault with table, name, key and line; nothing is changed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.definitions.file_format import (
    MAX_FAULTS,
    MAX_FILE_BYTES,
    DefinitionsError,
    Source,
    as_json,
    as_toml,
    check_tree,
)
from postroom.cli.definitions.kinds import BY_TABLE
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

SHARED = '[[subscription]]\nname = "s"\ntopic = "a.*"\n'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[[queue]]\nname = 1\n", "FILE:2: queue[0]: name: must be text, and not empty"),
        ("[[queue]]\nmax_bytes = 1\n", "FILE:1: queue[0]: name: must be text, and not empty"),
        (
            '[[queue]]\nname = "a"\n\n[[queue]]\nname = "b"\nmax_bytes = "x"\n',
            "FILE:6: queue[1] 'b': max_bytes: is 'x', must be a whole number",
        ),
        ('[[queue]]\nname = "a"\nmax_bytes = true\n', "must be a whole number"),
        (
            '[[queue]]\nname = "a"\nmax_bytes = -2\n',
            "FILE:3: queue[0] 'a': max_bytes: queue 'a': max_bytes is -2",
        ),
        ('[[queue]]\nname = "a"\nsize = 1\n', "FILE:3: queue[0] 'a': size: unknown key"),
        (
            '[[queue]]\nname = "a"\nquota = "q"\n',
            "quota: there is no quota 'q', neither here nor in the file",
        ),
        (
            '[[queue]]\nname = "a"\n[[topic]]\nname = "a"\n',
            "FILE:4: topic[0] 'a': name: queue 'a' has it already",
        ),
        ('[[queue]]\nname = "$a"\n', "names may not begin with $ or postroom."),
        ('[[queue]]\nname = "a"\nexpiry_queue = "b"\n', "expiry_queue needs expiration_policy"),
        ('[queue]\nname = "a"\n', "FILE:1: queue: must be a list of tables: [[queue]]"),
        ('[queues]\nname = "a"\n', "queues: unknown table: definitions have quota, queue, "),
        ('[users]\nann = "x"\n', "users: passwords are in no definitions: name users as [[user]]"),
        ('[[topic]]\nname = "a.*"\n', "is a pattern of topics"),
        (SHARED, "shared: without a client a subscription is shared"),
        (SHARED + "shared = true\nno_local = true\n", "no_local: needs a client"),
        (SHARED + 'shared = true\nselector = "a ="\n', "FILE:5: subscription[0] 'a.*::s': selector: "),
        (SHARED.replace(".*", "") + "shared = true\n", "topic: there is no topic 'a'"),
        ('[[subscription]]\nname = "s"\n', "topic: is missing"),
        ('[[channel]]\nname = "C"\n', "type: is missing: sender, receiver, server or requester"),
        ('[[channel]]\nname = "C"\ntype = "sender"\n', "transmission_queue: "),
        ('[[remote_queue]]\nname = "r"\n', "neither remote_queue nor remote_queue_manager"),
        ('[[role]]\nname = "r"\ngrants = ["fly on x"]\n', "grants: 'fly' is no right on 'x'"),
        ('[[role]]\nname = "r"\nmembers = ["x"]\n', "members: there is no user or role 'x'"),
        ('[[role]]\nname = "r"\nmembers = [1]\n', "must be a list of texts"),
        (
            '[[role]]\nname = "r"\nmembers = ["s"]\n[[role]]\nname = "s"\nmembers = ["r"]\n',
            "the role would have itself",
        ),
        ('[[role]]\nname = "administrator"\ngrants = []\n', "has every right: give it members only"),
        ("[[dead_letter_handler]]\n", "rules: is missing"),
        ('[[queue]\nname = "a"\n', "FILE: "),
        ("a = " + "[" * 5000, "FILE: "),
        ('{"queue": [{"name": "a", "max_bytes": "x"}]}', "FILE: queue[0] 'a': max_bytes: is 'x'"),
        ('{"queue": ' + "[" * 100_000, "is nested too deeply"),
        ('{"queue": ' + "9" * 10_000 + "}", "FILE: "),
    ],
)
def test_each_fault_says_where(
    broker: BrokerThread, shell: Shell, tmp_path: Path, text: str, wanted: str
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    before = shell.ok("definitions", "export")
    done = shell.run("definitions", "apply", str(file))
    assert done.exit_code == 2 and wanted.replace("FILE", str(file)) in done.stderr, done.stderr
    assert "Traceback" not in done.output and shell.ok("definitions", "export") == before


def test_files_that_are_none(tmp_path: Path, shell: Shell) -> None:
    for name, data, wanted in (
        ("absent", None, "can't be read: No such file or directory"),
        ("large", b"#" * (MAX_FILE_BYTES + 1), "is longer than 4,194,304 bytes"),
        ("binary", b"\xff\xfe", "is not UTF-8: byte 0xff at 0"),
        ("list", b"{", "Expecting property name"),
    ):
        file = tmp_path / name
        if data is not None:
            file.write_bytes(data)
        done = shell.run("definitions", "convert", str(file))
        assert done.exit_code == 2 and f"{file}: {wanted}" in done.stderr


def test_standard_input_is_a_file_too(shell: Shell) -> None:
    done = shell.run("definitions", "convert", "-", "--format", "json", stdin='[[queue]]\nname = "a"\n')
    assert json.loads(done.stdout) == {"queue": [{"name": "a"}]}
    assert (
        "standard input:1: queue[0]" in shell.run("definitions", "convert", "-", stdin="[[queue]]\n").stderr
    )


def test_many_faults_are_told_up_to_a_bound() -> None:
    text = "[[queue]]\n" * (MAX_FAULTS + 5)
    with pytest.raises(DefinitionsError) as caught:
        check_tree(source := Source("f", text), source.tree())
    assert len(caught.value.message.splitlines()) == MAX_FAULTS + 1 and caught.value.message.endswith(
        "and 5 more"
    )


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
ROWS = st.dictionaries(
    st.sampled_from(["selector", "dead_letter_queue", "max_bytes", "shared"]),
    st.one_of(TEXT, st.integers(-(2**52), 2**52), st.booleans(), st.lists(TEXT)),
)


@given(st.dictionaries(st.sampled_from(list(BY_TABLE)), st.lists(ROWS, max_size=3)))
def test_both_languages_say_the_same(tree: dict[str, list[dict[str, object]]]) -> None:
    for text in (as_toml(tree, "a heading"), as_json(tree)):
        assert Source("f", text).tree() == tree


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    source = Source("f", text)
    try:
        check_tree(source, source.tree())
    except DefinitionsError as error:
        assert error.message
