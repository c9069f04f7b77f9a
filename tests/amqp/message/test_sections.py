"""Messages as their sections."""

from uuid import UUID

import pytest
from hypothesis import given

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.types import AmqpType, Array, Described, Symbol, Timestamp, UByte, UInt, ULong
from postroom.amqp.errors import DecodeError, EncodeError
from postroom.amqp.message.sections import Data, Header, Message, Properties, Sequence, Value, decode_message
from tests.amqp.strategies import fields_of, messages, same


def section(code: int, value: object) -> bytes:
    return encode(Described(ULong(code), value))


@given(messages)
def test_every_message_comes_back(sent: Message) -> None:
    received = decode_message(sent.encode())
    assert received == sent
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        assert same(getattr(received, name), getattr(sent, name)), name
    if isinstance(sent.body, Value):
        assert isinstance(received.body, Value)
        assert same(received.body.value, sent.body.value)


def test_bytes_on_the_wire() -> None:
    message = Message(
        header=Header(durable=True),
        properties=Properties(message_id=5, to="q"),
        application_properties={"a": 1},
        body=Data([b"hello"]),
    )
    assert message.encode().hex() == (
        "005370c0020141" + "005373c00703530540a10171" + "005374c10602a101615501" + "005375a00568656c6c6f"
    )


def test_absent_sections_are_not_sent() -> None:
    assert Message().encode() == b""
    assert decode_message(b"") == Message()
    assert Message(body=Value(None)).encode() == b"\x00\x53\x77\x40"


def test_absent_fields_read_as_their_defaults() -> None:
    message = decode_message(section(d.HEADER, []) + section(d.PROPERTIES, []))
    assert message.header == Header(
        durable=False, priority=4, ttl=None, first_acquirer=False, delivery_count=0
    )
    assert message.properties == Properties()


@pytest.mark.parametrize("message_id", ["id", b"id", UUID(int=7), 7, 0, 2**64 - 1])
def test_ids_of_every_type(message_id: str | bytes | UUID | int) -> None:
    message = Message(properties=Properties(message_id=message_id, correlation_id=message_id))
    received = decode_message(message.encode()).properties
    assert received is not None
    assert fields_of(received) == fields_of(message.properties)
    assert type(received.message_id) is type(message_id)


def test_bodies_of_many_sections() -> None:
    data = Message(body=Data([b"a", b"", b"c"]))
    received = decode_message(data.encode())
    assert received == data
    assert isinstance(received.body, Data)
    assert received.body.joined() == b"ac"
    sequence = Message(body=Sequence([[1, "x"], []]))
    assert decode_message(sequence.encode()) == sequence


def test_values_compare_by_what_they_hold() -> None:
    assert Value([1]) == Value([1])
    assert Value(1) != Value(2)
    assert Value(1) != 1
    assert len({Value("a"), Value("a"), Value("b")}) == 2
    assert repr(Value("a")) == "Value('a')"


def test_symbolic_descriptors_are_read_too() -> None:
    assert decode_message(encode(Described(Symbol("amqp:amqp-value:*"), 5))) == Message(body=Value(5))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message(application_properties={"a": [1]}), "application property 'a': only simple values"),
        (Message(application_properties={"a": {}}), "only simple values"),
        (Message(application_properties={"a": Array(AmqpType.UINT, [])}), "only simple values"),
        (Message(message_annotations={1: 1}), "keys here are symbols, not int"),
        (Message(header=Header(priority=256)), "256 is out of the range of ubyte"),
        (Message(header=Header(ttl=-1)), "-1 is out of the range of uint"),
        (Message(properties=Properties(group_sequence=-1)), "-1 is out of the range of uint"),
        (Message(properties=Properties(message_id=-1)), "-1 is out of the range of ulong"),
        (Message(body=Value(object())), "no AMQP encoding"),
    ],
)
def test_what_has_no_encoding_is_refused(message: Message, text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        message.encode()


HEADER = section(d.HEADER, [])
DATA = section(d.DATA, b"x")
VALUE = section(d.AMQP_VALUE, 1)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (DATA + HEADER, "section 0x70 is unknown or out of order"),
        (section(0x6F, []), "section 0x6f is unknown or out of order"),
        (section(0x79, []), "section 0x79 is unknown or out of order"),
        (HEADER + HEADER, "section 0x70 is there twice"),
        (VALUE + VALUE, "section 0x77 is there twice"),
        (DATA + VALUE, "of another kind than the one before"),
        (DATA + section(d.AMQP_SEQUENCE, []), "of another kind than the one before"),
        (section(d.DATA, "x"), "a body section with a value of the wrong type"),
        (section(d.AMQP_SEQUENCE, 5), "a body section with a value of the wrong type"),
        (section(d.HEADER, [UInt(1)]), "header: durable: boolean expected"),
        (section(d.HEADER, [True, UInt(4)]), "header: priority: ubyte expected"),
        (section(d.HEADER, [True, UByte(4), None, None, None, 1]), "header: more fields than the type has"),
        (section(d.HEADER, {}), "a list of fields expected"),
        (section(d.PROPERTIES, [5]), "message-id: string, binary, uuid or ulong expected"),
        (section(d.PROPERTIES, [Symbol("x")]), "message-id: string, binary, uuid or ulong expected"),
        (section(d.PROPERTIES, [None] * 8 + [ULong(5)]), "absolute-expiry-time: timestamp expected"),
        (section(d.PROPERTIES, [None] * 6 + ["text/plain"]), "content-type: symbol expected"),
        (section(d.APPLICATION_PROPERTIES, {1: 1}), "application-properties: a key that is not a string"),
        (section(d.APPLICATION_PROPERTIES, []), "application-properties: a map with strings as keys"),
        (
            section(d.MESSAGE_ANNOTATIONS, {Timestamp(1): 1}),
            "message-annotations: a key that is not a symbol",
        ),
        (section(d.FOOTER, []), "footer: a map with symbols as keys expected"),
        (b"hello", "a described value expected"),
        (DATA[:-1], "1 bytes wanted, 0 left"),
    ],
)
def test_malformed_messages_are_refused(encoded: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode_message(encoded)
