"""`postroom store`: every verb against a running broker."""

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.sockets


def test_a_put_and_a_get_in_two_steps(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    put = ("store", "put", queue, "apples", "--uid", "QM1:5", "--confirm-id", "7", "--message-id", "m1")
    assert shell.ok(*put) == "QM1:5\n"
    nothing = shell.run("store", "get", queue)
    assert nothing.exit_code == 4 and "Except_Q_NoMatchingMsg" in nothing.stderr
    assert (
        shell.ok("store", "confirm", queue, "--confirm-id", "7", "--put", "QM1:5") == "confirmed 1 messages\n"
    )
    (got,) = shell.json("store", "get", queue, "--message-id", "m1", "--confirm-id", "8")
    assert (got["uid"], got["body"], got["message_id"]) == ("QM1:5", "apples", "m1")
    assert shell.json("store", "undo", queue, "--confirm-id", "8") == [{"count": 1}]
    shell.ok("store", "get", queue, "--uid", "QM1:5", "--confirm-id", "8")
    shell.ok("store", "confirm", queue, "--confirm-id", "8", "--get", "QM1:5")
    assert shell.run("store", "confirm", queue, "--confirm-id", "8").exit_code == 4


def test_a_duplicate_is_refused_and_a_resend_is_not(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    shell.ok("store", "put", queue, "a", "--uid", "QM1:5")
    again = shell.run("store", "put", queue, "b", "--uid", "QM1:5")
    assert again.exit_code == 3 and "Except_Duplicate" in again.stderr
    shell.ok("store", "put", queue, "b", "--uid", "QM1:5", "--resend")
    assert shell.ok("store", "browse", queue).endswith("  b\n")


def test_browse_lock_unlock_delete(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    for number in (1, 2, 3):
        shell.ok("store", "put", queue, f"body {number}", "--uid", f"QM:{number}", "--priority", str(number))
    lock, *locked = shell.json("store", "lock", queue)
    assert [each["uid"] for each in locked] == ["QM:3", "QM:2", "QM:1"]
    lock_id = str(lock["lock_id"])
    assert shell.json("store", "browse", queue) == []
    assert len(shell.json("store", "browse", queue, "--lock-id", lock_id, "--just-uid")) == 3
    shell.ok("store", "delete", queue, "--uid", "QM:3", "--lock-id", lock_id)
    assert (
        shell.ok("store", "unlock", queue, "--lock-id", lock_id, "--uid", "QM:1") == "unlocked 1 messages\n"
    )
    (free,) = shell.json("store", "browse", queue, "--priority", "1")
    assert free["body"] == "body 1"
    assert shell.json("store", "unlock", queue, "--lock-id", lock_id) == [{"count": 1}]


def test_a_lock_of_nothing(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    assert shell.ok("store", "lock", queue) == "no message matches: there is no lock\n"
    assert shell.json("store", "lock", queue) == [{"lock_id": 0}]


def test_wait(shell: Shell, queue: str) -> None:
    shell.ok("queue", "create", queue)
    assert shell.run("store", "wait", queue, "--timeout-s", "0").exit_code == 4
    shell.ok("store", "put", queue, "a")
    (got,) = shell.json("store", "wait", queue)
    assert got["body"] == "a"


@pytest.mark.parametrize("uid", ["", "QM1", ":5", "QM:x"])
def test_what_is_no_unique_id(shell: Shell, queue: str, uid: str) -> None:
    result = shell.run("store", "delete", queue, "--uid", uid)
    assert result.exit_code == 2 and "ORIGIN:TIME" in result.stderr
