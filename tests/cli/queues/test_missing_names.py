"""Commands that read say that there is no such queue, and make none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.server.client_messages import nodes
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

READING = (
    ("get",),
    ("browse",),
    ("queue", "stats"),
    ("queue", "delete"),
    ("queue", "purge"),
    ("queue", "pause"),
    ("subscription", "stats"),
    ("message", "list"),
    ("message", "show", "--serial", "1"),
    ("message", "delete", "--all"),
    ("store", "get"),
    ("store", "browse"),
    ("store", "lock"),
    ("dlq", "list"),
    ("dlq", "replay", "--all"),
)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_name_that_nothing_has_is_refused_with_names_like_it(
    broker: BrokerThread, shell: Shell, command: tuple[str, ...]
) -> None:
    if "orders.checked" not in nodes(broker):
        shell.ok("queue", "create", "orders.checked")
    before = nodes(broker)
    result = shell.run(*command, "orders.cheked")
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (3, "", 1), result.stderr
    assert "'orders.cheked'" in result.stderr
    assert "did you mean 'orders.checked'?" in result.stderr
    assert "Traceback" not in result.output
    assert nodes(broker) == before


@pytest.mark.parametrize("more", [(), ("--wait-s", "0.1")])
def test_no_topic_is_made_by_reading_from_it(
    broker: BrokerThread, shell: Shell, queue: str, more: tuple[str, ...]
) -> None:
    before = nodes(broker)
    result = shell.run("get", f"no.{queue}", "--topic", *more)
    assert result.exit_code == 3 and f"no.{queue}" in result.stderr
    assert nodes(broker) == before
    assert shell.run("get", "no.*", "--topic").exit_code == 4  # a pattern may well mean nothing yet


def test_the_name_with_this_queue_manager_is_no_way_round(
    broker: BrokerThread, shell: Shell, queue: str
) -> None:
    shell.ok("put", queue, "a")
    own = broker.call(lambda running: running.manager.options.queue_manager)
    assert shell.ok("browse", f"{queue}@{own}") and shell.ok("get", f"{queue}@{own}") == "a\n"
    before = nodes(broker)
    result = shell.run("get", f"{queue}.typo@{own}")
    assert result.exit_code == 3 and f"there is no queue '{queue}.typo'" in result.stderr
    elsewhere = shell.run("get", f"{queue}@elsewhere")
    assert elsewhere.exit_code == 3 and "MQRC_OPTION_NOT_VALID_FOR_TYPE" in elsewhere.stderr
    assert nodes(broker) == before


def test_what_moves_to_a_queue_that_is_not_there_gets_no_hint_at_its_own_name(
    shell: Shell, queue: str
) -> None:
    shell.ok("put", queue, "a")
    result = shell.run("message", "move", queue, f"{queue}.x", "--all")
    assert result.exit_code == 3 and "did you mean" not in result.stderr


def test_the_handler_of_dead_letters_makes_no_queue(
    broker: BrokerThread, shell: Shell, queue: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules"
    rules.write_text("WAIT(NO)\nACTION(DISCARD)\n")
    before = nodes(broker)
    result = shell.run("dlq", "handle", "--rules", str(rules), "--inputq", f"no.{queue}")
    assert result.exit_code == 3 and f"no.{queue}" in result.stderr
    assert nodes(broker) == before


@pytest.mark.parametrize("command", ["get", "browse"])
def test_a_process_ends_with_one_line_and_its_exit_code(
    broker: BrokerThread, queue: str, command: str
) -> None:
    before = nodes(broker)
    done = subprocess.run(
        [sys.executable, "-m", "postroom", command, f"no.{queue}"],
        env={**os.environ, "POSTROOM_URL": broker.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1 and "no." in done.stderr
    assert nodes(broker) == before
