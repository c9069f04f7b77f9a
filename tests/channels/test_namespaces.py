"""Three queue managers in network namespaces: a pulled cable says nothing, only heartbeats find it out."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory
from tests.channels.managers import WAIT_S
from tests.channels.namespaces import Cable, Machine, Namespace, why_not

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are namespaces"),
]
COUNT = 40
HEARTBEAT_S = 1
Machines = tuple[Machine, Machine, Machine]


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    made: list[Namespace] = []
    try:
        for _ in range(3):
            made.append(Namespace())
        yield made
    finally:
        for space in made:
            space.remove()


def state_of(machine: Machine, channel: str) -> object:
    with ConnectionFactory(machine.url).create_connection() as connection:
        return connection.create_management().read("postroom.channel", channel)["state"]


def wait_until(machine: Machine, channel: str, state: str) -> None:
    end = time.monotonic() + WAIT_S
    while (found := state_of(machine, channel)) != state:
        assert time.monotonic() < end, f"{channel} is {found}, not {state}"


def test_a_pulled_cable_loses_and_doubles_nothing(tmp_path: Path, spaces: list[Namespace]) -> None:
    names = ("LONDON", "PARIS", "ROME")
    london, paris, rome = (Machine(tmp_path, name, space) for name, space in zip(names, spaces, strict=True))
    first, second = Cable(spaces[0], spaces[1]), Cable(spaces[1], spaces[2])
    london.sends_to(paris, 5672, heartbeat_s=HEARTBEAT_S, host=first.there_host)
    paris.sends_to(rome, 5672, heartbeat_s=HEARTBEAT_S, host=second.there_host)
    london.alias("ROME", "PARIS")
    rome.queue("archive")
    with ExitStack() as stack:
        for machine in (london, paris, rome):
            stack.enter_context(machine)
        sent: list[str] = []

        def put(until: int) -> None:
            more = [f"m{number}" for number in range(len(sent), until)]
            sent.extend(more)
            london.put("archive@ROME", more)

        put(COUNT)
        found = rome.take("archive", {sent[-1]})
        for cable, sender, channel in ((first, london, "LONDON.PARIS"), (second, paris, "PARIS.ROME")):
            cable.pull()
            put(len(sent) + COUNT)
            wait_until(sender, channel, "retrying")
            put(len(sent) + COUNT)
            cable.plug()
            found += rome.take("archive", {sent[-1]})
        assert found == sent
