"""Channels between a single queue manager, LONDON, and a replicated one, PARIS, whose active member is killed
in the middle of a batch: each message arrives once, in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tools.peers.nats import NatsCluster

from postroom.ledger.verification.verification import Severity, verify
from tests.channels.managers import CHANNEL, WAIT_S, QueueManager

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader
FIRST, REST, BATCH_SIZE = 7, 493, 10
"""Messages of the batch that is open at the kill, those that come later (full batches with the first), and of
a full batch."""
OPEN_MS = 600_000
"""So long a batch that isn't full stays open."""
REPLICATION = """
[replication]
servers = {servers}
monitoring = {monitoring}
stream = "{stream}"
member = "{member}"
"""


def ends(receiver: str, sender: str, address: str) -> tuple[str, str]:
    """The tables of both ends of a channel whose batches stay open."""
    common = {"name": f"{sender}.{receiver}", "batch_size": BATCH_SIZE, "retry_s": 0, "heartbeat_s": 0}
    more = f'transmission_queue = "{receiver}"\nconnection = "{address}"\nbatch_interval_ms = {OPEN_MS}'
    transmission = f'\n[[queue]]\nname = "{receiver}"\nusage = "transmission"\n'
    sending = transmission + CHANNEL.format(type="sender", more=more, **common)
    return sending, CHANNEL.format(type="receiver", more="", **common)


@contextmanager
def running(
    folder: Path, nats: NatsCluster, stream: str
) -> Iterator[tuple[QueueManager, list[QueueManager]]]:
    """LONDON, and two members of PARIS of which the first is active; a channel in each direction."""
    london = QueueManager(folder, "LONDON").queue("orders")
    paris = []
    for name in "ab":
        (folder / name).mkdir()
        engine = {"servers": nats.urls, "monitoring": nats.monitoring, "stream": stream, "member": name}
        member = QueueManager(folder / name, "PARIS").queue("orders").tables(REPLICATION.format(**engine))
        paris.append(member)
    sending, receiving = ends("PARIS", "LONDON", ",".join(member.url for member in paris))
    london.tables(sending)
    back, back_receiving = ends("LONDON", "PARIS", london.url)
    london.tables(back_receiving)
    with ExitStack() as stack:
        for each in (london, *paris):
            stack.callback(each.kill)
        london.start()
        for member in paris:
            member.tables(receiving + back)
        paris[0].start()
        paris[1].launch()
        yield london, paris


def await_open_batch(manager: QueueManager, channel: str) -> None:
    """Until that end has the first messages in a batch that is open."""
    end_s = time.monotonic() + WAIT_S
    while (status := manager.channel(channel))["current_messages"] != FIRST:
        assert time.monotonic() < end_s, status


def assert_whole(*managers: QueueManager) -> None:
    """Ledgers of those that have stopped."""
    for manager in managers:
        found = verify(manager.folder, bodies=True)
        assert found.of(Severity.ERROR) == []
        assert found.records


NAMES = [f"m{number}" for number in range(FIRST + REST)]


def test_the_receiver_is_killed(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """What it had of the batch was never there; the sender finds who has taken over at the other address."""
    with running(tmp_path, nats, stream) as (london, (first, second)):
        london.put("orders@PARIS", NAMES[:FIRST])
        await_open_batch(first, "LONDON.PARIS")
        first.kill()
        london.put("orders@PARIS", NAMES[FIRST:])
        second.wait_until_ready()
        assert second.take("orders", {NAMES[-1]}) == NAMES
        london.stop()
        second.stop()
        assert_whole(london, second)


def test_the_sender_is_killed(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """Who takes over asks which batch the partner knows, and sends the rest."""
    with running(tmp_path, nats, stream) as (london, (first, second)):
        first.put("orders@LONDON", NAMES[:FIRST])
        await_open_batch(london, "PARIS.LONDON")
        first.kill()
        second.wait_until_ready()
        second.put("orders@LONDON", NAMES[FIRST:])
        assert london.take("orders", {NAMES[-1]}) == NAMES
        london.stop()
        second.stop()
        assert_whole(london, second)
