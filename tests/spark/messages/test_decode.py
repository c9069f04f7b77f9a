"""Messages become columns: many at once as one by one, whatever their bytes are."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.types import Byte, Described, Int, Symbol, Timestamp, UByte, ULong
from postroom.amqp.errors import DecodeError
from postroom.amqp.message.sections import Data, Header, Message, Properties, Sequence, Value
from postroom.spark.messages.columnar import Columnar
from postroom.spark.messages.decode import decode
from postroom.spark.messages.heap import Heap
from postroom.spark.messages.schema import (
    EVENT_COLUMNS,
    FULL_SCHEMA,
    HEADER_COLUMNS,
    MESSAGES_SCHEMA,
    PROPERTY_COLUMNS,
)
from postroom.spark.messages.values import FIRST_MS, LAST_MS
from postroom.spark.messages.whole import read_whole
from tests.amqp import strategies as amqp
from tests.sampling import examples
from tests.spark.messages.stored_messages import events, stored

SECTION_COLUMNS = [
    name
    for name in MESSAGES_SCHEMA.names
    if name not in (*EVENT_COLUMNS, *HEADER_COLUMNS, "body_state", "_corrupt")
]
"""The columns that are read from sections."""

short_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=16)
ids = st.one_of(short_texts, st.binary(max_size=16), st.uuids(), amqp.ulongs)
times = st.one_of(amqp.longs, st.integers(0, 2**42))
content_types = st.sampled_from(
    ["text/plain", "application/json; charset=utf-8", "text/x; charset=none", "application/octet-stream",
     "application/x-java-serialized-object", "image/png", "a/b+xml"]
).map(Symbol)  # fmt: skip

properties = st.builds(
    Properties,
    message_id=st.none() | ids,
    user_id=st.none() | st.binary(max_size=20),
    to=st.none() | short_texts,
    subject=st.none() | short_texts,
    reply_to=st.none() | short_texts,
    correlation_id=st.none() | ids,
    content_type=st.none() | content_types | amqp.symbols,
    content_encoding=st.none() | amqp.symbols,
    absolute_expiry_time=st.none() | times,
    creation_time=st.none() | times,
    group_id=st.none() | short_texts,
    group_sequence=st.none() | amqp.uints,
    reply_to_group_id=st.none() | short_texts,
)
annotation_keys = st.one_of(
    amqp.symbols,
    st.sampled_from(["x-opt-jms-msg-type", "x-opt-jms-dest", "ulong:5", "symbol:a"]).map(Symbol),
    amqp.ulongs.map(ULong),
)
small_numbers = st.one_of(st.integers(-1, 6).map(Byte), st.integers(0, 7).map(UByte), st.integers(-1, 6))
annotations = st.dictionaries(
    annotation_keys, st.one_of(amqp.scalars, small_numbers, amqp.values), max_size=4
)
bodies = st.one_of(
    st.none(),
    st.builds(Data, st.lists(st.binary(max_size=300), min_size=1, max_size=2)),
    st.builds(Sequence, st.lists(st.lists(amqp.values, max_size=3), min_size=1, max_size=2)),
    st.builds(Value, amqp.values),
    st.builds(Value, amqp.texts),
)
whole = st.builds(
    Message,
    header=st.none() | st.builds(Header, durable=st.booleans()),
    delivery_annotations=st.dictionaries(amqp.symbols, amqp.scalars, max_size=1),
    message_annotations=annotations,
    properties=st.none() | properties,
    application_properties=st.dictionaries(short_texts, amqp.scalars, max_size=12),
    body=bodies,
    footer=st.dictionaries(amqp.symbols, amqp.scalars, max_size=1),
).map(Message.encode)


some_columns = st.sets(st.sampled_from(SECTION_COLUMNS), min_size=1, max_size=3)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A message with a few other bytes, cut off, or with some taken out."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["other", "cut", "less", "more"]))
        if kind == "other":
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at:]
        elif kind == "less":
            del data[at]
        else:
            data.insert(at, draw(st.integers(0, 255)))
    return bytes(data)


def one_by_one(data: bytes, columns: list[str]) -> dict[str, Any]:
    """What a row has, by the reader of single messages."""
    row: dict[str, Any] = dict.fromkeys([*columns, "_corrupt"])
    try:
        row.update(read_whole(data, columns))
    except DecodeError as error:
        row["_corrupt"] = error.description
        if "body" in columns:
            row["body"] = data
    return row


def at_once(sections: list[bytes], columns: list[str], gap_bytes: int = 0) -> list[dict[str, Any]]:
    """What the rows have; times as numbers, since Python's datetime has no year 0 and no zone here."""
    schema = pa.schema([FULL_SCHEMA.field(name) for name in [*columns, "_corrupt"]])
    batch = decode(stored(sections, gap_bytes), events(len(sections)), schema)
    batch.validate(full=True)
    assert batch.schema == schema
    plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch]
    return pa.RecordBatch.from_arrays(plain, names=schema.names).to_pylist()


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(whole | broken(), max_size=6), st.sampled_from([0, 1, 4, 16]))
def test_many_at_once_are_read_as_one_by_one(sections: list[bytes], gap_bytes: int) -> None:
    assert at_once(sections, SECTION_COLUMNS, gap_bytes) == [
        one_by_one(data, SECTION_COLUMNS) for data in sections
    ]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(whole | broken(), min_size=1, max_size=3),
    st.sets(st.sampled_from(SECTION_COLUMNS), min_size=1, max_size=3),
)
def test_columns_that_are_not_asked_for_do_not_count(sections: list[bytes], chosen: set[str]) -> None:
    columns = sorted(chosen)
    assert at_once(sections, columns) == [one_by_one(data, columns) for data in sections]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(whole | broken(), min_size=2, max_size=6))
def test_a_row_does_not_depend_on_its_neighbours(sections: list[bytes]) -> None:
    alone = [row for data in sections for row in at_once([data], SECTION_COLUMNS)]
    assert at_once(sections, SECTION_COLUMNS) == alone


def test_usual_messages_need_no_reading_one_by_one() -> None:
    """What Qpid JMS and Proton send is decoded in columns: else it would be twenty times slower."""
    usual = [
        Message(
            message_annotations={Symbol("x-opt-jms-msg-type"): Byte(number)},
            properties=Properties(message_id=f"ID:{number}", to="Q", creation_time=number),
            application_properties={"a": 1, "b": "ä", "c": True, "d": 1.5, "e": None},
            body=body,
        ).encode()
        for number, body in enumerate([Data([b"x" * 300]), Value("text"), Value(b"x"), Value({"k": 1})])
    ]
    messages = stored(usual)
    columns = Columnar(Heap(messages.heap, messages.starts, messages.ends))
    for name in SECTION_COLUMNS:
        columns.column(name)
    assert not columns.hard.any()


def row_of(message: Message | bytes, *columns: str) -> dict[str, Any]:
    data = message if isinstance(message, bytes) else message.encode()
    return at_once([data], list(columns))[0]


def test_properties_have_their_types() -> None:
    sent = Properties(
        message_id=b"\x01\xff", user_id=b"me", to="Q", correlation_id=2**64 - 1, content_type="text/plain",
        creation_time=1_000, group_id="g", group_sequence=2**32 - 1,
    )  # fmt: skip
    row = row_of(Message(properties=sent), *PROPERTY_COLUMNS)
    assert {name: value for name, value in row.items() if value is not None} == {
        "message_id": "Af8=",
        "message_id_type": "binary",
        "user_id": b"me",
        "to": "Q",
        "correlation_id": str(2**64 - 1),
        "correlation_id_type": "ulong",
        "content_type": "text/plain",
        "creation_time": 1_000_000,
        "group_id": "g",
        "group_sequence": 2**32 - 1,
    }


def test_times_that_no_timestamp_has_are_the_last_or_first_that_there_is() -> None:
    sent = Properties(absolute_expiry_time=2**63 - 1, creation_time=-(2**63))
    row = row_of(Message(properties=sent), "absolute_expiry_time", "creation_time")
    assert row["absolute_expiry_time"] == LAST_MS * 1000
    assert row["creation_time"] == FIRST_MS * 1000


def test_maps_tell_types() -> None:
    fields = {"n": Int(-5), "t": Timestamp(1), "b": b"\x00", "none": None, "far": Timestamp(2**62)}
    row = row_of(Message(application_properties=dict(fields)), "application_properties")
    assert row["application_properties"] == [
        ("n", {"type": "int", "value": "-5"}),
        ("t", {"type": "timestamp", "value": "1970-01-01T00:00:00.001Z"}),
        ("b", {"type": "binary", "value": "AA=="}),
        ("none", {"type": "null", "value": None}),
        ("far", {"type": "timestamp", "value": str(2**62)}),
    ]


def test_annotations_may_have_other_keys_and_values() -> None:
    fields = {Symbol("m"): {"reason": Int(2053), "n": ULong(1)}, ULong(7): [1.5], Symbol("ulong:7"): "x"}
    row = row_of(Message(message_annotations=fields), "message_annotations")
    assert row["message_annotations"] == [
        ("m", {"type": "map", "value": '{"reason":2053,"n":{"ulong":"1"}}'}),
        ("ulong:7", {"type": "list", "value": "[1.5]"}),
        ("symbol:ulong:7", {"type": "string", "value": "x"}),
    ]


@pytest.mark.parametrize(
    ("body", "kind", "data", "text"),
    [
        (None, "none", None, None),
        (Data([b"a", b"b"]), "data", b"ab", None),
        (Value("ä"), "string", None, "ä"),
        (Value(b"\xff"), "binary", b"\xff", None),
        (Value({"a": Int(1), "b": [None, True]}), "value", ..., '{"a":1,"b":[null,true]}'),
        (Value(None), "value", ..., "null"),
        (Sequence([[1, "x"], [ULong(2)]]), "sequence", ..., '[1,"x",2]'),
        (Value(Described(Symbol("d"), 5)), "value", ..., "5"),
    ],
)
def test_bodies(body: Data | Value | Sequence | None, kind: str, data: Any, text: str | None) -> None:
    message = Message(application_properties={"a": 1}, body=body)
    row = row_of(message, "body_type", "body", "text")
    raw = Message(body=body).encode() if data is ... else data
    assert (row["body_type"], row["body"], row["text"], row["_corrupt"]) == (kind, raw, text, None)


@pytest.mark.parametrize(
    ("annotation", "content_type", "body", "kind"),
    [
        (Byte(0), None, Data([b""]), "message"),
        (Byte(1), None, Data([b""]), "object"),
        (Byte(2), None, Value({}), "map"),
        (Byte(3), "text/plain", Data([b""]), "bytes"),
        (Byte(4), None, Sequence([[]]), "stream"),
        (Byte(5), None, Value(None), "text"),
        (None, None, None, "bytes"),
        (None, "application/octet-stream", Data([b"x"]), "bytes"),
        (None, "application/x-java-serialized-object", Data([b"x"]), "object"),
        (None, "text/plain;charset=utf-8", Data([b"x"]), "text"),
        (None, "text/plain;charset=nothing", Data([b"x"]), "bytes"),
        (None, "image/png", None, "message"),
        (None, "image/png", Data([b"x"]), "bytes"),
        (None, None, Value("x"), "text"),
        (None, None, Value(None), "text"),
        (None, None, Value(b"x"), "bytes"),
        (None, None, Value(5), "object"),
        (None, None, Sequence([[]]), "object"),
        (Byte(77), None, Value("x"), "text"),
        (True, None, Value("x"), "text"),
    ],
)
def test_the_jms_type_is_what_qpid_jms_makes_of_a_message(
    annotation: object, content_type: str | None, body: Any, kind: str
) -> None:
    fields: dict[object, object] = {} if annotation is None else {Symbol("x-opt-jms-msg-type"): annotation}
    message = Message(message_annotations=fields, properties=Properties(content_type=content_type), body=body)
    assert row_of(message, "jms_type")["jms_type"] == kind


POISON = {
    "cut": Message(body=Value("abcdef")).encode()[:-2],
    "no UTF-8": Message(body=Value("abc")).encode()[:-1] + b"\xff",
    "no UTF-8 in a property": Message(properties=Properties(to="abc")).encode()[:-1] + b"\xff",
    "a key twice": bytes.fromhex("005374c1 0d 04") + encode("a") + encode("b") + encode("a") + encode("c"),
    "a key that is no string": bytes.fromhex("005374c1 05 02") + encode(ULong(5)) + encode("b"),
    "an unknown section": bytes.fromhex("00537940"),
    "no section": b"hello",
    "a broken list": Message(body=Value([1, 2])).encode()[:-2] + b"\x02\x02",
}


@pytest.mark.parametrize("what", POISON)
def test_poison_is_told_and_harms_no_neighbour(what: str) -> None:
    good = Message(properties=Properties(to="Q"), body=Value("fine")).encode()
    before, poisoned, after = at_once([good, POISON[what], good], SECTION_COLUMNS)
    assert before == after
    assert (before["text"], before["_corrupt"]) == ("fine", None)
    assert " at byte " in poisoned["_corrupt"]
    assert poisoned["body"] == POISON[what]
    assert all(poisoned[name] is None for name in SECTION_COLUMNS if name != "body")


def test_what_has_no_sections_has_no_columns_but_those_of_its_event() -> None:
    messages = stored([b"", Message(body=Value("x")).encode(), b""])
    messages.states[:] = [1, 0, 3]
    batch = decode(messages, events(3), MESSAGES_SCHEMA).to_pylist()
    assert [row["body_state"] for row in batch] == ["dropped", "present", "withheld"]
    assert [row["body_type"] for row in batch] == [None, "string", None]
    assert [row["jms_type"] for row in batch] == [None, "text", None]
    assert [row["position"] for row in batch] == [100, 101, 102]


def test_a_body_that_is_damaged_in_the_ledger_is_corrupt() -> None:
    messages = stored([b"", Message(body=Value("x")).encode()])
    messages.errors[0] = "its CRC is wrong"
    damaged, fine = decode(messages, events(2), MESSAGES_SCHEMA).to_pylist()
    assert (damaged["_corrupt"], damaged["body"]) == ("its CRC is wrong", None)
    assert (fine["_corrupt"], fine["text"]) == (None, "x")


def test_headers_come_from_the_arrival() -> None:
    messages = stored([b"", b""])
    messages.arrivals["expiry_us"][0] = messages.arrivals["time_us"][0] + 5_000_000
    messages.arrivals["flags"][0] = 1
    messages.found[1] = False
    known, unknown = decode(messages, events(2), MESSAGES_SCHEMA).to_pylist()
    assert [known[name] for name in HEADER_COLUMNS] == [True, 4, 5_000, False, 0]
    assert [unknown[name] for name in HEADER_COLUMNS] == [None] * 5
