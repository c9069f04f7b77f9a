"""A channel between two queue managers, step by step."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from postroom.manager.kernel.errors import ChannelInUse, ChannelSequenceError
from postroom.model.codes import Outcome
from tests.manager.channel_world import CHANNEL, Receiver, Sender, resynchronise


@pytest.fixture
def receiver() -> Receiver:
    receiver = Receiver()
    receiver.queue("q")
    return receiver


def test_a_batch_arrives_and_is_forwarded(sender: Sender, receiver: Receiver) -> None:
    resynchronise(sender, receiver)
    for body in (b"1", b"2", b"3"):
        sender.send(body)
    batch = None
    for sent in sender.take(10):
        assert receiver.receive(sent) is None
    batch = sender.end_batch()
    assert (batch.count, batch.last_sequence) == (3, 3)
    assert receiver.turn() == []
    receiver.commit(batch)
    assert receiver.answers.luwids == []
    receiver.turn()
    assert receiver.answers.luwids == [batch.luwid]
    sender.confirm(batch)
    sender.turn()
    assert receiver.bodies_on("q") == [b"1", b"2", b"3"]
    assert sender.manager.queue("THERE").is_empty()
    for world in (sender, receiver):
        sync = world.manager.channels.sync(CHANNEL)
        assert (sync.last_luwid, sync.last_sequence, sync.in_doubt) == (batch.luwid, 3, None)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_a_batch_in_doubt_is_decided_by_its_luwid(
    sender: Sender, receiver: Receiver, known: bool, restart: bool
) -> None:
    resynchronise(sender, receiver)
    sender.send(b"1")
    for sent in sender.take(10):
        receiver.receive(sent)
    batch = sender.end_batch()
    if known:
        receiver.commit(batch)
        receiver.turn()
    sender.turn()
    if restart:
        sender.restart()
        receiver.restart()
    sender.stop()
    receiver.stop()
    in_doubt = sender.manager.channels.sync(CHANNEL).in_doubt
    assert in_doubt is not None and in_doubt.luwid == batch.luwid
    resynchronise(sender, receiver)
    sender.turn()
    assert [sent.body[-1:] for sent in sender.take(10)] == ([] if known else [b"1"])
    assert receiver.bodies_on("q") == ([b"1"] if known else [])


def test_numbers_that_differ_stop_the_channel(sender: Sender, receiver: Receiver) -> None:
    receiver.manager.channels.reset(CHANNEL, 5, receiver.now_us)
    with pytest.raises(ChannelSequenceError, match="0, the last one that the partner has 4"):
        resynchronise(sender, receiver)


def test_a_partner_hears_nothing_of_a_batch_before_it_is_durable(sender: Sender, receiver: Receiver) -> None:
    resynchronise(sender, receiver)
    sender.send(b"1")
    for sent in sender.take(1):
        receiver.receive(sent)
    receiver.commit(sender.end_batch())
    receiver.stop()
    with pytest.raises(ChannelInUse, match="on its way to the disk"):
        receiver.start()
    receiver.turn()
    receiver.start()


def test_an_id_that_the_queue_has_taken_is_told_as_discarded(sender: Sender, receiver: Receiver) -> None:
    receiver.queue("once", duplicate_window=10)
    resynchronise(sender, receiver)
    for body in (b"1", b"2"):
        sender.send(body, to="once")
    sent = sender.take(2)
    for one in (*sent, *sent):
        one.head.message_id, one.head.message_id_type = one.body, 1
        assert receiver.receive(one) is None
    receiver.commit(sender.end_batch())
    assert receiver.bodies_on("once") == [b"1", b"2"]
    discarded = [row for row in receiver.rows() if row[-1] == Outcome.DISCARDED]
    assert len(discarded) == 2
    with TemporaryDirectory() as folder:
        receiver.check_whole(Path(folder))
