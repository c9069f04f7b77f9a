"""Rows → messages: the way back from what `whole` reads, and rows that people make themselves."""

import ast
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import AmqpType, Array, Described, Int, Symbol, ULong
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value, decode_message
from postroom.spark.messages.decode import decode
from postroom.spark.messages.encode import ColumnInvalid, RowInvalid, check_columns, encode
from postroom.spark.messages.schema import EVENT_COLUMNS, FULL_SCHEMA, HEADER_COLUMNS, TYPED_MAP
from postroom.spark.messages.whole import clamped, read_whole
from tests.amqp.strategies import fields_of, messages, same
from tests.spark.messages.stored_messages import events, stored

SECTION_COLUMNS = [
    name for name in FULL_SCHEMA.names if name not in (*EVENT_COLUMNS, *HEADER_COLUMNS, "body_state")
]


def row_of(message: Message) -> dict[str, Any]:
    """A message as a source would show it."""
    header = message.header or Header()
    row = read_whole(
        message.encode(), [name for name in SECTION_COLUMNS if name not in ("_corrupt", "sections")]
    )
    return row | {
        "durable": header.durable,
        "priority": header.priority,
        "ttl_ms": header.ttl,
        "first_acquirer": header.first_acquirer,
        "delivery_count": header.delivery_count,
        "body_state": "present",
    }


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    fields = [field for field in FULL_SCHEMA if field.name not in (*EVENT_COLUMNS, "sections")]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields))


def rows(**columns: Any) -> pa.RecordBatch:
    """A batch with columns of the types of messages."""
    made = {
        name: values if isinstance(values, pa.Array) else pa.array(values, FULL_SCHEMA.field(name).type)
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(made)


def one(**columns: Any) -> Message:
    """The message of a batch with one row."""
    [data] = encode(rows(**{name: [value] for name, value in columns.items()}))
    return decode_message(data)


def assert_same(sent: Message, found: Message) -> None:
    assert fields_of(sent.header or Header()) == fields_of(found.header or Header())
    theirs, ours = fields_of(sent.properties or Properties()), fields_of(found.properties or Properties())
    for name in ("absolute_expiry_time", "creation_time"):
        time_ms = theirs[name]
        theirs[name] = None if time_ms is None else clamped(time_ms)  # type: ignore[arg-type]
    assert theirs == ours
    assert type(theirs["message_id"]) is type(ours["message_id"])
    assert same(sent.message_annotations, found.message_annotations)
    assert same(sent.application_properties, found.application_properties)
    assert same(sent.footer, found.footer)
    if isinstance(sent.body, Data) and isinstance(found.body, Data):
        assert sent.body.joined() == found.body.joined()
    elif isinstance(sent.body, Value) and isinstance(found.body, Value):
        assert same(sent.body.value, found.body.value)
    else:
        assert sent.body == found.body


@given(st.lists(messages, min_size=1, max_size=4), st.integers(0, 3))
def test_every_message_comes_back_with_every_property_and_type(sent: list[Message], skipped: int) -> None:
    start = min(skipped, len(sent) - 1)
    batch = batch_of([row_of(message) for message in sent]).slice(start)
    for message, data in zip(sent[start:], encode(batch), strict=True):
        assert_same(message, decode_message(data))


@given(st.lists(messages, min_size=1, max_size=4))
def test_every_message_of_a_ledger_comes_back(sent: list[Message]) -> None:
    """By way of the columns that the source makes; headers are the arrival's there."""
    batch = decode(stored([message.encode() for message in sent]), events(len(sent)), FULL_SCHEMA)
    for message, data in zip(sent, encode(batch), strict=True):
        found = decode_message(data)
        message.header, found.header = None, None
        assert_same(message, found)


def test_large_values_get_wide_sizes() -> None:
    """Beyond 255 bytes, in some rows and in all; of a section as a whole, too."""
    long, entry = "x" * 300, [("k" * 200, {"type": "string", "value": "v" * 300})]
    some = rows(
        message_id=["short", long],
        subject=[None, long],
        text=["", long],
        application_properties=[entry, None],
    )
    first, second = map(decode_message, encode(some))
    assert first.properties is not None
    assert (first.properties.message_id, first.properties.subject, first.body) == ("short", None, Value(""))
    assert first.application_properties == {"k" * 200: "v" * 300}
    assert second.properties is not None
    assert (second.properties.message_id, second.properties.subject) == (long, long)
    assert second.body == Value(long)


def test_a_row_of_ones_own_needs_no_more_than_a_body() -> None:
    assert one(body=b"{}") == Message(header=Header(durable=True), body=Data([b"{}"]))
    assert one(text="{}") == Message(header=Header(durable=True), body=Value("{}"))
    [data] = encode(rows(body=pa.array(["{}"]), subject=["s"]))
    assert decode_message(data).body == Value("{}")
    assert one(subject="only").body is None


def test_no_text_is_parsed_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy does for some forms of a type, and in threads of Python 3.11 that fails now and then."""
    parse = Mock(wraps=ast.literal_eval)
    with monkeypatch.context() as patched:
        patched.setattr(ast, "literal_eval", parse)
        one(text="x", message_id="a")
    assert parse.mock_calls == []


def test_columns_that_are_no_messages_are_passed_over() -> None:
    batch = rows(body=[b"1", b"2"]).append_column("price", pa.array([1.5, 2.5]))
    assert [decode_message(data).body for data in encode(batch)] == [Data([b"1"]), Data([b"2"])]
    assert list(encode(batch.slice(0, 0))) == []


def test_what_is_a_body_is_told_row_by_row() -> None:
    kinds = ["data", "string", "binary", None, None, "none"]
    batch = rows(
        body_type=kinds,
        body=[b"d", None, b"b", b"guessed", None, b"not looked at"],
        text=[None, "s", None, None, "guessed", "not looked at"],
    )
    found = [decode_message(data).body for data in encode(batch)]
    assert found == [Data([b"d"]), Value("s"), Value(b"b"), Data([b"guessed"]), Value("guessed"), None]


def test_application_properties_may_be_plain_text() -> None:
    record = pa.array([[("region", "EU"), ("none", None)], None], pa.map_(pa.string(), pa.string()))
    first, second = map(decode_message, encode(rows(application_properties=record, body=[b"", b""])))
    assert first.application_properties == {"region": "EU", "none": None}
    assert second.application_properties == {}


def test_empty_maps_are_not_sent() -> None:
    maps: list[list[tuple[str, object]] | None] = [[], [("a", {"type": "int", "value": "7"})], [], None]
    found = [decode_message(data) for data in encode(rows(application_properties=maps, text=list("abcd")))]
    assert [each.application_properties for each in found] == [{}, {"a": 7}, {}, {}]
    [none, _] = encode(rows(application_properties=[[], None], text=list("ab")))
    assert none == encode(rows(text=["a"]))[0]


def test_annotations_have_symbols_as_keys() -> None:
    annotations = [("x-opt-a", {"type": "int", "value": "7"}), ("ulong:5", {"type": "null", "value": None})]
    found = one(message_annotations=annotations, body=b"").message_annotations
    assert found == {Symbol("x-opt-a"): Int(7), ULong(5): None}


def test_a_damaged_message_is_sent_as_it_came() -> None:
    """The broker has taken it once; whoever receives it decides what it is worth."""
    raw = Message(properties=Properties(subject="s"), body=Data([b"x"])).encode()
    batch = rows(
        _corrupt=["byte 7: a string is no UTF-8", None],
        body=[raw, b"sound"],
        body_type=[None, "data"],
        priority=[7, 2],
        subject=[None, "t"],
    )
    damaged, sound = map(decode_message, encode(batch))
    assert damaged == Message(
        header=Header(durable=True, priority=7), properties=Properties(subject="s"), body=Data([b"x"])
    )
    assert sound.properties == Properties(subject="t")
    assert sound.body == Data([b"sound"])


def test_a_time_to_live_that_no_header_holds_is_said_by_the_time_of_expiry() -> None:
    far, own = datetime(2100, 1, 1, tzinfo=UTC), 4_102_444_800_000
    batch = rows(
        ttl_ms=[1 << 40, 1 << 40, -5, 1000],
        absolute_expiry_time=[None, far, None, None],
        body=[b"", b"", b"", b""],
    )
    beyond, expiring, over, usual = map(decode_message, encode(batch))
    for message in (beyond, expiring, over):
        assert message.header == Header(durable=True)
    now_ms = datetime.now(UTC).timestamp() * 1000
    assert beyond.properties is not None
    assert beyond.properties.absolute_expiry_time == pytest.approx(now_ms + (1 << 40), abs=600_000)
    assert expiring.properties == Properties(absolute_expiry_time=own)
    assert over.properties is not None
    assert over.properties.absolute_expiry_time is not None
    assert over.properties.absolute_expiry_time < now_ms
    assert usual.header == Header(durable=True, ttl=1000)


ENTRY = {"type": "int", "value": "7"}


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"priority": [4, 256]}, "row 1: priority is 256; it is 0 to 255"),
        ({"priority": [-1, 1]}, "row 0: priority is -1"),
        ({"group_sequence": [None, 1 << 32]}, "row 1: group_sequence is 4294967296"),
        ({"content_type": [None, "text/plän"]}, "row 1: content_type is a symbol of AMQP"),
        (
            {"message_id": ["1", "x"], "message_id_type": ["ulong", "ulong"]},
            "row 1: message_id: 'x' is no ulong",
        ),
        ({"message_id": ["1", "2"], "message_id_type": ["uuid", "int"]}, "row 0: message_id"),
        (
            {"correlation_id": ["1", "2"], "correlation_id_type": [None, "int"]},
            "correlation_id_type is 'int'",
        ),
        ({"body_type": ["text", None]}, "row 0: body_type is 'text'; it is data, string"),
        (
            {"body_type": [None, "string"], "text": ["x", None]},
            "row 1: .*string, and .* text is null",
        ),
        ({"body_type": ["none", "data"]}, "row 1: .*data, and its column body is null"),
        ({"body": [b"x", b"x"], "text": [None, "x"]}, "row 1 has a body and a text"),
        ({"body_state": ["present", "dropped"]}, "row 1 has no message to send, its body_state is 'dropped'"),
        (
            {"application_properties": [[("a", {"type": "int", "value": "x"})], None]},
            "application_properties: 'x' is no int",
        ),
        ({"application_properties": [[("a", ENTRY | {"type": "nix"})], None]}, "'nix' is no AMQP type"),
        ({"message_annotations": [[("ä", ENTRY)], None]}, "message_annotations: .*symbol"),
    ],
)
def test_a_row_without_meaning_is_named(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(RowInvalid, match=text):
        encode(rows(**columns))


def test_ids_of_every_type() -> None:
    fields = {"uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "binary": "AAE=", "ulong": "7", "string": "s"}
    found = encode(rows(message_id=list(fields.values()), message_id_type=list(fields)))
    ids = [decode_message(data).properties.message_id for data in found]  # type: ignore[union-attr]
    assert ids == [UUID(fields["uuid"]), b"\0\1", 7, "s"]


def test_columns_are_checked_before_any_row() -> None:
    check_columns(FULL_SCHEMA)
    check_columns(pa.schema([("body", pa.string()), ("priority", pa.int8()), ("price", pa.float64())]))
    check_columns(pa.schema([("application_properties", pa.map_(pa.string(), pa.string()))]))
    with pytest.raises(ColumnInvalid, match="none of the columns value, key is one of a message"):
        check_columns(pa.schema([("value", pa.binary()), ("key", pa.binary())]))
    with pytest.raises(ColumnInvalid, match="column priority is int64 or int32 in messages, not string"):
        check_columns(pa.schema([("priority", pa.string())]))
    with pytest.raises(ColumnInvalid, match="column creation_time is timestamp"):
        check_columns(pa.schema([("creation_time", pa.timestamp("us"))]))


def test_values_that_hold_others_come_back() -> None:
    described = Described(Symbol("d"), [1, Array(AmqpType.BOOLEAN, [True])])
    sent = Message(body=Value(described), footer={Symbol("f"): {"a": 1}})
    [data] = encode(batch_of([row_of(sent)]))
    assert_same(sent, decode_message(data))
    assert TYPED_MAP.item_type.get_field_index("type") == 0
