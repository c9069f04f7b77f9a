"""Queues that clients have had made for themselves are one line, unless one asks for all."""

import pytest

from postroom.client import ConnectionFactory
from postroom.model.names import DYNAMIC_PREFIX
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

COUNT = 30


def test_reply_queues_are_one_line_of_the_list(broker: BrokerThread, shell: Shell, queue: str) -> None:
    shell.ok("put", queue, "a")
    assert "dynamic" not in shell.ok("queue", "list"), "commands have their answers on links"
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        for number in range(COUNT):
            mine = session.create_temporary_queue()
            session.create_producer(mine.destination).send(f"{number}")
        session.create_temporary_topic()
        output = shell.ok("queue", "list")
        (line,) = (each for each in output.splitlines() if "dynamic" in each)
        assert line.startswith(f"{COUNT} dynamic queues (--all)") and DYNAMIC_PREFIX not in output
        current = line.partition("(--all)")[2].split()[0]
        assert current == f"{COUNT}" and queue in output
        assert shell.ok("queue", "list", "--all").count(DYNAMIC_PREFIX) == COUNT
        assert "1 dynamic topics (--all)" in shell.ok("topic", "list")
        assert "dynamic" not in shell.ok("queue", "list", queue)
        assert len(shell.json("queue", "list", DYNAMIC_PREFIX)) == 0
        assert len(shell.json("queue", "list", DYNAMIC_PREFIX, "--all")) == COUNT
