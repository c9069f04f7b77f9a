"""Channels as definitions: made, altered, deleted; what people say to them; what a restart keeps."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.administration.message_states import named, states_of
from postroom.manager.channels.channel import Channel
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.errors import (
    AccessRefused,
    ChannelExists,
    ChannelInUse,
    ChannelNotFound,
    ChannelNotInDoubt,
    ChannelSequenceError,
    DefinitionInvalid,
    LimitExceeded,
    NotAllowed,
    QueueInUse,
    QueueNotFound,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.model.channel import ChannelDefinition
from tests.manager.channel_world import CHANNEL, RECEIVER, SENDER, THERE, Receiver, Sender, resynchronise
from tests.manager.over_ledger import LedgerWorld


def a_world(**options: Any) -> LedgerWorld:
    return LedgerWorld(ManagerOptions(**options))


def state_of(channel: Channel) -> tuple[object, ...]:
    partners = [(p.id, p.queue_manager, p.ledger, p.luwid, p.sequence) for p in channel.partners.values()]
    own = (channel.id, channel.definition, channel.luwid, channel.sequence, channel.reset_sequence)
    return (*own, channel.status, partners, [(b.id, b.luwid, b.count) for b in channel.batches])


def in_doubt(sender: Sender, receiver: Receiver, count: int = 1) -> None:
    """Have a batch that the partner may have, the channel not running."""
    resynchronise(sender, receiver)
    for number in range(count):
        sender.send(b"%d" % number)
    sender.take(count)
    sender.end_batch()
    sender.turn()
    sender.stop()
    receiver.stop()


# --- definitions ----------------------------------------------------------------------------------


def test_the_same_definition_again_is_the_channel_that_is_there(sender: Sender) -> None:
    channels = sender.manager.channels
    assert channels.define(SENDER, sender.now_us) is channels.by_name[CHANNEL]
    with pytest.raises(ChannelExists, match="alter it"):
        channels.define(replace(SENDER, batch_size=1), sender.now_us)


def test_a_definition_that_can_not_be_names_its_key() -> None:
    world = a_world()
    with pytest.raises(DefinitionInvalid) as refused:
        world.manager.channels.define(ChannelDefinition("C", batch_size=0), world.now_us)
    assert refused.value.key == "batch_size"
    assert world.manager.channels.by_name == {}


def test_channels_are_bounded() -> None:
    world = a_world(max_channels=1)
    world.manager.channels.define(RECEIVER, world.now_us)
    with pytest.raises(LimitExceeded, match="max_channels"):
        world.manager.channels.define(replace(RECEIVER, name="OTHER"), world.now_us)


def test_an_altered_channel_keeps_its_state(receiver: Receiver) -> None:
    receiver.start()
    altered = replace(RECEIVER, batch_size=7)
    channel = receiver.manager.channels.alter(altered, receiver.now_us)
    assert channel.definition == altered and channel.running
    with pytest.raises(DefinitionInvalid) as refused:
        receiver.manager.channels.alter(replace(RECEIVER, type="requester", connection="amqp://a:1"), 0)
    assert refused.value.key == "type"
    with pytest.raises(ChannelNotFound):
        receiver.manager.channels.alter(replace(RECEIVER, name="OTHER"), 0)


def test_a_channel_that_runs_or_is_in_doubt_is_not_deleted(sender: Sender, receiver: Receiver) -> None:
    in_doubt(sender, receiver)
    channels = sender.manager.channels
    with pytest.raises(ChannelInUse, match="in doubt"):
        channels.delete(CHANNEL, sender.now_us)
    with pytest.raises(ChannelInUse, match="in doubt"):
        channels.alter(replace(SENDER, transmission_queue="OTHER"), sender.now_us)
    with pytest.raises(QueueInUse, match="channels"):
        sender.manager.delete_queue(THERE, False, False, sender.now_us)
    channels.resolve(CHANNEL, False, sender.now_us)
    sender.start()
    with pytest.raises(ChannelInUse, match="running"):
        channels.delete(CHANNEL, sender.now_us)
    sender.stop()
    channels.delete(CHANNEL, sender.now_us)
    assert CHANNEL not in channels.by_name


def test_a_deleted_channel_leaves_nothing_in_the_ledger(receiver: Receiver) -> None:
    receiver.start()
    receiver.manager.channels.reset(CHANNEL, 5, receiver.now_us, "none such")
    receiver.stop()
    receiver.manager.channels.reset(CHANNEL, 5, receiver.now_us)
    receiver.manager.channels.set_status(CHANNEL, {"state": "stopped"}, receiver.now_us)
    receiver.turn()
    recovered = receiver.recover()
    assert len(recovered.channels) == 1 and len(recovered.channel_states) == 2
    receiver.manager.channels.delete(CHANNEL, receiver.now_us)
    receiver.turn()
    recovered = receiver.recover()
    assert recovered.channels == [] and recovered.channel_states == []
    receiver.restart()
    receiver.manager.channels.define(RECEIVER, receiver.now_us)
    receiver.start()
    assert receiver.end is not None and receiver.end.last_sequence == 0


# --- ends -----------------------------------------------------------------------------------------


def test_who_can_not_send_or_receive_is_refused(sender: Sender, receiver: Receiver) -> None:
    with pytest.raises(NotAllowed, match="doesn't send"):
        receiver.manager.channels.open_sending(CHANNEL, Sink(), 0)
    with pytest.raises(NotAllowed, match="doesn't receive"):
        sender.manager.channels.open_receiving(CHANNEL, "X", "0a", 0)
    with pytest.raises(NotAllowed, match="own name"):
        receiver.manager.channels.open_receiving(CHANNEL, THERE, "0a", 0)
    with pytest.raises(ChannelNotFound):
        receiver.manager.channels.open_receiving("OTHER", "X", "0a", 0)


def test_a_transmission_queue_is_needed_for_itself_alone(sender: Sender) -> None:
    channels = sender.manager.channels
    channels.define(replace(SENDER, name="NO.QUEUE", transmission_queue="none"), 0)
    with pytest.raises(QueueNotFound, match="none"):
        channels.open_sending("NO.QUEUE", Sink(), 0)
    sender.queue("plain")
    channels.define(replace(SENDER, name="PLAIN", transmission_queue="plain"), 0)
    with pytest.raises(NotAllowed, match="usage"):
        channels.open_sending("PLAIN", Sink(), 0)
    consumer = sender.consumer(sender.manager.queue(THERE))
    with pytest.raises(AccessRefused):
        sender.start()
    sender.close(consumer)
    sender.start()
    with pytest.raises(AccessRefused):
        sender.consumer(sender.manager.queue(THERE))
    with pytest.raises(ChannelInUse, match="sends already"):
        sender.start()


def test_each_partner_has_a_sequence_of_its_own(receiver: Receiver, sender: Sender) -> None:
    resynchronise(sender, receiver)
    sender.send(b"1")
    for sent in sender.take(1):
        receiver.receive(sent)
    receiver.commit(sender.end_batch())
    receiver.turn()
    with pytest.raises(ChannelInUse, match="already"):
        receiver.start()
    receiver.start("0b")
    assert receiver.end is not None and receiver.end.last_sequence == 0
    sync = receiver.manager.channels.sync
    assert (sync(CHANNEL, "0a").last_sequence, sync(CHANNEL, "0b").last_sequence) == (1, 0)


def test_partners_are_bounded() -> None:
    receiver = Receiver()
    receiver.options = replace(receiver.options, max_channel_partners=1)
    receiver.restart()
    receiver.start()
    with pytest.raises(LimitExceeded, match="max_channel_partners"):
        receiver.start("0b")


# --- resolve and reset ----------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_what_is_in_doubt_is_resolved_by_hand(
    sender: Sender, receiver: Receiver, commit: bool, restart: bool
) -> None:
    in_doubt(sender, receiver, 3)
    if restart:
        sender.restart()
    channels = sender.manager.channels
    batch = channels.sync(CHANNEL).in_doubt
    assert batch is not None and batch.count == 3
    with pytest.raises(ChannelInUse, match="in doubt"):
        sender.start()
    channels.resolve(CHANNEL, commit, sender.now_us)
    sync = channels.sync(CHANNEL)
    assert sync.in_doubt is None
    assert (sync.last_luwid, sync.last_sequence) == ((batch.luwid, 3) if commit else (b"", 0))
    assert sender.manager.queue(THERE).statistics.depth == (0 if commit else 3)
    with pytest.raises(ChannelNotInDoubt):
        channels.resolve(CHANNEL, commit, sender.now_us)
    if commit:  # wrongly, so the numbers differ now
        with pytest.raises(ChannelSequenceError):
            resynchronise(sender, receiver)
    else:
        resynchronise(sender, receiver)


def test_only_a_sender_at_rest_is_resolved_or_reset(sender: Sender, receiver: Receiver) -> None:
    with pytest.raises(NotAllowed, match="the sending end decides"):
        receiver.manager.channels.resolve(CHANNEL, True, receiver.now_us)
    resynchronise(sender, receiver)
    for channels in (sender.manager.channels, receiver.manager.channels):
        with pytest.raises(ChannelInUse, match="running"):
            channels.reset(CHANNEL, 1, sender.now_us)
    with pytest.raises(ChannelInUse, match="running"):
        sender.manager.channels.resolve(CHANNEL, True, sender.now_us)
    for number in (0, 101):
        with pytest.raises(DefinitionInvalid) as refused:
            sender.manager.channels.reset(CHANNEL, number, sender.now_us)
        assert refused.value.key == "sequence"


def test_a_partner_is_told_of_a_reset_until_a_batch_is_confirmed(sender: Sender, receiver: Receiver) -> None:
    resynchronise(sender, receiver)
    sender.stop()
    receiver.stop()
    sender.manager.channels.reset(CHANNEL, 40, sender.now_us)
    sender.turn()
    sender.restart()
    for _ in range(2):
        record = sender.manager.channels.sync(CHANNEL).reset_sequence
        assert record == 40
        end = receiver.manager.channels.open_receiving(CHANNEL, "HERE", "0a", receiver.now_us, record)
        sender.manager.channels.resynchronise(CHANNEL, end.last_luwid, end.last_sequence, sender.now_us)
        receiver.manager.channels.close_receiving(end, receiver.now_us)
        receiver.crash()  # before it has written anything
    receiver.manager.channels.reset(CHANNEL, 40, receiver.now_us)
    resynchronise(sender, receiver)
    sender.send(b"1")
    (sent,) = sender.take(1)
    assert sent.sequence == 40
    batch = sender.end_batch()
    sender.confirm(batch)
    assert sender.manager.channels.sync(CHANNEL).reset_sequence == 0


# --- a stopped channel ----------------------------------------------------------------------------


def test_nobody_gets_anything_while_the_channel_is_stopped(sender: Sender) -> None:
    queue = sender.manager.queue(THERE)
    sender.send(b"1")
    consumer = sender.consumer(queue)
    sender.manager.channels.set_status(CHANNEL, {"state": "stopped"}, sender.now_us)
    sender.credit(consumer, 10)
    assert sender.turn() == [] and queue.switches.get_inhibited
    sender.restart()
    queue = sender.manager.queue(THERE)
    assert queue.switches.get_inhibited
    consumer = sender.consumer(queue, credit=10)
    assert sender.turn() == []
    sender.manager.channels.set_status(CHANNEL, {}, sender.now_us)
    assert len(sender.turn()) == 1


def test_a_queue_made_after_its_channel_was_stopped_is_inhibited(sender: Sender) -> None:
    channels = sender.manager.channels
    channels.define(replace(SENDER, name="LATER", transmission_queue="later"), sender.now_us)
    channels.set_status("LATER", {"state": "stopped"}, sender.now_us)
    queue = sender.queue("later", usage="transmission")
    assert queue.switches.get_inhibited
    channels.delete("LATER", sender.now_us)
    assert not queue.switches.get_inhibited


# --- the ledger -----------------------------------------------------------------------------------


@pytest.mark.parametrize("maintain", [False, True])
def test_a_restart_keeps_definitions_states_and_batches(
    sender: Sender, receiver: Receiver, maintain: bool
) -> None:
    resynchronise(sender, receiver)
    sender.send(b"0")
    for sent in sender.take(1):
        receiver.receive(sent)
    receiver.commit(sender.end_batch())
    receiver.turn()
    sender.send(b"1")
    sender.take(1)
    sender.end_batch()
    sender.stop()
    receiver.stop()
    for world in (sender, receiver):
        status = {"state": "retrying", "attempts": 3}
        world.manager.channels.set_status(CHANNEL, status, world.now_us)
        world.manager.channels.alter(
            replace(world.manager.channels.by_name[CHANNEL].definition, description="x"), world.now_us
        )
        world.turn()
        before = state_of(world.manager.channels.by_name[CHANNEL])
        if maintain:
            for _ in range(2):
                world.restart()
                world.maintain()
        world.restart()
        assert state_of(world.manager.channels.by_name[CHANNEL]) == before
        with TemporaryDirectory() as folder:
            world.check_whole(Path(folder))


def test_readers_see_definitions_and_states(receiver: Receiver) -> None:
    receiver.start()
    receiver.stop()
    receiver.manager.channels.reset(CHANNEL, 5, receiver.now_us)
    with TemporaryDirectory() as name:
        receiver.write_out(Path(name))
        reader = LedgerReader(Path(name))
        known = [segment.definitions(reader.durable_through) for _, segment, _ in reader.chunks()][-1]
    channel = receiver.manager.channels.by_name[CHANNEL]
    assert known.channels == {int(channel.id): RECEIVER.to_ledger()}
    assert {state.get("ledger") for state in known.channel_states.values()} == {None, "0a"}
    assert all(state["sequence"] == 4 for state in known.channel_states.values())
    assert RecordType.CHANNEL_STATE == 20


def test_what_a_stopped_channel_keeps_back_is_called_paused(sender: Sender) -> None:
    sender.send(b"1")
    (entry,) = sender.manager.queue(THERE).bands[4].waiting()
    assert named(states_of(sender.manager.core, entry)) == ["visible"]
    sender.manager.channels.set_status(CHANNEL, {"state": "stopped"}, sender.now_us)
    assert named(states_of(sender.manager.core, entry)) == ["visible", "paused"]
