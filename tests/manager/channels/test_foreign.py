"""The sending end of a channel whose partner says of each message whether it has it, not of batches."""

import pytest

from postroom.manager.kernel.effects import Delivery
from tests.manager.channel_world import CHANNEL, Sender


@pytest.fixture
def sender() -> Sender:
    world = Sender()
    for number in range(6):
        world.send(b"%d" % number)
    world.start()
    return world


def bodies(sender: Sender) -> list[bytes]:
    sender.start()
    found = [delivery.body[-1:] for delivery in take(sender)]
    sender.stop()
    return found


def take(sender: Sender) -> list[Delivery]:
    before = len(sender.delivered)
    sender.take(9)
    return sender.delivered[before:]


@pytest.mark.parametrize("restart", [False, True])
def test_what_has_arrived_is_forwarded_and_the_rest_goes_back_to_its_place(
    sender: Sender, restart: bool
) -> None:
    taken = take(sender)
    arrived = {taken[place].entry for place in (0, 2, 3)}
    assert sender.end is not None
    sender.manager.channels.close_partly(sender.end, arrived, 3, sender.now_us)
    sender.turn()
    if restart:
        sender.restart()
    sync = sender.manager.channels.sync(CHANNEL)
    assert (sync.last_sequence, sync.in_doubt) == (3, None)
    assert bodies(sender) == [b"1", b"4", b"5"]


def test_batches_that_were_ended_are_closed_so_too(sender: Sender) -> None:
    sender.take(2)
    sender.end_batch()
    taken = take(sender)
    first = sender.delivered[0].entry
    assert sender.end is not None
    sender.manager.channels.close_partly(sender.end, {first, taken[-1].entry}, 4, sender.now_us)
    sender.turn()
    assert not sender.manager.channels.by_name[CHANNEL].batches
    assert bodies(sender) == [b"1", b"2", b"3", b"4"]


def test_nothing_has_arrived(sender: Sender) -> None:
    take(sender)
    assert sender.end is not None
    sender.manager.channels.close_partly(sender.end, set(), 0, sender.now_us)
    sender.turn()
    assert sender.manager.channels.sync(CHANNEL).last_sequence == 0
    assert len(bodies(sender)) == 6
