"""A partner that doesn't take what a channel sends: nothing that could be delivered is lost, nothing is left
in doubt, and the retries run down.

The brokers, ledgers and engines are real, with the agents at both ends; time is virtual.
"""

from typing import Any

import pytest

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.manager.headers.dead_letter_header import header_of
from postroom.manager.kernel.errors import ChannelNotInDoubt, QueueInUse
from postroom.model.channel_states import ChannelState
from postroom.model.mq import Reason
from postroom.server.channels.instance import StopMode
from tests.server.channels.channel_pair import start, stop
from tests.server.channels.refusing_partner import create_queue, make, put_behind_a_refused_one
from tests.server.channels.stations import Stations
from tests.simulation.channels.audit import Audit


def sync(world: Stations, name: str = "A") -> Any:
    return world.nodes[name].manager.channels.sync("A.B")


def something_is_lost(world: Stations) -> bool:
    """Whether the ledgers say that a message, not persistent, has ended on its way; all others must pair
    off."""
    audit = Audit({name: node.disk for name, node in world.nodes.items()})
    audit.check()
    return bool(audit.lost())


# Fast messages.


@pytest.mark.parametrize("batch_size", [1, 3, 50, 200])
def test_fast_messages_behind_a_refused_one_are_all_delivered(batch_size: int) -> None:
    world = make({"batch_size": batch_size, "short_retry_count": 10})
    put_behind_a_refused_one(world)
    start(world)
    assert world.state("A") == "RETRYING"
    for _ in range(3):
        world.pass_s(1)
        assert world.state("A") == "RETRYING"
        assert world.depth("A", "B") + world.depth("B", "in") == 16
    create_queue(world, "LATE")
    world.pass_s(1)
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("A", "B"), world.depth("B", "in"), world.depth("B", "LATE")) == (0, 15, 1)
    assert not something_is_lost(world)


def test_a_fast_message_is_held_until_the_partner_has_it() -> None:
    world = make()
    start(world)
    world.frozen = {"B"}
    world.put("A", "in@B", "fast", durable=False)
    assert world.depth("A", "B") == 1 and world.channel("A").instance.link.status().outside == 1  # type: ignore[union-attr]
    world.frozen = set()
    world.settle()
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 1)


def paused_behind_a_full_queue() -> Stations:
    """B tries to put a persistent message again; a fast one and a persistent one have come behind it."""
    queues = [{"name": "full", "max_messages": 1}, {"name": "in"}]
    world = make({"short_retry_count": 10}, {"message_retry_count": 100}, queue=queues)
    world.put("B", "full", "there")
    world.put("A", "full@B", "waits")
    world.put("A", "in@B", "fast", durable=False)
    world.put("A", "in@B", "slow")
    start(world)
    assert world.state("B") == "PAUSED"
    assert (world.depth("B", "in"), world.depth("A", "B")) == (0, 3)
    return world


def make_room(world: Stations) -> None:
    world.nodes["B"].manager.purge_queue("full", world.now_us)


@pytest.mark.parametrize("end", ["sender forces", "sender terminates", "line breaks"])
def test_a_fast_message_that_has_come_is_put_when_the_link_ends(end: str) -> None:
    world = paused_behind_a_full_queue()
    if end == "line breaks":
        world.cut()
    else:
        stop(world, "A", StopMode.FORCE if end == "sender forces" else StopMode.TERMINATE)
    assert (world.depth("B", "in"), world.depth("A", "B")) == (1, 2)
    make_room(world)
    start(world)
    assert (world.depth("B", "in"), world.depth("A", "B")) == (2, 0)
    assert not something_is_lost(world)


@pytest.mark.parametrize("mode", [StopMode.QUIESCE, StopMode.FORCE], ids=lambda mode: mode.name)
def test_a_fast_message_that_a_stopped_partner_has_not_taken_is_sent_again(mode: StopMode) -> None:
    world = paused_behind_a_full_queue()
    stop(world, "B", mode)
    assert world.states() == ("RETRYING", "STOPPED")
    assert (world.depth("B", "in"), world.depth("A", "B")) == (0, 3)
    assert (sync(world).in_doubt is None) == (mode == StopMode.QUIESCE)
    make_room(world)
    start(world, "B")
    world.pass_s(1)
    assert (world.depth("B", "in"), world.depth("A", "B")) == (2, 0)
    assert not something_is_lost(world)


def test_an_orderly_end_of_the_partner_loses_no_fast_message() -> None:
    world = paused_behind_a_full_queue()
    world.nodes["B"].stop(world.now_us)
    world.settle()
    world.restart("B")
    assert world.depth("A", "B") == 3
    make_room(world)
    world.pass_s(1)
    assert (world.depth("B", "in"), world.depth("A", "B")) == (2, 0)
    assert not something_is_lost(world)


def test_what_is_lost_with_a_broken_line_is_said_to_be_lost() -> None:
    world = make()
    start(world)
    world.frozen = {"B"}
    world.put("A", "in@B", "fast", durable=False)
    world.restart("B")
    world.frozen = set()
    world.settle()
    assert (world.depth("A", "B"), world.depth("B", "in")) == (0, 0)
    assert something_is_lost(world)


# Batches.


def test_a_refused_batch_is_back_on_its_queue_and_nothing_is_in_doubt() -> None:
    world = make({"short_retry_count": 10})
    put_behind_a_refused_one(world)
    start(world)
    channel, queue = world.channel("A"), world.nodes["A"].manager.queues["B"]
    assert world.state("A") == "RETRYING" and "MQRC_UNKNOWN_OBJECT_NAME" in channel.reason
    assert sync(world).in_doubt is None and not queue.held and not channel.channel.batches
    channels = world.broker("A").channels
    for commit in (True, False):
        with pytest.raises(ChannelNotInDoubt):
            channels.resolve("A.B", commit, world.now_us)
    channels.reset("A.B", 7, world.now_us)
    create_queue(world, "LATE")
    world.pass_s(1)
    assert (world.depth("A", "B"), sync(world).last_sequence) == (0, 12)


@pytest.mark.parametrize("restart", [False, True])
def test_a_channel_with_a_refused_batch_can_be_deleted(restart: bool) -> None:
    world = make({"short_retry_count": 10})
    put_behind_a_refused_one(world)
    start(world)
    if restart:
        world.restart("A")
    world.broker("A").channels.delete("A.B", world.now_us)
    assert world.depth("A", "B") == (6 if restart else 16)


def test_batches_before_the_refused_one_are_answered_first() -> None:
    world = make({"batch_size": 2, "short_retry_count": 10})
    world.put("A", "in@B", *"abcdef")
    world.put("A", "LATE@B", "refused")
    world.put("A", "in@B", "g")
    start(world)
    assert sync(world).in_doubt is None
    assert (sync(world).last_luwid, sync(world).last_sequence) == (sync(world, "B").last_luwid, 6)
    assert (world.depth("B", "in"), world.depth("A", "B")) == (6, 2)


# Retries.


def test_refused_batches_use_up_the_retries() -> None:
    world = make({"short_retry_count": 4, "long_retry_interval_s": 1})
    put_behind_a_refused_one(world)
    start(world)
    seen = []
    for _ in range(7):
        seen.append((world.state("A"), world.channel("A").short_left, world.channel("A").long_left))
        world.pass_s(1)
    short, long = [(left, 2) for left in (3, 2, 1, 0)], [(0, 1), (0, 0)]
    assert seen == [*(("RETRYING", *left) for left in (*short, *long)), ("STOPPED", 0, 0)]
    assert "MQRC_UNKNOWN_OBJECT_NAME" in world.channel("A").reason
    assert world.depth("A", "B") == 16


@pytest.mark.parametrize("durable", [True, False])
def test_what_the_partner_confirms_gives_the_retries_back(durable: bool) -> None:
    world = make({"short_retry_count": 4})
    world.put("A", "LATE@B", "refused")
    start(world)
    world.pass_s(1)
    assert world.channel("A").short_left == 2
    create_queue(world, "LATE")
    world.nodes["A"].manager.purge_queue("B", world.now_us)
    world.put("A", "in@B", "confirmed", durable=durable)
    world.pass_s(1)
    assert world.state("A") == ChannelState.RUNNING.name
    assert world.channel("A").short_left == 4


def test_a_queue_of_depth_0_is_full_and_is_tried_again() -> None:
    queues: list[dict[str, Any]] = [{"name": "shut", "max_messages": 0}, {"name": "dead"}]
    retries = {"message_retry_count": 2, "message_retry_interval_ms": 1000}
    world = make(receiver=retries, queue=queues, queue_manager={"dead_letter_queue": "dead"})
    world.put("A", "shut@B", "no room")
    start(world)
    assert world.states() == ("RUNNING", "PAUSED")
    world.pass_s(1)
    assert world.state("B") == "PAUSED" and world.depth("B", "dead") == 0
    world.pass_s(1)
    assert world.states() == ("RUNNING", "RUNNING")
    assert (world.depth("B", "dead"), world.depth("A", "B")) == (1, 0)
    (letter,) = world.nodes["B"].manager.queues["dead"].bands[4].waiting()
    assert letter.body is not None
    head = scan_head(letter.body)
    fields = MessageFields(letter.priority, True, 0, letter.body[head.bare_offset :], None)
    header = header_of(fields.annotation("x-opt-dead-letter"))
    assert header is not None and header.reason == Reason.Q_FULL


def test_a_queue_whose_batch_is_in_doubt_is_deleted_by_force() -> None:
    """The channel ends in order, at both ends, though the answer comes to nobody."""
    world = make()
    start(world)
    world.frozen = {"B"}
    world.put("A", "in@B", "slow", "fast")
    assert sync(world).in_doubt is not None
    manager = world.nodes["A"].manager
    with pytest.raises(QueueInUse):
        manager.delete_queue("B", False, False, world.now_us)
    manager.delete_queue("B", False, False, world.now_us, True, "ann")
    world.nodes["A"].turn_wanted = True
    world.settle()
    world.frozen = set()
    world.pass_s(1)
    assert "B" not in manager.queues
    for _ in range(2):
        assert sync(world).in_doubt is None and not world.channel("A").channel.batches
        world.restart("A")
        assert world.depth("A", "B") == 0, "it is in the configuration, and empty"
