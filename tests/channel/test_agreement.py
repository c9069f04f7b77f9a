"""How two ends of a channel meet: who calls, what they must agree on, numbers that were reset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.errors import AmqpError
from postroom.channel import wire
from postroom.channel.negotiation import Offer, negotiate, read_offer
from postroom.channel.wire import BatchEnd, Tag, read_batch_end, read_tag
from postroom.model.channel_states import ChannelState
from postroom.server.channels.instance import StopMode
from postroom.server.configuration.config import QueueConfig
from tests.channel.making import A_TO_B, receiver, running, sender, two
from tests.channel.pair import Client, Place, Wire, World

S = ChannelState


def met(sending: dict[str, object], receiving: dict[str, object]) -> tuple[World, Place, Place]:
    world, a, b = two(sending, receiving)
    (a if sending.get("connection") else b).start(A_TO_B)
    world.settle()
    return world, a, b


# Who calls.


def requester(**changes: object) -> dict[str, object]:
    return receiver(type="requester", connection="amqp://A:5672", **changes)


@pytest.mark.parametrize("connection", ["", "amqp://B:5672"])
def test_a_requester_asks_a_server(connection: str) -> None:
    world, a, b = two(sender(type="server", connection=connection), requester())
    b.start(A_TO_B)
    world.settle()
    assert a.state(A_TO_B) == b.state(A_TO_B) == S.RUNNING
    Client(a).put("IN@B", "one", "two")
    assert Client(b).get("IN") == ["one", "two"]


def test_a_server_calls_a_requester() -> None:
    _, a, b = met(sender(type="server"), requester())
    assert a.state(A_TO_B) == b.state(A_TO_B) == S.RUNNING
    Client(a).put("IN@B", "one")
    assert Client(b).get("IN") == ["one"]


def test_a_sender_that_is_asked_calls_back() -> None:
    world, a, b = two(sender(), requester())
    b.start(A_TO_B)
    world.settle()
    assert a.state(A_TO_B) == b.state(A_TO_B) == S.RUNNING, (a.reason(A_TO_B), b.reason(A_TO_B))
    Client(a).put("IN@B", "one")
    assert Client(b).get("IN") == ["one"]


def test_a_requester_goes_on_where_it_was() -> None:
    world, a, b = two(sender(type="server", connection=""), requester())
    for text in ("one", "two"):
        b.start(A_TO_B)
        world.settle()
        Client(a).put("IN@B", text)
        b.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
        world.settle()
        assert b.state(A_TO_B) == S.STOPPED and a.state(A_TO_B) == S.INACTIVE
    assert Client(b).get("IN") == ["one", "two"]
    assert b.manager.channels.sync(A_TO_B).last_sequence == 2


# Refusals.


def check_refused(a: Place, b: Place, condition: str) -> None:
    assert a.state(A_TO_B) == S.STOPPED
    assert condition in a.reason(A_TO_B)
    if A_TO_B in b.manager.channels.by_name:
        assert b.state(A_TO_B) in (S.INACTIVE, S.STOPPED)


def test_an_unknown_channel() -> None:
    _, a, b = met(sender(), receiver(name="ANOTHER"))
    check_refused(a, b, "amqp:not-found")


def test_a_channel_of_the_wrong_type() -> None:
    world, a, b = two(sender(), sender(transmission_queue="A", connection="amqp://A:5672"))
    a.start(A_TO_B)
    world.settle()
    check_refused(a, b, "amqp:not-allowed")


def test_two_queue_managers_of_one_name() -> None:
    world = World()
    a = world.add("A", QueueConfig(name="B", usage="transmission"))
    b = world.places["B"] = Place(world, "A", (QueueConfig(name="IN"),))
    b.define(**receiver())
    a.define(**sender())
    a.start(A_TO_B)
    world.settle()
    check_refused(a, b, "amqp:not-allowed")
    assert "both queue managers are called 'A'" in a.reason(A_TO_B)


def test_different_wraps() -> None:
    _, a, b = met(sender(sequence_wrap=1000), receiver(sequence_wrap=100))
    check_refused(a, b, wire.WRAP_ERROR)


def test_a_stopped_receiver_is_tried_again() -> None:
    world, a, b = two(sender(), receiver())
    b.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
    a.start(A_TO_B)
    world.settle()
    assert a.state(A_TO_B) == S.RETRYING and wire.CHANNEL_STOPPED in a.reason(A_TO_B)


# Sequence numbers.


def used() -> tuple[World, Place, Place]:
    """Both ends at number 3, the channel stopped at A."""
    world, a, b = running(sender(), receiver())
    Client(a).put("IN@B", "1", "2", "3")
    a.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
    world.settle()
    return world, a, b


def restart(a: Place) -> None:
    a.start(A_TO_B)
    a.world.settle()


def test_ends_that_differ_refuse_to_start_until_one_is_reset() -> None:
    world, a, b = used()
    b.broker.channels.reset(A_TO_B, 7, world.now_us)
    restart(a)
    check_refused(a, b, wire.SEQUENCE_ERROR)
    assert "3" in a.reason(A_TO_B) and "6" in a.reason(A_TO_B)
    b.broker.channels.reset(A_TO_B, 4, world.now_us)
    restart(a)
    assert a.state(A_TO_B) == S.RUNNING
    Client(a).put("IN@B", "4")
    assert Client(b).get("IN") == ["1", "2", "3", "4"]


def test_a_reset_of_the_sender_resets_both_ends_at_the_next_start() -> None:
    world, a, b = used()
    a.broker.channels.reset(A_TO_B, 50, world.now_us)
    restart(a)
    assert a.state(A_TO_B) == b.state(A_TO_B) == S.RUNNING, a.reason(A_TO_B)
    assert b.manager.channels.sync(A_TO_B).last_sequence == 49
    Client(a).put("IN@B", "4")
    assert a.manager.channels.sync(A_TO_B).last_sequence == 50
    assert b.manager.channels.sync(A_TO_B).last_sequence == 50


def test_a_reset_of_a_server_resets_the_requester_that_asks_it() -> None:
    world, a, b = two(sender(type="server", connection=""), requester())
    a.broker.channels.reset(A_TO_B, 10, world.now_us)
    b.start(A_TO_B)
    world.settle()
    assert a.state(A_TO_B) == b.state(A_TO_B) == S.RUNNING, (a.reason(A_TO_B), b.reason(A_TO_B))
    Client(a).put("IN@B", "one")
    assert b.manager.channels.sync(A_TO_B).last_sequence == 10


@pytest.mark.parametrize("commit", [True, False])
def test_what_was_resolved_against_the_truth_shows_at_the_next_start(commit: bool) -> None:
    """In doubt, and the partner has it: committed by hand all is well, backed out the numbers differ."""
    world, a, b = running(sender(), receiver())

    def cut(gone: object) -> None:
        if b.manager.channels.sync(A_TO_B).last_sequence:
            world.cut_all()

    world.carrying = cut
    Client(a).put("IN@B", "one")
    world.carrying = lambda gone: None
    a.broker.channels.find(A_TO_B).stop(StopMode.FORCE, False, world.now_us)
    world.settle()
    a.broker.channels.resolve(A_TO_B, commit, world.now_us)
    assert a.depth("B") == (0 if commit else 1)
    restart(a)
    if commit:
        assert a.state(A_TO_B) == S.RUNNING
    else:
        check_refused(a, b, wire.SEQUENCE_ERROR)


# Offers.


def offer(**changes: object) -> Offer:
    fields = {
        "channel": "C",
        "queue_manager": "A",
        "ledger": "0a",
        "batch_size": 50,
        "sequence_wrap": 1000,
        "fast": True,
        "max_message_bytes": 1000,
        **changes,
    }
    return Offer(**fields)  # type: ignore[arg-type]


NUMBERS = st.integers(1, 9999)


@given(
    st.builds(
        offer, batch_size=NUMBERS, fast=st.booleans(), max_message_bytes=NUMBERS, reset_sequence=NUMBERS
    )
)
def test_what_a_sender_offers_is_read_as_it_was_said(offered: Offer) -> None:
    assert read_offer(offered.properties(), False) == offered


@given(
    st.builds(
        offer,
        last_sequence=st.integers(0, 999_999_999),
        last_luwid=st.one_of(st.just(b""), st.binary(min_size=16, max_size=16)),
    )
)
def test_what_a_receiver_offers_is_read_as_it_was_said(offered: Offer) -> None:
    assert read_offer(offered.properties(), True) == offered


@given(ours=NUMBERS, theirs=NUMBERS, our_fast=st.booleans(), their_fast=st.booleans())
def test_both_ends_find_the_same_terms(ours: int, theirs: int, our_fast: bool, their_fast: bool) -> None:
    a = offer(batch_size=ours, max_message_bytes=theirs, fast=our_fast)
    b = offer(queue_manager="B", batch_size=theirs, max_message_bytes=ours, fast=their_fast)
    here, there = negotiate(a, b), negotiate(b, a)
    assert here.batch_size == there.batch_size == min(ours, theirs)
    assert here.max_message_bytes == there.max_message_bytes == min(ours, theirs)
    assert here.fast == there.fast == (our_fast and their_fast)
    assert (here.partner_queue_manager, there.partner_queue_manager) == ("B", "A")


@given(
    name=st.sampled_from(sorted(str(key) for key in offer().properties())),
    value=st.one_of(st.none(), st.integers(), st.text(max_size=300), st.binary(), st.booleans()),
)
def test_any_property_may_be_nonsense(name: str, value: object) -> None:
    fields: dict[object, object] = {str(key): each for key, each in offer().properties().items()}
    fields[name] = value
    try:
        read_offer(fields, False)
    except AmqpError as refused:
        assert name in refused.description or "protocol" in refused.description


def test_no_properties_at_all() -> None:
    with pytest.raises(AmqpError, match="postroom:protocol"):
        read_offer(None, False)


# What is sent later.


@given(st.binary(max_size=20))
def test_any_bytes_as_a_tag(tag: bytes) -> None:
    try:
        decoded = read_tag(tag)
    except AmqpError:
        return
    assert wire.TAG.pack(decoded.kind, decoded.sequence, decoded.serial) == tag


@given(st.integers(0, 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_tags_are_read_as_they_were_made(kind: int, sequence: int, serial: int) -> None:
    decoded: Tag = read_tag(wire.TAG.pack(kind, sequence, serial))
    assert (decoded.kind, decoded.sequence, decoded.serial) == (kind, sequence, serial)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 999_999_999), st.integers(1, 9999))
def test_the_end_of_a_batch_is_read_as_it_was_said(luwid: bytes, last: int, count: int) -> None:
    decoded = read_batch_end(BatchEnd(luwid, last, count).encode())
    assert (decoded.luwid, decoded.last_sequence, decoded.count) == (luwid, last, count)


@given(st.binary(max_size=40))
def test_any_bytes_as_the_end_of_a_batch(payload: bytes) -> None:
    with pytest.raises(AmqpError):
        read_batch_end(payload)


def test_a_partner_that_never_answers_the_attach_is_given_up() -> None:
    world, a, b = two(sender(short_retry_interval_s=100), receiver())
    silent = False

    def carrying(wire: Wire) -> None:
        wire.closed = silent  # neither end hears anything any more

    world.carrying = carrying
    a.start(A_TO_B)
    while a.state(A_TO_B) != S.BINDING:
        world.round()
    silent = True
    world.settle()
    assert a.state(A_TO_B) == S.BINDING
    world.pass_time(11)
    assert a.state(A_TO_B) == S.RETRYING and "has not answered" in a.reason(A_TO_B)
    assert b.state(A_TO_B) in (S.INACTIVE, S.BINDING, S.RUNNING)
