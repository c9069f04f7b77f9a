"""`postroom store list` and `store end`: who holds messages by the verbs of the message store, and what an
administrator does about it.
"""

import json
from pathlib import Path

import pytest

from postroom.server.configuration.passwords import hash_password
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


def held(shell: Shell, queue: str) -> list[dict[str, object]]:
    return sorted(shell.json("store", "list", queue), key=lambda row: int(str(row["name"])))


def test_a_confirm_id_and_a_lock_are_listed_and_ended(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    assert held(shell, queue) == []
    for number in (1, 2, 3):
        shell.ok("store", "put", queue, f"body {number}", "--uid", f"QM:{number}")
    shell.ok("store", "put", queue, "unconfirmed", "--uid", "QM:4", "--confirm-id", "7")
    shell.ok("store", "get", queue, "--uid", "QM:1", "--confirm-id", "7")
    (lock, *_) = shell.json("store", "lock", queue, "--lease-s", "600")
    shell.ok("store", "get", queue, "--lock-id", str(lock["lock_id"]), "--uid", "QM:2", "--confirm-id", "8")
    of_7, of_lock, of_8 = held(shell, queue)
    assert [of_7[key] for key in ("kind", "confirm_id", "messages", "lock_id")] == ["confirm-id", 7, 2, 0]
    assert [of_lock[key] for key in ("kind", "messages", "messages_got")] == ["browse-lock", 1, 1]
    assert of_lock["lock_id"] == lock["lock_id"] == of_8["lock_id"] == int(str(of_lock["name"]))
    assert (of_8["confirm_id"], of_8["messages"]) == (8, 1)
    assert all(int(str(each["since_us"])) > 0 for each in (of_7, of_lock, of_8))
    told = shell.ok("store", "list", queue)
    assert f"8 (through lock {lock['lock_id']})" in told and "1, 1 got through it" in told
    assert shell.ok("store", "end", str(of_7["name"])) == "gave back 2 messages\n"
    assert shell.ok("store", "end", str(of_lock["name"])) == "gave back 1 messages\n"
    assert shell.json("store", "end", str(of_8["name"])) == [{"count": 1}]
    assert held(shell, queue) == []
    assert [each["uid"] for each in shell.json("store", "browse", queue)] == ["QM:1", "QM:2", "QM:3"]
    assert shell.run("store", "confirm", queue, "--confirm-id", "7").exit_code == 4


@pytest.mark.parametrize("name", ["7", "x", "-1", "9" * 30, "0"])
def test_what_holds_nothing_can_not_be_ended(shell: Shell, queue: str, name: str) -> None:
    result = shell.run("store", "end", "--", name)
    assert result.exit_code == 3 and len(result.stderr.splitlines()) == 1 and name in result.stderr
    missing = shell.run("store", "list", f"no.{queue}")
    assert missing.exit_code == 3 and f"no.{queue}" in missing.stderr


def test_they_are_told_over_a_restart_and_the_ledger_says_who_ended_them(tmp_path: Path) -> None:
    config = make_config(users={"app": hash_password("sesame"), "boss": hash_password("sesame")})
    with BrokerThread(config, folder=tmp_path) as broker:
        shell = Shell(broker.url.replace("//", "//app:sesame@"))
        shell.ok("queue", "create", "q")
        shell.ok("store", "put", "q", "a", "--uid", "QM:1")
        shell.ok("store", "put", "q", "b", "--uid", "QM:2")
        shell.ok("store", "get", "q", "--uid", "QM:1", "--confirm-id", "7")
        shell.ok("store", "lock", "q")
        before = held(shell, "q")
        assert [each["user"] for each in before] == ["app", "app"]
    with BrokerThread(config, folder=tmp_path) as broker:
        shell = Shell(broker.url.replace("//", "//boss:sesame@"))
        assert held(shell, "q") == before
        for each in before:
            shell.ok("store", "end", str(each["name"]))
        assert len(shell.json("store", "browse", "q")) == 2
    dumped = Shell("").ok("ledger", "dump", "--data", str(tmp_path), "--json", "--queue", "q")
    ended = [json.loads(line) for line in dumped.splitlines() if "postroom:administrator" in line]
    assert {each["event"].lower() for each in ended} == {"undo", "unlock"}
    assert all(each["detail"]["user"] == "boss" for each in ended)
    Shell("").ok("ledger", "verify", "--data", str(tmp_path))
    with BrokerThread(config, folder=tmp_path) as broker:
        shell = Shell(broker.url.replace("//", "//boss:sesame@"))
        assert held(shell, "q") == [] and shell.ok("get", "q", "-n", "0") == "a\nb\n"
