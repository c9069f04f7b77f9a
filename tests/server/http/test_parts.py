"""Parts of HTTP without sockets: ranges, pace, tokens, what is in force where a range begins."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.main import main
from postroom.ledger.format.dictionary import Dictionary, is_end, kind_of, records_from
from postroom.ledger.format.layout import TRANSITION_DTYPE
from postroom.ledger.format.records import RecordType
from postroom.server.http.bounds import MAX_CALLERS, Pace
from postroom.server.http.ranges import RangeNotSatisfiable, parse_range
from postroom.server.http.records import in_force
from postroom.server.http.tokens import (
    TOKENS_NAME,
    Right,
    Tokens,
    TokensError,
    add_token,
    read_tokens,
    remove_token,
)

DAY_US = 86_400_000_000

# --- ranges ---------------------------------------------------------------------------------------


@given(
    st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")) | st.text(max_size=60), st.integers(0, 100)
)
def test_any_header_is_a_range_within_the_file_or_none(header: str, size: int) -> None:
    try:
        found = parse_range(header, size)
    except RangeNotSatisfiable:
        return
    assert found is None or 0 <= found.first <= found.last < size


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100))
def test_a_range_is_what_slicing_gives(first: int, last: int, size: int) -> None:
    content = bytes(range(size))
    try:
        found = parse_range(f"bytes={first}-{last}", size)
    except RangeNotSatisfiable:
        assert content[first : last + 1] == b"" and first >= size
        return
    if last < first:
        assert found is None
    else:
        assert found is not None
        assert content[found.first : found.last + 1] == content[first : last + 1]
        assert found.size_bytes == len(content[first : last + 1])


@pytest.mark.parametrize(
    ("header", "expected"), [("bytes=-5", b"56789"), ("bytes=7-", b"789"), ("bytes=-99", b"0123456789")]
)
def test_ends_of_a_file(header: str, expected: bytes) -> None:
    found = parse_range(header, 10)
    assert found is not None and b"0123456789"[found.first : found.last + 1] == expected


@pytest.mark.parametrize(
    "header", [None, "", "bytes=", "bytes=-", "bytes=1-2,4-5", "items=1-2", "bytes=a-b", "bytes=1"]
)
def test_what_is_no_range_of_ours_is_the_whole_file(header: str | None) -> None:
    assert parse_range(header, 10) is None


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_nothing_of_the_file(header: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, 10)


# --- pace -----------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.lists(st.floats(0, 2), max_size=200))
def test_no_more_than_the_pace_in_any_second(per_s: int, pauses: list[float]) -> None:
    pace, now, taken = Pace(per_s), 1000.0, []
    for pause in pauses:
        now += pause
        if pace.wait_s("caller", now) == 0:
            taken.append(now)
    for start in taken:
        within = [each for each in taken if start <= each < start + 1]
        assert len(within) <= 2 * per_s


def test_who_waits_as_told_may() -> None:
    pace = Pace(10)
    assert [pace.wait_s("a", 0.0) for _ in range(10)] == [0.0] * 10
    wait_s = pace.wait_s("a", 0.0)
    assert wait_s == pytest.approx(0.1)
    assert pace.wait_s("b", 0.0) == 0.0
    assert pace.wait_s("a", wait_s + 1e-6) == 0.0


def test_callers_that_are_remembered_are_bounded() -> None:
    pace = Pace(1)
    for number in range(MAX_CALLERS + 100):
        pace.wait_s(str(number), 0.0)
    assert len(pace._left) == MAX_CALLERS
    assert pace.wait_s(str(MAX_CALLERS + 99), 0.0) > 0


# --- tokens ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / TOKENS_NAME


def test_a_token_is_known_by_its_secret_alone_and_the_file_does_not_have_it(file: Path) -> None:
    made = add_token(file, "spark", [Right.LEDGER, Right.LEDGER])
    found = Tokens(file).find(made, 0)
    assert found is not None and found.rights == [Right.LEDGER]
    assert made.partition(".")[2] not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


@given(st.text(max_size=80))
def test_other_characters_are_no_token(text: str) -> None:
    tokens = Tokens(Path("/nonexistent"))
    assert tokens.find(text, 0) is None and tokens.error == ""


def test_a_token_has_an_end(file: Path) -> None:
    made = add_token(file, "short", [Right.METRICS], duration_s=86_400)
    created = read_tokens(file)[0].created_us
    tokens = Tokens(file)
    assert tokens.find(made, created + DAY_US - 1) is not None
    assert tokens.find(made, created + DAY_US) is None


def test_names_are_unique_and_must_be_there(file: Path) -> None:
    add_token(file, "a", [Right.LEDGER])
    with pytest.raises(TokensError, match="'a' has a token already"):
        add_token(file, "a", [Right.LEDGER])
    remove_token(file, "a")
    with pytest.raises(TokensError, match="no token 'a'"):
        remove_token(file, "a")
    assert read_tokens(file) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "\x00",
        '[{"id": "x"}]',
        '[{"id": "", "name": "n", "rights": [], "secret_sha256": "", "created_us": 0}]',
    ],
)
def test_a_file_that_is_none_is_named(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(TokensError, match=TOKENS_NAME):
        read_tokens(file)
    tokens = Tokens(file)
    assert tokens.find("a.b", 0) is None and TOKENS_NAME in tokens.error


def test_a_right_of_a_later_version_is_refused_and_named(file: Path) -> None:
    add_token(file, "a", [Right.LEDGER])
    file.write_text(file.read_text().replace('"ledger"', '"everything"'))
    with pytest.raises(TokensError, match="everything"):
        read_tokens(file)


def test_a_changed_file_is_read_again(file: Path) -> None:
    tokens = Tokens(file)
    assert tokens.find("x.y", 0) is None
    made = add_token(file, "a", [Right.LEDGER])
    assert tokens.find(made, 0) is not None
    file.unlink()
    assert tokens.find(made, 0) is None


def test_the_command(tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["token", *words, "--data", str(tmp_path)])
        return result.exit_code, result.output

    code, made = run("add", "spark", "--right", "ledger", "--days", "2")
    assert code == 0 and Tokens(tmp_path / TOKENS_NAME).find(made.strip(), 0) is not None
    code, listed = run("list", "--json")
    (told,) = [json.loads(line) for line in listed.splitlines()]
    assert (told["name"], told["rights"]) == ("spark", ["ledger"]) and made.strip() not in listed
    assert run("list")[0] == 0
    assert run("add", "spark", "--right", "ledger")[0] == 1
    assert run("add", "other")[0] == 2 and run("add", "other", "--right", "all")[0] == 2
    assert run("remove", "spark")[0] == 0
    assert run("remove", "spark")[0] == 1


# --- definitions ----------------------------------------------------------------------------------

DEFINING = [type for type in RecordType if 4 <= type <= 14 or 18 <= type <= 22]


@given(st.lists(st.tuples(st.sampled_from(DEFINING), st.integers(1, 4)), max_size=40))
def test_what_is_in_force_is_what_the_dictionary_says(records: list[tuple[int, int]]) -> None:
    rows = np.zeros(len(records), TRANSITION_DTYPE)
    rows["position"] = np.arange(1, len(records) + 1)
    rows["type"] = [type for type, _ in records]
    rows["queue"] = rows["holder"] = [id for _, id in records]
    dictionary = Dictionary()
    for record in records_from(rows, memoryview(b"")):
        dictionary.apply(record)
    kinds = {kind_of(type) for type in DEFINING if not is_end(type)} - {RecordType.CHANNEL_STATE}
    expected = sorted(each.position for kind in kinds for each in dictionary.of_kind(kind).values())
    found = in_force(rows)
    without_states = found[found["type"] != RecordType.CHANNEL_STATE]
    assert without_states["position"].tolist() == expected
