"""`postroom sink` against a running broker."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.sink_peer import BATCH, begin, done, sealed, send_request
from tests.server.transaction_peer import Controller

pytestmark = pytest.mark.sockets


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def controller(broker: BrokerThread) -> Iterator[Controller]:
    with EnginePeer(broker.port, container_id="orders") as peer:
        yield Controller(broker, peer, "q")


@pytest.fixture
def shell(broker: BrokerThread, controller: Controller) -> Shell:
    name = sealed(controller, "app", "a")
    done(send_request(controller, "COMMIT", "app", branches=[name], **{**BATCH, "position": 12}))
    sealed(controller, "app", "b", batch_id=1)
    begin(controller, "app", batch_id=1, partition=3)
    return Shell(broker.url, "sink", columns=300)


def test_sinks_are_listed(shell: Shell) -> None:
    lines = shell.ok("list").splitlines()
    (row,) = [line for line in lines if "app" in line]
    assert row.split()[:4] == ["app", "q", "0", "12"]
    (output,) = (json.loads(line) for line in shell.ok("list", "--json").splitlines())
    assert (output["branches"], output["messages"], output["digest"]) == (2, 1, "d")


def test_a_sink_is_shown_with_its_branches(shell: Shell) -> None:
    output = shell.ok("show", "app")
    assert "position: 12" in output and "run_id: r1" in output
    assert "sealed" in output and "open" in output
    printed = json.loads(shell.ok("show", "app", "--json"))
    assert [each["partition"] for each in printed["open_branches"]] == [0, 3]


def test_branches_are_rolled_back(shell: Shell, controller: Controller) -> None:
    (first, _) = json.loads(shell.ok("show", "app", "--json"))["open_branches"]
    assert shell.ok("rollback", "app", first["name"]) == "rolled back 1 branches of app\n"
    assert controller.depth() == (1, 1)
    assert shell.run("rollback", "app", first["name"]).exit_code != 0
    assert json.loads(shell.ok("rollback", "app", "--json")) == {"rolled_back": 1}
    assert json.loads(shell.ok("list", "--json"))["batch_id"] == 0


def test_a_sink_is_forgotten(shell: Shell) -> None:
    assert shell.ok("forget", "app") == "forgot app\n"
    assert shell.ok("list", "--json") == ""
    for command in ("forget", "show", "rollback"):
        result = shell.run(command, "app")
        assert result.exit_code != 0 and "app" in result.output
