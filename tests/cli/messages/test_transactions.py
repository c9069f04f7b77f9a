"""`postroom transaction` against a running broker."""

from collections.abc import Iterator

import pytest

from postroom.model.xa import XaCode, Xid
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, new_xid, prepared

pytestmark = pytest.mark.sockets


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def controller(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    with EnginePeer(broker.port, container_id="orders") as peer:
        yield Controller(broker, peer, queue)


@pytest.fixture
def queue() -> str:
    return "q"


@pytest.fixture
def shell(broker: BrokerThread) -> Shell:
    return Shell(broker.url, "transaction", columns=300)


def test_branches_and_local_transactions_are_listed(controller: Controller, shell: Shell) -> None:
    xid = new_xid()
    prepared(controller, xid)
    controller.send("x", controller.declare())
    branch, local = shell.json("list")
    assert (branch["kind"], branch["name"], branch["state"]) == ("xa", str(xid), "prepared")
    assert (local["kind"], local["state"], local["puts"]) == ("local", "active", 1)
    assert [row["kind"] for row in shell.json("list", "xa")] == ["xa"]
    assert [row["kind"] for row in shell.json("list", "local")] == ["local"]
    table = shell.ok("list")
    assert str(xid) in table and "prepared" in table and "orders" in table


def test_one_of_them_is_shown(controller: Controller, shell: Shell) -> None:
    xid = new_xid()
    prepared(controller, xid)
    controller.declare()
    shown = shell.ok("show", str(xid))
    assert f"name: {xid}\n" in shown and "state: prepared\n" in shown and "container_id: orders\n" in shown
    (local,) = shell.json("list", "local")
    (again,) = shell.json("show", str(local["name"]))
    assert again["since_us"] == local["since_us"]


def test_an_administrator_commits_rolls_back_and_forgets(controller: Controller, shell: Shell) -> None:
    commits, rolls_back = new_xid(), new_xid()
    prepared(controller, commits)
    prepared(controller, rolls_back)
    assert shell.ok("commit", str(commits)) == f"heuristically committed {commits}\n"
    assert shell.json("rollback", str(rolls_back)) == [{"xids": [str(rolls_back)], "refused": []}]
    assert {row["state"] for row in shell.json("list", "xa")} == {
        *("heuristically-committed", "heuristically-rolled-back"),
    }
    assert controller.verb("COMMIT", commits) == XaCode.XA_HEURCOM
    assert shell.ok("forget", str(commits)) == f"forgot {commits}\n"
    assert controller.verb("COMMIT", commits) == XaCode.XAER_NOTA


def test_wildcards(controller: Controller, shell: Shell) -> None:
    """What is meant and can't be decided is told on standard error; the others are decided."""
    ready, active = Xid(0x55, b"1", b"b"), Xid(0x55, b"2", b"b")
    prepared(controller, ready)
    controller.start(active)
    result = shell.run("commit", "00000055-*-62")
    assert (result.exit_code, result.stdout) == (0, f"heuristically committed {ready}\n")
    assert f"{active} is active" in " ".join(result.stderr.split())
    assert shell.ok("forget", "00000055-??-62") == f"forgot {ready}\n"
    result = shell.run("rollback", "00000055-*")
    assert (result.exit_code, result.stdout) == (3, "")


def test_what_can_not_be_decided(controller: Controller, shell: Shell) -> None:
    nowhere = str(new_xid())
    for command in ("commit", "rollback", "forget"):
        result = shell.run(command, nowhere)
        assert (result.exit_code, "XAER_NOTA" in result.stderr) == (3, True)
        result = shell.run(command, "no-xid-this")
        assert (result.exit_code, "is no Xid" in result.stderr) == (3, True)
        result = shell.run(command, "ffff*")
        assert (result.exit_code, "no branch matches ffff*" in result.stderr) == (3, True)
        assert shell.run(command).exit_code == 2
    assert shell.run("show", nowhere).exit_code == 3
    assert shell.run("show", "12345").exit_code == 3
    assert shell.run("list", "both").exit_code == 2


def test_an_empty_list(shell: Shell) -> None:
    assert shell.json("list") == []
    assert "transaction" in shell.ok("list")
