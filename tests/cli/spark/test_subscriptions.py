"""`postroom spark-subscription` against a running broker."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


class SparkShell(Shell):
    def spark(self, *arguments: str) -> str:
        return self.ok("spark-subscription", *arguments)


@pytest.fixture
def shell() -> Iterator[SparkShell]:
    with BrokerThread() as broker:
        made = SparkShell(broker.url, columns=300)
        made.ok("queue", "create", "orders")
        made.spark("create", "lake", "--queue", "orders", "--window", "5")
        yield made


def test_they_are_listed_and_shown(shell: SparkShell) -> None:
    (row,) = [line for line in shell.spark("list").splitlines() if "lake" in line]
    assert row.split()[:4] == ["lake", "orders", "0", "5"]
    (said,) = (json.loads(line) for line in shell.spark("list", "--json").splitlines())
    assert (said["state"], said["held"], said["window"]) == ("active", 0, 5)
    lines = shell.spark("show", "lake").splitlines()
    assert "queue: orders" in lines and "ended_us: never" in lines
    assert json.loads(shell.spark("show", "lake", "--json"))["lease_s"] == 604_800


def test_one_is_changed_and_deleted(shell: SparkShell) -> None:
    assert json.loads(shell.spark("alter", "lake", "--window", "7", "--json"))["window"] == 7
    assert shell.run("queue", "delete", "orders").exit_code != 0
    shell.ok("queue", "delete", "orders", "--force")
    assert shell.run("spark-subscription", "show", "lake").exit_code != 0
    shell.ok("queue", "create", "orders")
    shell.spark("create", "lake", "--queue", "orders")
    assert shell.spark("delete", "lake") == "deleted lake\n"
    assert shell.spark("list", "--json") == ""
