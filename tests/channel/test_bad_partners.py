"""Partners that break the rules of the channel protocol: each loses its link, and nobody else anything."""

from collections.abc import Callable

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.events import DispositionReceived, LinkAttached, LinkDetached, TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified, Rejected
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Header, Message, Value
from postroom.channel import wire
from postroom.channel.negotiation import Offer
from postroom.channel.wire import CHANNEL_ADDRESS, BatchEnd
from postroom.manager.headers.transmission_header import TransmissionHeader
from postroom.model.channel_states import ChannelState
from postroom.server.configuration.config import QueueConfig
from tests.channel.making import receiver, sender
from tests.channel.pair import Client, World

C_TO_B = "C.TO.B"
LUWID = bytes(15) + b"1"
WRAP = 999_999_999


def offer(**changes: object) -> Offer:
    fields = {
        "channel": C_TO_B,
        "queue_manager": "C",
        "ledger": "c" * 32,
        "batch_size": 3,
        "sequence_wrap": WRAP,
        "fast": True,
        "max_message_bytes": 10_000,
        **changes,
    }
    return Offer(**fields)  # type: ignore[arg-type]


class Bad:
    """Queue manager B with a good channel from A, and a partner C whose every word a test chooses."""

    def __init__(self, **definition: object) -> None:
        self.world = World()
        self.b = self.world.add("B", QueueConfig(name="IN"), QueueConfig(name="C", usage="transmission"))
        self.a = self.world.add("A", QueueConfig(name="B", usage="transmission"))
        self.b.define(**receiver())
        self.a.define(**sender())
        self.b.define(**receiver(name=C_TO_B, **definition))
        self.a.start("A.TO.B")
        self.world.settle()
        self.partner = Client(self.b, "C")

    def attach(self, offered: Offer | None = None, **properties: object) -> SenderLink:
        """As a sender; ``properties`` replace those of the offer."""
        record = (offered or offer()).properties()
        record |= {Symbol(key.replace("_", "-")): value for key, value in properties.items()}
        return self.attach_with(record)

    def attach_with(self, properties: dict[object, object] | None) -> SenderLink:
        link = self.partner.session.attach_sender(
            "bad", Source(), Target(address=CHANNEL_ADDRESS), properties=properties
        )
        self.world.settle()
        return link

    def refused(self) -> str:
        """The condition with which the link was detached."""
        self.world.settle()
        (gone,) = self.partner.events(LinkDetached)
        assert gone.error is not None and gone.error.description
        return gone.error.condition

    def check_nobody_else_minds(self) -> None:
        assert self.b.state(C_TO_B) == ChannelState.INACTIVE
        Client(self.a).put("IN@B", "good")
        assert Client(self.b).get("IN") == ["good"]
        again = Client(self.b, "C")
        link = again.session.attach_sender(
            "good", Source(), Target(address=CHANNEL_ADDRESS), properties=offer().properties()
        )
        self.world.settle()
        assert link.attached and link.credit > 0


def message(text: str = "text", durable: bool = True, header: bool = True) -> bytes:
    payload = Message(header=Header(durable=durable), body=Value(text)).encode()
    if not header:
        return payload
    at = scan_head(payload).bare_offset
    return payload[:at] + TransmissionHeader("IN", "B", 1).put_on(payload[at:])


def tag(sequence: int, kind: int = wire.IN_BATCH) -> bytes:
    return wire.TAG.pack(kind, sequence, 1000 + sequence)


def put(link: SenderLink, sequence: int, text: str = "text") -> None:
    link.send(message(text), tag(sequence), True)


def request_confirm(link: SenderLink, last: int, count: int, luwid: bytes = LUWID) -> None:
    batch_end = BatchEnd(luwid, last, count).encode()
    link.send(batch_end, wire.TAG.pack(wire.CONTROL, last, count), False, wire.BATCH_END_FORMAT)


# A partner that keeps to the rules, to see that the tests themselves do.


def test_a_good_partner() -> None:
    bad = Bad()
    link = bad.attach()
    put(link, 1, "one")
    link.send(message("fast", durable=False), tag(1, wire.FAST), False)
    put(link, 2, "two")
    request_confirm(link, 2, 2)
    bad.world.settle()
    answers = bad.partner.events(DispositionReceived)
    assert sum(len(answer.deliveries) for answer in answers) == 2  # the fast one's, the batch's
    assert all(answer.state == ACCEPTED and answer.settled for answer in answers)
    assert Client(bad.b).get("IN") == ["fast", "one", "two"]


def test_what_is_not_confirmed_is_rolled_back_when_the_link_goes() -> None:
    bad = Bad()
    link = bad.attach()
    put(link, 1)
    bad.world.settle()
    link.detach()
    bad.world.settle()
    bad.check_nobody_else_minds()


# Attaching.


ATTACHES: dict[str, tuple[dict[str, object], str]] = {
    "an unknown channel": ({"postroom:channel": "NOWHERE"}, "amqp:not-found"),
    "a channel's name that is none": ({"postroom:channel": ""}, "amqp:invalid-field"),
    "our own name": ({"postroom:queue_manager": "B"}, "amqp:not-allowed"),
    "no ledger": ({"postroom:ledger": None}, "amqp:invalid-field"),
    "another protocol": ({"postroom:protocol": 2}, "amqp:not-implemented"),
    "a protocol that is none": ({"postroom:protocol": "one"}, "amqp:invalid-field"),
    "another wrap": ({"postroom:sequence_wrap": 1000}, wire.WRAP_ERROR),
    "a batch of nothing": ({"postroom:batch_size": 0}, "amqp:invalid-field"),
    "a batch without bounds": ({"postroom:batch_size": 10_000}, "amqp:invalid-field"),
    "an unheard-of speed": ({"postroom:nonpersistent_speed": "slow"}, "amqp:invalid-field"),
    "a reset to nothing": ({"postroom:reset_sequence": 0}, "amqp:invalid-field"),
}


@pytest.mark.parametrize("what", ATTACHES)
def test_attaching_wrongly(what: str) -> None:
    properties, condition = ATTACHES[what]
    bad = Bad()
    bad.attach(None, **properties)
    assert bad.refused() == condition
    bad.check_nobody_else_minds()


def test_attaching_without_any_properties() -> None:
    bad = Bad()
    bad.attach_with(None)
    assert bad.refused() == "amqp:invalid-field"
    bad.check_nobody_else_minds()


def test_a_sender_that_attaches_to_a_sender() -> None:
    bad = Bad(type="sender", transmission_queue="C", connection="amqp://nowhere:1", triggered=False)
    bad.attach()
    assert bad.refused() == "amqp:not-allowed"


def test_a_requester_that_attaches_to_a_receiver() -> None:
    bad = Bad()
    bad.partner.session.attach_receiver(
        "bad",
        Source(address=CHANNEL_ADDRESS),
        Target(),
        properties=offer(last_sequence=0).properties(),
    )
    assert bad.refused() == "amqp:not-allowed"
    bad.check_nobody_else_minds()


def test_a_client_that_opens_an_ordinary_link_to_the_channel_node() -> None:
    bad = Bad()
    bad.partner.sender(CHANNEL_ADDRESS)
    assert bad.refused() == "amqp:invalid-field"
    bad.check_nobody_else_minds()


def test_a_second_link_of_the_same_partner_takes_the_first_one_over() -> None:
    bad = Bad()
    first = bad.attach()
    put(first, 1, "lost with the first link")
    bad.world.settle()
    other = Client(bad.b, "C again")
    second = other.session.attach_sender(
        "second", Source(), Target(address=CHANNEL_ADDRESS), properties=offer().properties()
    )
    bad.world.settle()
    assert second.attached and not first.attached
    put(second, 1, "kept")
    request_confirm(second, 1, 1)
    bad.world.settle()
    assert Client(bad.b).get("IN") == ["kept"]


def test_another_partner_is_refused_while_the_channel_is_in_use() -> None:
    bad = Bad()
    first = bad.attach()
    other = Client(bad.b, "D")
    other.session.attach_sender(
        "other",
        Source(),
        Target(address=CHANNEL_ADDRESS),
        properties=offer(queue_manager="D", ledger="d" * 32).properties(),
    )
    bad.world.settle()
    (gone,) = other.events(LinkDetached)
    assert gone.error is not None and gone.error.condition == wire.CHANNEL_IN_USE
    assert first.attached


# Sending.


def skipping(link: SenderLink) -> None:
    put(link, 2)


def repeating(link: SenderLink) -> None:
    put(link, 1)
    put(link, 1)


def too_many(link: SenderLink) -> None:
    for sequence in range(1, 5):
        put(link, sequence)


def wrong_last(link: SenderLink) -> None:
    put(link, 1)
    request_confirm(link, 2, 1)


def wrong_count(link: SenderLink) -> None:
    put(link, 1)
    request_confirm(link, 1, 2)


def empty_batch(link: SenderLink) -> None:
    request_confirm(link, 1, 1)


def same_name_twice(link: SenderLink) -> None:
    put(link, 1)
    request_confirm(link, 1, 1)
    put(link, 2)
    request_confirm(link, 2, 1)


def settled_end(link: SenderLink) -> None:
    put(link, 1)
    batch_end = BatchEnd(LUWID, 1, 1).encode()
    link.send(batch_end, tag(1), True, wire.BATCH_END_FORMAT)


def garbage_end(link: SenderLink) -> None:
    link.send(b"\x00\x53\x77\x45", tag(1), False, wire.BATCH_END_FORMAT)


def unsettled_message(link: SenderLink) -> None:
    link.send(message(), tag(1), False)


def unknown_format(link: SenderLink) -> None:
    link.send(message(), tag(1), True, 7)


def no_tag(link: SenderLink) -> None:
    link.send(message(), b"1", True)


def unknown_kind(link: SenderLink) -> None:
    link.send(message(), tag(1, 9), True)


def no_message(link: SenderLink) -> None:
    link.send(b"\xff\x00garbage", tag(1), True)


def durable_fast(link: SenderLink) -> None:
    link.send(message(), tag(1, wire.FAST), False)


def settled_fast(link: SenderLink) -> None:
    link.send(message(durable=False), tag(1, wire.FAST), True)


def no_header(link: SenderLink) -> None:
    link.send(message(header=False), tag(1), True)


def to_nowhere(link: SenderLink) -> None:
    payload = Message(header=Header(durable=True), body=Value("x")).encode()
    at = scan_head(payload).bare_offset
    sections = TransmissionHeader("NOWHERE", "B", 1).put_on(payload[at:])
    link.send(payload[:at] + sections, tag(1), True)


SENDS: list[tuple[Callable[[SenderLink], None], str]] = [
    (skipping, wire.SEQUENCE_ERROR),
    (repeating, wire.SEQUENCE_ERROR),
    (too_many, "amqp:not-allowed"),
    (wrong_last, wire.SEQUENCE_ERROR),
    (wrong_count, wire.SEQUENCE_ERROR),
    (empty_batch, wire.SEQUENCE_ERROR),
    (settled_end, "amqp:not-implemented"),
    (garbage_end, "amqp:invalid-field"),
    (unsettled_message, "amqp:not-implemented"),
    (unknown_format, "amqp:not-implemented"),
    (no_tag, "amqp:invalid-field"),
    (unknown_kind, "amqp:invalid-field"),
    (no_message, "amqp:decode-error"),
    (durable_fast, "amqp:invalid-field"),
    (settled_fast, "amqp:not-implemented"),
    (no_header, wire.BATCH_REFUSED),
    (to_nowhere, wire.BATCH_REFUSED),
]


@pytest.mark.parametrize(("send", "condition"), SENDS, ids=[send.__name__ for send, _ in SENDS])
def test_sending_wrongly(send: Callable[[SenderLink], None], condition: str) -> None:
    bad = Bad()
    send(bad.attach())
    assert bad.refused() == condition
    assert bad.b.depth("IN") == 0
    bad.check_nobody_else_minds()


def test_one_name_for_two_batches() -> None:
    bad = Bad()
    same_name_twice(bad.attach())
    assert bad.refused() == "amqp:not-allowed"
    assert Client(bad.b).get("IN") == ["text"]


def test_a_message_larger_than_agreed_on() -> None:
    bad = Bad()
    link = bad.attach()
    link.max_message_size_bytes = 0  # it doesn't listen
    link.send(message("x" * 11_000), tag(1), True)
    assert bad.refused() == "amqp:link:message-size-exceeded"
    bad.check_nobody_else_minds()


def test_a_fast_message_where_normal_speed_was_agreed_on() -> None:
    bad = Bad(nonpersistent_speed="normal")
    link = bad.attach()
    link.send(message(durable=False), tag(1, wire.FAST), True)
    assert bad.refused() == "amqp:not-allowed"
    bad.check_nobody_else_minds()


def test_an_aborted_message_was_never_sent() -> None:
    bad = Bad()
    link = bad.attach()
    begun = link.send(message(), tag(1), False, more=True)
    link.abort(begun)
    put(link, 1, "whole")
    request_confirm(link, 1, 1)
    bad.world.settle()
    assert Client(bad.b).get("IN") == ["whole"]


# Receiving: a requester that asks a server of ours.


class Asking(Bad):
    """The partner is a requester; three messages wait for it."""

    def __init__(self) -> None:
        super().__init__(type="server", transmission_queue="C", triggered=False)
        Client(self.b).put("Q@C", "one", "two", "three")

    def attach_requester(
        self, last_sequence: int = 0, last_luwid: bytes = b"", credit: int = 100
    ) -> ReceiverLink:
        offered = offer(last_sequence=last_sequence, last_luwid=last_luwid)
        link = self.partner.session.attach_receiver(
            "asking", Source(address=CHANNEL_ADDRESS), Target(), properties=offered.properties()
        )
        self.world.settle()
        if link.attached:
            link.flow(credit)
            self.world.settle()
        return link

    def ends(self) -> list[TransferReceived]:
        came = self.partner.events(TransferReceived)
        return [event for event in came if event.message_format == wire.BATCH_END_FORMAT]


def test_a_good_requester() -> None:
    asking = Asking()
    link = asking.attach_requester()
    (end,) = asking.ends()
    batch_end = wire.read_batch_end(end.payload)
    assert (batch_end.last_sequence, batch_end.count) == (3, 3)
    link.settle(end.delivery_id, end.delivery_id, ACCEPTED)
    asking.world.settle()
    assert asking.b.depth("C") == 0
    (attached,) = asking.partner.events(LinkAttached)
    assert attached.attach.properties is not None
    assert attached.attach.properties[Symbol(wire.QUEUE_MANAGER)] == "B"


def test_a_batch_whose_end_is_rejected_goes_back() -> None:
    asking = Asking()
    link = asking.attach_requester()
    (end,) = asking.ends()
    link.settle(end.delivery_id, end.delivery_id, Rejected(Error("x:y", "no")))
    assert asking.refused() == wire.BATCH_REFUSED
    assert asking.b.depth("C") == 3
    assert asking.b.manager.channels.sync(C_TO_B).in_doubt is None


@pytest.mark.parametrize("state", [RELEASED, Modified(), None])
def test_any_other_answer_to_the_end_of_a_batch_leaves_it_in_doubt(state: DeliveryState | None) -> None:
    asking = Asking()
    link = asking.attach_requester()
    (end,) = asking.ends()
    link.settle(end.delivery_id, end.delivery_id, state)
    assert asking.refused() == wire.BATCH_REFUSED
    assert asking.b.depth("C") == 3
    assert asking.b.manager.channels.sync(C_TO_B).in_doubt is not None


def test_a_requester_that_says_a_number_that_can_not_be() -> None:
    asking = Asking()
    asking.attach_requester(last_sequence=17)
    assert asking.refused() == wire.SEQUENCE_ERROR
    assert asking.b.depth("C") == 3


def test_a_requester_without_its_numbers() -> None:
    asking = Asking()
    asking.partner.session.attach_receiver(
        "asking", Source(address=CHANNEL_ADDRESS), Target(), properties=offer().properties()
    )
    assert asking.refused() == "amqp:invalid-field"


@pytest.mark.parametrize("credit", [1, 2, 3])
def test_little_credit_only_takes_longer(credit: int) -> None:
    asking = Asking()
    link = asking.attach_requester(credit=credit)
    for _ in range(4):
        link.flow(credit)
        asking.world.settle()
    (end,) = asking.ends()
    link.settle(end.delivery_id, end.delivery_id, ACCEPTED)
    asking.world.settle()
    assert asking.b.depth("C") == 0


def test_what_a_requester_took_and_never_confirmed_goes_to_the_next_one() -> None:
    asking = Asking()
    asking.attach_requester()
    asking.world.cut(next(each for each in asking.world.wires if each.ends[0] is asking.partner.end))
    asking.world.settle()
    asking.partner = Client(asking.b, "C")
    link = asking.attach_requester()
    (end,) = asking.ends()
    link.settle(end.delivery_id, end.delivery_id, ACCEPTED)
    asking.world.settle()
    assert asking.b.depth("C") == 0


def test_a_requester_that_closes_its_connection_leaves_the_server_at_rest() -> None:
    asking = Asking()
    asking.attach_requester()
    assert asking.b.state(C_TO_B) == ChannelState.RUNNING
    asking.partner.engine.close()
    asking.world.settle()
    assert asking.b.state(C_TO_B) == ChannelState.INACTIVE
