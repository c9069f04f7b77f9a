"""Fuzzes everything that reads bytes of a peer: only the errors listed in ALLOWED may come out.

    python tests/amqp/fuzz_codec.py --seconds 600
    python tests/amqp/fuzz_codec.py --iterations 100000 --seed 7

Inputs are valid encodings cut, repeated, spliced and with bytes changed, beside plain noise. A finding prints
the target, the input as hex and the traceback, and ends the run with exit code 1.
"""

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable
from uuid import UUID

from librt.strings import BytesWriter

from postroom.amqp.encoding.codec import decode, encode
from postroom.amqp.encoding.composite import Error, Performative
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import (
    AmqpType,
    Array,
    Char,
    Decimal64,
    Described,
    Float32,
    Int,
    PairMap,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from postroom.amqp.errors import AmqpError, DecodeError, FramingError, ProtocolHeaderError
from postroom.amqp.frames.frames import (
    AMQP_HEADER,
    FRAME_TYPE_SASL,
    NO_PROTOCOL,
    SASL_HEADER,
    FrameDecoder,
    write_frame,
    write_sasl_frame,
)
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Modified,
    Received,
    Rejected,
    TransactionalState,
    decode_declare_or_discharge,
)
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.sasl import SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, parse_plain, read_sasl
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer
from postroom.amqp.message.message_head import merge_annotations, scan_head, to_address
from postroom.amqp.message.sections import Data, Header, Message, Properties, Sequence, Value, decode_message
from tests.amqp.encoded import decode_performative, encode_performative, read_annotations

ALLOWED = (DecodeError, FramingError, ProtocolHeaderError)
MAX_INPUT_BYTES = 4096
MAX_FRAME_BYTES = 2048
CHECK_CLOCK_EVERY = 256

_PROPERTIES: dict[object, object] = {Symbol("product"): "p", Symbol("list"): [1, {"a": b"b"}]}

VALUES: list[object] = [
    [None, True, UInt(1), ULong(2**40), -5, 2**40, 1.5, Float32(2.5), Timestamp(5), UUID(int=5)],
    {"a": 1, Symbol("b"): [b"x" * 300], 5: {"c": Char("é")}},
    PairMap([(1, "a"), (True, "b"), ([1], "c")]),
    Array(AmqpType.STRING, ["a", "b" * 300], [Symbol("described")]),
    Array(AmqpType.ARRAY, [Array(AmqpType.INT, [Int(1), Int(-200)]), Array(AmqpType.LIST, [[], [1]])]),
    Array(AmqpType.MAP, [{"a": 1}, {}]),
    Array(AmqpType.NULL, [None] * 5),
    Array(AmqpType.DECIMAL64, [Decimal64(b"12345678")]),
    Described(ULong(0x77), Described(Symbol("x"), [Described("y", None)])),
]
PERFORMATIVES: list[Performative] = [
    Open(
        container_id="c",
        hostname="h",
        max_frame_size=512,
        offered_capabilities=["a", "b"],
        properties=_PROPERTIES,
    ),
    Begin(remote_channel=1, next_outgoing_id=2, incoming_window=3, outgoing_window=4, handle_max=5),
    Attach(
        name="link",
        handle=1,
        role=True,
        source=Source(
            address="q", filter=_PROPERTIES, outcomes=["amqp:accepted:list"], default_outcome=Modified(True)
        ),
        target=Target(address="t", capabilities=["queue"], dynamic_node_properties=_PROPERTIES),
        unsettled={b"1": None, b"2": Received(1, 2), b"3": TransactionalState(b"t", ACCEPTED)},
    ),
    Attach(name="tx", handle=2, role=False, target=Coordinator(capabilities=["amqp:local-transactions"])),
    Flow(
        incoming_window=1,
        next_outgoing_id=2,
        outgoing_window=3,
        next_incoming_id=4,
        handle=5,
        delivery_count=6,
        link_credit=7,
        available=8,
        drain=True,
        echo=True,
        properties=_PROPERTIES,
    ),
    Transfer(
        handle=1,
        delivery_id=2,
        delivery_tag=b"tag",
        message_format=0,
        settled=False,
        more=True,
        rcv_settle_mode=1,
        state=TransactionalState(b"t"),
        resume=True,
        aborted=True,
        batchable=True,
    ),
    Disposition(True, 1, 300, True, Rejected(Error("amqp:decode-error", "why", _PROPERTIES)), True),
    Detach(handle=1, closed=True, error=Error("amqp:not-found")),
    End(),
    Close(error=Error("amqp:connection:forced")),
]
SASL: list[SaslFrame] = [
    SaslMechanisms(["PLAIN", "ANONYMOUS"]),
    SaslInit("PLAIN", b"\0user\0password", "host"),
    SaslOutcome(0, b"x"),
]
MESSAGES = [
    Message(
        header=Header(durable=True, priority=5, ttl=1000, delivery_count=2),
        delivery_annotations={Symbol("x-opt-d"): 1},
        message_annotations={Symbol("x-opt-delivery-time"): 5, Symbol("x-opt-m"): [1]},
        properties=Properties(
            message_id=UUID(int=9), to="q", correlation_id=7, creation_time=5, group_id="g"
        ),
        application_properties={"a": 1, "b": "c"},
        body=Data([b"x" * 50, b"y"]),
        footer={Symbol("x-opt-f"): b"crc"},
    ),
    Message(
        properties=Properties(message_id="id", absolute_expiry_time=1), body=Sequence([[1, "a"], [None]])
    ),
    Message(body=Value({"a": [1, 2, Described(ULong(1), "x")]})),
    Message(body=Value(Described(ULong(0x32), [b"txn", True]))),
]


def corpus() -> list[bytes]:
    """Valid inputs of every kind."""
    inputs = [encode(value) for value in VALUES]
    inputs += [encode_performative(performative) for performative in PERFORMATIVES]
    inputs += [message.encode() for message in MESSAGES]
    stream = BytesWriter()
    stream.write(SASL_HEADER)
    for body in SASL:
        write_sasl_frame(stream, body)
    frames = BytesWriter()
    for performative in PERFORMATIVES:
        write_frame(frames, 1, performative, b"payload" if isinstance(performative, Transfer) else b"")
    inputs += [frames.getvalue(), stream.getvalue() + AMQP_HEADER + frames.getvalue()]
    inputs += [b"\0user\0password", b"\x00\x53\x32\xc0\x06\x02\xa0\x01t\x41", b"\x00\x53\x31\x45"]
    return inputs


# --- targets: each takes any bytes


def fuzz_value(data: bytes) -> None:
    """What was decoded can be encoded, and its encoding is a fixed point."""
    value, _ = decode(data)
    encoded = encode(value)
    again, end = decode(encoded)
    if end != len(encoded) or encode(again) != encoded:
        raise AssertionError(f"{value!r} doesn't come back from {encoded.hex()}")


def fuzz_performative(data: bytes) -> None:
    """The same for a performative."""
    performative, _ = decode_performative(data)
    encoded = encode_performative(performative)
    again, _ = decode_performative(encoded)
    if encode_performative(again) != encoded:
        raise AssertionError(f"{performative!r} doesn't come back from {encoded.hex()}")


def fuzz_message(data: bytes) -> None:
    """What is a message to the sections is one to the broker, and the annotations can be merged."""
    message = decode_message(data)
    if not data:
        return
    try:
        head = scan_head(data)
    except DecodeError as error:
        if "milliseconds" in str(error):  # the one thing that only the broker reads
            return
        raise AssertionError(f"a message to decode_message, not to scan_head: {error}") from error
    stored = data[head.bare_offset :]
    merged = read_annotations(merge_annotations(stored, {Symbol("x-opt-new"): 1}))
    if len(merged) != len({**message.message_annotations, Symbol("x-opt-new"): 1}):
        raise AssertionError("merged annotations are lost")


def fuzz_head(data: bytes) -> None:
    """The broker's view of a message, whole and broken off; annotations can be merged into what it takes."""
    head = scan_head(data)
    to_address(data, head)
    stored = data[head.bare_offset :]
    try:
        merged = merge_annotations(stored, {Symbol("x-opt-new"): [1], Symbol("x-opt-m"): None})
        again = scan_head(merged)
    except AmqpError as error:
        raise AssertionError(f"annotations can't be merged into {stored.hex()}: {error}") from error
    if merged[again.annotations_end :] != stored[max(head.annotations_end - head.bare_offset, 0) :]:
        raise AssertionError(f"merging annotations changed what follows them in {stored.hex()}")
    scan_head(data[: head.body_start + 3], complete=len(data) == head.body_start)


def fuzz_annotations(data: bytes) -> None:
    """Stored sections of any kind."""
    merge_annotations(data, {Symbol("x-opt-new"): 1})


def fuzz_stream(data: bytes) -> None:
    """A connection's bytes, cut in an arbitrary way that depends on them."""
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    step = 1 + sum(data[:3]) % 97
    protocol = NO_PROTOCOL
    for start in range(0, len(data), step):
        decoder.feed(data[start : start + step])
        protocol = _pull(decoder, protocol)


def _pull(decoder: FrameDecoder, protocol: int) -> int:
    """Reads all that is there; after a SASL outcome the next protocol header comes."""
    while True:
        if protocol == NO_PROTOCOL:
            protocol = decoder.read_protocol_header()
        if protocol == NO_PROTOCOL or not decoder.next():
            return protocol
        if decoder.frame_type == FRAME_TYPE_SASL:
            if isinstance(decoder.sasl_body(), SaslOutcome):
                protocol = NO_PROTOCOL
        elif not decoder.is_empty:
            decoder.performative()
            decoder.payload()


def fuzz_frames(data: bytes) -> None:
    """The same after the protocol header."""
    fuzz_stream(AMQP_HEADER + data)


def fuzz_sasl(data: bytes) -> None:
    """A SASL frame's body, and a PLAIN response."""
    try:
        parse_plain(data)
    except DecodeError:
        read_sasl(Reader(data, 0, len(data)))


def fuzz_coordinator(data: bytes) -> None:
    """The body of a message to a coordinator."""
    decode_declare_or_discharge(data, 0)


TARGETS: list[Callable[[bytes], None]] = [
    fuzz_value,
    fuzz_performative,
    fuzz_message,
    fuzz_head,
    fuzz_annotations,
    fuzz_stream,
    fuzz_frames,
    fuzz_sasl,
    fuzz_coordinator,
]

# --- inputs


def _interesting_byte(rng: random.Random) -> int:
    constructors = (
        0x00,
        0x40,
        0x43,
        0x45,
        0x53,
        0x56,
        0x70,
        0x80,
        0xA0,
        0xA1,
        0xA3,
        0xB0,
        0xC0,
        0xC1,
        0xD0,
        0xE0,
        0xF0,
    )
    return rng.choice((*constructors, 0x7F, 0xFF, 0x01, rng.randrange(256)))


def _mutate_once(rng: random.Random, data: bytearray, other: bytes) -> None:
    place = rng.randrange(len(data) + 1)
    kind = rng.randrange(6)
    if kind == 0:
        data[place:place] = bytes([_interesting_byte(rng)])
    elif kind == 1:
        del data[place : place + rng.randrange(1, 5)]
    elif kind == 2:
        start = rng.randrange(len(other) + 1)
        data[place : place + rng.randrange(8)] = other[start : start + rng.randrange(64)]
    elif kind == 3 and place < len(data):
        data[place:place] = data[place : place + 16] * rng.randrange(1, 8)
    elif place < len(data):
        data[place] = _interesting_byte(rng)


def make_input(rng: random.Random, inputs: list[bytes]) -> bytes:
    """A mutated valid input, or noise one time in sixteen."""
    if rng.randrange(16) == 0:
        return bytes(_interesting_byte(rng) for _ in range(rng.randrange(64)))
    data = bytearray(rng.choice(inputs))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        _mutate_once(rng, data, rng.choice(inputs))
    return bytes(data[:MAX_INPUT_BYTES])


def check(target: Callable[[bytes], None], data: bytes) -> bool:
    """Runs one target; whether the input was taken. Anything but an ALLOWED error comes out."""
    try:
        target(data)
    except ALLOWED:
        return False
    return True


def run(seed: int, iterations: int | None, seconds: float | None) -> int:
    """Fuzzes all targets; the number of iterations, or an exception that is a finding."""
    rng = random.Random(seed)
    inputs = corpus()
    end = None if seconds is None else time.monotonic() + seconds
    done = taken = 0
    while iterations is None or done < iterations:
        if end is not None and done % CHECK_CLOCK_EVERY == 0 and time.monotonic() > end:
            break
        data = make_input(rng, inputs)
        for target in TARGETS:
            try:
                taken += check(target, data)
            except Exception:
                print(
                    f"finding: seed {seed}, iteration {done}, {target.__name__}, input {data.hex()}",
                    flush=True,
                )
                raise
        done += 1
    print(f"{done} inputs, {len(TARGETS)} targets each, taken {taken} times, seed {seed}: nothing found")
    return done


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="how long to run")
    parser.add_argument("--iterations", type=int, help="how many inputs to try")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="repeats a run")
    arguments = parser.parse_args()
    if arguments.seconds is None and arguments.iterations is None:
        arguments.seconds = 60.0
    try:
        run(arguments.seed, arguments.iterations, arguments.seconds)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
