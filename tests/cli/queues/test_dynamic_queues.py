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
    assert "1 dynamic queues (--all)" in shell.ok("queue", "list")  # the command's own, for its answers
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        for number in range(COUNT):
            mine = session.create_temporary_queue()
            session.create_producer(mine.destination).send(f"{number}")
        session.create_temporary_topic()
        told = shell.ok("queue", "list")
        (line,) = (each for each in told.splitlines() if "dynamic" in each)
        assert line.startswith(f"{COUNT + 1} dynamic queues (--all)") and DYNAMIC_PREFIX not in told
        current = line.partition("(--all)")[2].split()[0]
        assert current == f"{COUNT}" and queue in told
        assert shell.ok("queue", "list", "--all").count(DYNAMIC_PREFIX) == COUNT + 1
        assert "1 dynamic topics (--all)" in shell.ok("topic", "list")
        assert "dynamic" not in shell.ok("queue", "list", queue)
        assert len(shell.json("queue", "list", DYNAMIC_PREFIX)) == 0
        assert len(shell.json("queue", "list", DYNAMIC_PREFIX, "--all")) == COUNT + 1
