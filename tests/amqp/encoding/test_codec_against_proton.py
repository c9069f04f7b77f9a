"""The codec against Qpid Proton's: what one writes the other reads as the same value, and writes back."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from proton import Data as ProtonData
from proton import Message as ProtonMessage

from postroom.amqp.encoding.codec import decode_all, encode
from postroom.amqp.encoding.types import AmqpType, Array, Described, Symbol, ULong
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value, decode_message
from tests.amqp.strategies import SCALARS, binaries, same, scalars, texts, ulongs


def _containers(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    descriptors = st.lists(ulongs.map(ULong), max_size=1)
    arrays = [
        st.builds(Array, st.just(kind), st.lists(items, max_size=4), descriptors)
        for kind, items in SCALARS.items()
    ]
    nested = st.builds(Array, st.just(AmqpType.ARRAY), st.lists(st.one_of(*arrays), max_size=3))
    return st.one_of(
        st.lists(values, max_size=4),
        st.dictionaries(texts, values, max_size=4),
        st.builds(Described, ulongs.map(ULong), values),
        *arrays,
        nested,
    )


@given(st.recursive(scalars, _containers, max_leaves=8))
def test_values_go_through_proton_and_come_back(value: object) -> None:
    encoded = encode(value)
    data = ProtonData()
    assert data.decode(encoded) == len(encoded)
    assert same(decode_all(bytes(data.encode())), value)


messages = st.builds(
    Message,
    header=st.builds(
        Header, durable=st.booleans(), priority=st.integers(0, 9), ttl=st.integers(1, 2**32 - 1)
    ),
    properties=st.builds(
        Properties,
        message_id=texts | binaries | st.uuids() | ulongs,
        to=texts,
        correlation_id=texts | st.uuids() | ulongs,
        creation_time=st.integers(1, 2**50),
        group_id=texts,
        group_sequence=st.integers(0, 2**31 - 1),
    ),
    message_annotations=st.dictionaries(st.sampled_from("abc").map(Symbol), scalars, max_size=3),
    application_properties=st.dictionaries(texts, scalars, max_size=3),
    body=st.builds(Data, st.lists(binaries, min_size=1, max_size=1))
    | st.builds(Value, texts | ulongs.map(ULong)),
)


@given(messages)
def test_messages_go_through_proton_and_come_back(message: Message) -> None:
    proton = ProtonMessage()
    proton.decode(message.encode())
    encoded = bytes(proton.encode())
    received = decode_message(encoded)
    assert received.header == message.header
    assert received.properties == message.properties
    assert same(received.message_annotations, message.message_annotations)
    assert same(received.application_properties, message.application_properties)
    assert received.body == message.body
    assert scan_head(encoded).ttl_ms == (message.header or Header()).ttl


def test_what_proton_writes_of_a_plain_message() -> None:
    proton = ProtonMessage(id=UUID(int=5), address="q", body="hello", durable=True)
    received = decode_message(bytes(proton.encode()))
    assert received.header == Header(durable=True)
    assert received.properties == Properties(message_id=UUID(int=5), to="q")
    assert received.body == Value("hello")
