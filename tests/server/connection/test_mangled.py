"""Streams of frames with bytes changed at random: no defect of ours shows, and a neighbour is served on."""

from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.types import Described, Symbol, ULong
from postroom.amqp.frames.frames import write_frame
from postroom.amqp.frames.outcomes import ACCEPTED, Modified, Released, TransactionalState
from postroom.amqp.frames.performatives import Detach, End
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RECEIVER, SENDER, Disposition, Flow, Transfer
from postroom.amqp.message.sections import Message, Value
from postroom.server.connection.binding import ConnectionBinding
from tests.sampling import examples
from tests.server.neighbour import MESSAGE, NOW_US, Neighbour, attach, settle
from tests.server.peers import SESSION

REQUEST = Message(application_properties={"operation": "GET-TYPES"}, body=Value({"a": 1})).encode()
DECLARE = encode(Described(ULong(0x77), Described(ULong(0x31), [])))


def stream() -> list[bytes]:
    """One frame of everything that a client says."""
    lasting = Source(address="mangled", expiry_policy="never", timeout=10)
    policy = {Symbol("lifetime-policy"): Described(ULong(0x2C), [])}
    dynamic = Source(dynamic=True, dynamic_node_properties=policy)
    answers = Source(address="$management")
    performatives: list[tuple[object, bytes]] = [
        (attach(0, "to", SENDER, source=Source(), target=Target(address="mangled")), b""),
        (attach(1, "from", RECEIVER, source=lasting, target=Target(), unsettled={b"t": ACCEPTED}), b""),
        (attach(2, "relay", SENDER, source=Source(), target=Target()), b""),
        (attach(3, "control", SENDER, source=Source(), target=Coordinator()), b""),
        (attach(4, "requests", SENDER, source=Source(), target=Target(address="$management")), b""),
        (
            attach(5, "answers", RECEIVER, source=answers, target=Target(address="me")),
            b"",
        ),
        (attach(6, "dynamic", RECEIVER, source=dynamic, target=Target()), b""),
        (Flow(100, 0, 100, next_incoming_id=0, handle=1, delivery_count=0, link_credit=10), b""),
        (Flow(100, 0, 100, next_incoming_id=0, handle=5, delivery_count=0, link_credit=10), b""),
        (Transfer(0, 0, b"t0", message_format=0), MESSAGE),
        (Transfer(0, 1, b"t1", message_format=0, more=True), MESSAGE[:20]),
        (Transfer(0, more=False), MESSAGE[20:]),
        (Transfer(2, 2, b"t2", message_format=0), MESSAGE),
        (Transfer(3, 3, b"t3", message_format=0), DECLARE),
        (Transfer(4, 4, b"t4", message_format=0), REQUEST),
        (Disposition(RECEIVER, 0, 0, False, TransactionalState((1).to_bytes(8, "big"), ACCEPTED)), b""),
        (Disposition(RECEIVER, 0, 1, True, Modified(True, False, {Symbol("x-opt-a"): 1})), b""),
        (Disposition(RECEIVER, 0, 5, True, Released()), b""),
        (Detach(handle=1), b""),
        (Detach(handle=0, closed=True), b""),
        (End(), b""),
    ]
    frames = [SESSION]
    for performative, payload in performatives:
        writer = BytesWriter()
        write_frame(writer, 0, performative, payload)  # type: ignore[arg-type]
        frames.append(writer.getvalue())
    return frames


STREAM = stream()


def play(neighbour: Neighbour, data: bytes, piece_bytes: int) -> ConnectionBinding:
    broker = neighbour.broker
    binding = broker.connect("mangler", [ANONYMOUS], 0, NOW_US)
    assert binding is not None
    for start in range(0, len(data), piece_bytes):
        binding.receive(data[start : start + piece_bytes], 0, NOW_US)
        settle(broker)
        binding.data_to_send()
    binding.lost(NOW_US)
    settle(broker)
    return binding


def test_the_stream_as_it_is_meant(neighbour: Neighbour) -> None:
    assert not play(neighbour, b"".join(STREAM), 100).failed
    assert neighbour.is_served()


@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8),
    piece_bytes=st.integers(1, 400),
)
@settings(max_examples=examples(150))
def test_changed_bytes(neighbour: Neighbour, changes: list[tuple[int, int]], piece_bytes: int) -> None:
    data = bytearray(b"".join(STREAM))
    for place, value in changes:
        data[len(SESSION) + place % (len(data) - len(SESSION))] = value
    assert not play(neighbour, bytes(data), piece_bytes).failed
    assert neighbour.is_served()


@given(order=st.lists(st.integers(1, len(STREAM) - 1), max_size=40))
@settings(max_examples=examples(150))
def test_frames_left_out_repeated_and_out_of_order(neighbour: Neighbour, order: list[int]) -> None:
    data = STREAM[0] + b"".join(STREAM[place] for place in order)
    assert not play(neighbour, data, 1 << 20).failed
    assert neighbour.is_served()
