"""The command line against a running broker: queues, put, get, browse; and what it says when something is
wrong.
"""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from postroom import __version__
from postroom.cli import main
from postroom.server.configuration.passwords import verify_password
from tests.cli.shell import Shell

pytestmark = pytest.mark.sockets


def test_queues_are_created_listed_purged_deleted(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue, "--set", "max_messages=10", "--set", "dead_letter_queue=dead")
    (listed,) = shell.json("queue", "list", queue)
    assert (listed["name"], listed["max_messages"], listed["dead_letter_queue"]) == (queue, 10, "dead")
    shell.ok("put", queue, "a", "b")
    assert "purged 2 messages" in shell.ok("queue", "purge", queue)
    assert "current" in shell.ok("queue", "list", queue)
    shell.ok("queue", "delete", queue)
    assert shell.json("queue", "list", queue) == []


def test_delete_only_if_empty(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "a")
    result = shell.run("queue", "delete", queue, "--if-empty")
    assert result.exit_code == 3
    assert "amqp:precondition-failed" in result.stderr


def test_leases_are_granted_renewed_listed_released(shell: Shell) -> None:
    told = shell.ok("ledger", "lease", "grant", "reader", "--owner", "audit", "--duration-s", "600")
    assert told.startswith("granted reader: from position ")
    (lease,) = shell.json("ledger", "lease", "list")
    assert (lease["name"], lease["owner"], lease["state"], lease["duration_s"]) == (
        *("reader", "audit", "in force", 600),
    )
    (tap,) = shell.json("ledger", "lease", "grant", "tap", "--bodies", "--position", "0", "--max-bytes", "9")
    assert (tap["position"], tap["bodies"], tap["max_bytes"]) == (1, True, 9)
    (renewed,) = shell.json("ledger", "lease", "renew", "tap", "--position", "2", "--duration-s", "60")
    assert (renewed["position"], renewed["duration_s"], renewed["max_bytes"]) == (2, 60, 9)
    shown = shell.ok("ledger", "lease", "list")
    assert "audit" in shown and "in force" in shown
    assert shell.ok("ledger", "lease", "release", "tap") == "released tap\n"
    shell.ok("ledger", "lease", "release", "reader")
    (of_queues,) = shell.json("ledger", "lease", "grant", "q", "--queue", "orders", "--queue", "events")
    assert (of_queues["bodies"], of_queues["queues"]) == (True, ["events", "orders"])
    assert "orders" in shell.ok("ledger", "lease", "list")
    shell.ok("ledger", "lease", "release", "q")
    assert shell.json("ledger", "lease", "list") == []


def test_what_a_lease_can_not_be(shell: Shell) -> None:
    result = shell.run("ledger", "lease", "renew", "nobody")
    assert (result.exit_code, "there is no lease 'nobody'" in result.stderr) == (3, True)
    result = shell.run("ledger", "lease", "grant", "x", "--position", "999999999")
    assert (result.exit_code, "position 999999999 is not within" in result.stderr) == (3, True)
    assert shell.run("ledger", "lease", "grant", "x", "--duration-s", "0").exit_code == 2


def test_get_and_browse_with_a_selector(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "red", "-p", "colour=red")
    shell.ok("put", queue, "blue", "-p", "colour=blue")
    assert [each["body"] for each in shell.json("browse", queue, "--selector", "colour = 'blue'")] == ["blue"]
    assert [
        each["body"] for each in shell.json("get", queue, "-n", "0", "--selector", "colour = 'blue'")
    ] == ["blue"]
    assert [each["body"] for each in shell.json("browse", queue)] == ["red"]


def test_put_and_get_in_order(shell: Shell, queue: str) -> None:
    assert shell.ok("put", queue, "one", "two") == f"sent 2 to {queue}\n"
    shell.ok("put", queue, stdin="three")
    assert shell.ok("get", queue, "-n", "0") == "one\ntwo\nthree\n"
    result = shell.run("get", queue)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "there is no message" in result.stderr


def test_an_empty_body_is_a_message(shell: Shell, queue: str) -> None:
    assert shell.ok("put", queue, "") == f"sent 1 to {queue}\n"
    shell.ok("put", queue, stdin="")
    assert [each["body"] for each in shell.json("get", queue, "-n", "0")] == ["", ""]


def test_put_tells_what_it_has_created(shell: Shell, queue: str) -> None:
    first = shell.run("put", queue, "x")
    assert (first.stdout, first.stderr) == (
        f"sent 1 to {queue}\n",
        f"created the queue {queue}: it was not there\n",
    )
    assert shell.run("put", queue, "x").stderr == ""
    assert shell.run("put", f"{queue}/t", "x", "--topic").stderr.startswith("created the topic ")
    assert shell.run("put", f"{queue}/t", "x", "--topic").stderr == ""


def test_lines_of_standard_input(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "--lines", stdin="a\nb\n\nc\n")
    assert [message["body"] for message in shell.json("get", queue, "-n", "10")] == ["a", "b", "", "c"]


def test_files_in_and_out(shell: Shell, queue: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000
    (tmp_path / "in").write_bytes(data)
    shell.ok("put", queue, "--file", str(tmp_path / "in"))
    shell.ok("get", queue, "--folder", str(tmp_path / "out"))
    assert (tmp_path / "out" / "00000001").read_bytes() == data


def test_a_body_that_is_no_text_is_shown_in_base64(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, stdin=b"\xff\xfe")
    (message,) = shell.json("browse", queue)
    assert base64.b64decode(str(message["body_base64"])) == b"\xff\xfe"


def test_everything_that_put_can_say(shell: Shell, queue: str) -> None:
    headers = ["--priority", "7", "--ttl-ms", "60000", "--subject", "s", "--reply-to", "r"]
    shell.ok("put", queue, "x", *headers, "--correlation-id", "c", "-p", "k=v", "--not-durable")
    (message,) = shell.json("get", queue)
    assert message["priority"] == 7
    assert (message["subject"], message["reply_to"], message["correlation_id"]) == ("s", "r", "c")
    assert (message["durable"], message["properties"]) == (False, {"k": "v"})


def test_many(shell: Shell, queue: str) -> None:
    assert shell.json("put", queue, "x", "-n", "2500") == [{"sent": 2500}]
    assert len(shell.json("get", queue, "-n", "2000")) == 2000
    assert len(shell.json("browse", queue)) == 500
    assert len(shell.json("browse", queue, "-n", "3")) == 3


def test_browse_shows_a_table(shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "hello")
    shown = shell.ok("browse", queue)
    assert "priority" in shown and "hello" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["queue", "delete", "no-such"], 3, "there is no queue 'no-such'"),
        (["queue", "purge", "no-such"], 3, "there is no queue 'no-such'"),
        (["queue", "create", "$x"], 3, "reserved"),
        (["queue", "create", "q-bad", "--set", "max_messages=many"], 3, "must be of type int"),
        (["queue", "create", "q-bad", "--set", "colour=red"], 3, "no attribute 'colour'"),
        (["queue", "create", "q-bad", "--set", "max_messages=-7"], 3, "max_messages"),
        (["queue", "create", "q-bad", "--set", "max_messages"], 2, "is not KEY=VALUE"),
        (["put", "$x", "y"], 3, "amqp:not-found"),
        (["put", "q-bad", "y", "-p", "k"], 2, "is not KEY=VALUE"),
        (["put", "q-bad", "--file", "/no/such/file"], 2, "does not exist"),
        (["put", "q-bad", "y", "--priority", "10"], 2, "0<=x<=9"),
        (["queue", "list", "--url", "amqp://127.0.0.1:1"], 3, "no broker listens on 127.0.0.1:1"),
        (["queue", "list", "--url", "http://x"], 2, "scheme 'http'"),
        (["queue", "list", "--url", "amqp://h:x"], 2, "port"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(shell: Shell, arguments: list[str], code: int, what: str) -> None:
    result = shell.run(*arguments)
    assert result.exit_code == code, result.output
    assert what in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output


def test_a_password_hash(shell: Shell) -> None:
    assert verify_password("sesame", shell.ok("user", "hash", "--stdin", stdin="sesame\n").strip())
    asked = shell.ok("user", "hash", stdin="sesame\nsesame\n")
    assert verify_password("sesame", asked.splitlines()[-1])
    assert shell.run("user", "hash", "--stdin", stdin="\n").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("qeue", "list"), "'qeue'. Did you mean 'queue'?"),
        (("queue", "crate"), "'crate'. Did you mean 'create' or 'alter'?"),
        (("ledger", "lease", "Grant"), "'Grant'. Did you mean 'grant'?"),
        (("zzzz",), "'zzzz'."),
    ],
)
def test_a_command_that_is_not_there(shell: Shell, arguments: tuple[str, ...], hint: str) -> None:
    result = shell.run(*arguments)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: No such command {hint}")


def every_command(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, *before, name)


def test_every_command_and_option_says_what_it_is(shell: Shell) -> None:
    """And options take what their names say: no RANGE, no PATH."""
    for path, command in every_command(main):
        told = shell.ok(*path, "--help")
        assert command.help, path
        assert not re.search(r"\b(INTEGER|FLOAT|RANGE|PATH|DIRECTORY)\b", told), path
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, (path, option.opts)
        if isinstance(command, click.Group):
            assert "..." not in told.partition("Commands:")[2], path


def test_a_refusal_is_said_without_the_request(shell: Shell) -> None:
    for command in (("queue", "delete", "gone"), ("queue", "show", "gone")):
        assert shell.run(*command).stderr == "Error: there is no queue 'gone' (amqp:not-found)\n"
    again = shell.run("subscription", "show", "news::mine")
    assert again.stderr == "Error: there is no subscription 'news::mine' (amqp:not-found)\n"
    shell.ok("queue", "create", "twice")
    assert shell.run("queue", "create", "twice").stderr.startswith("Error: queue 'twice' exists already (")


def test_help_and_version(shell: Shell) -> None:
    assert __version__ in shell.ok("--version")
    for command in ("serve", "queue", "put", "get", "browse", "user", "ledger"):
        assert command in shell.ok("--help")
        assert "Usage" in shell.ok(command, "--help")


def test_quotas_are_created_changed_listed_and_deleted(shell: Shell, queue: str) -> None:
    shell.ok("quota", "create", queue, "--set", "messages_maximum=5", "--set", "policy=preemptive")
    shell.ok("queue", "create", queue, "--set", f"quota={queue}")
    shell.ok("put", queue, "a message")
    shell.ok("quota", "alter", queue, "--set", "bytes_maximum=1000")
    [listed] = [each for each in shell.json("quota", "list") if each["name"] == queue]
    assert (listed["messages_maximum"], listed["bytes_maximum"], listed["messages_used"]) == (5, 1000, 1)
    assert "blocked" in shell.ok("quota", "list")
    assert shell.run("quota", "delete", queue).exit_code == 3
    shell.ok("queue", "delete", queue)
    shell.ok("quota", "delete", queue)
    assert shell.run("quota", "alter", queue, "--set", "shared=yes").exit_code == 3
