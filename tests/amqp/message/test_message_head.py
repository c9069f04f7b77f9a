"""What the broker reads of a message without building it, against the sections built."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.types import Described, Symbol, Timestamp, UInt, ULong
from postroom.amqp.errors import RESOURCE_LIMIT_EXCEEDED, DecodeError, EncodeError
from postroom.amqp.message.message_head import (
    DELIVERY_DELAY,
    DELIVERY_TIME,
    MAX_ID_BYTES,
    encode_header,
    merge_annotations,
    scan_head,
    to_address,
)
from postroom.amqp.message.sections import Data, Header, Message, Properties, Sequence, Value, decode_message
from postroom.model.codes import IdType
from postroom.model.ids import pack_unique_id
from tests.amqp.encoded import read_annotations
from tests.amqp.strategies import annotations, fields_of, messages, ubytes, uints


def section(code: int, value: object) -> bytes:
    return encode(Described(ULong(code), value))


HEADER = section(d.HEADER, [])
DATA = section(d.DATA, b"x")


def _time_us(time_ms: int | None) -> int:
    if not time_ms:
        return 0
    return 1 if time_ms < 0 else min(time_ms, (2**63 - 1) // 1000) * 1000


def _id(value: str | bytes | UUID | int | None) -> tuple[int, bytes]:
    if value is None:
        return IdType.NONE, b""
    if isinstance(value, str):
        return IdType.STRING, value.encode()
    if isinstance(value, bytes):
        return IdType.BINARY, value
    if isinstance(value, UUID):
        return IdType.UUID, value.bytes
    return IdType.ULONG, value.to_bytes(8, "big")


@given(messages.filter(lambda message: message != Message()))
def test_the_head_says_what_the_sections_say(message: Message) -> None:
    payload = message.encode()
    head = scan_head(payload)
    header = message.header or Header()
    properties = message.properties or Properties()
    assert head.durable == header.durable
    assert head.priority == header.priority
    assert head.ttl_ms == (-1 if header.ttl is None else header.ttl)
    assert head.first_acquirer == header.first_acquirer
    assert head.delivery_count == header.delivery_count
    assert (head.message_id_type, head.message_id) == _id(properties.message_id)
    assert (head.correlation_id_type, head.correlation_id) == _id(properties.correlation_id)
    assert head.group_id == (properties.group_id or "").encode()
    assert head.group_sequence == (properties.group_sequence or 0)
    assert head.expiry_us == _time_us(properties.absolute_expiry_time)
    assert head.creation_us == _time_us(properties.creation_time)
    assert to_address(payload, head) == properties.to


@given(messages.filter(lambda message: message != Message()))
def test_the_offsets_cut_the_payload_into_its_sections(message: Message) -> None:
    payload = message.encode()
    head = scan_head(payload)
    dropped = Message(header=message.header, delivery_annotations=message.delivery_annotations)
    assert payload[: head.bare_offset] == dropped.encode()
    annotations_section = Message(message_annotations=message.message_annotations)
    assert payload[head.annotations_start : head.annotations_end] == annotations_section.encode()
    properties_section = Message(properties=message.properties)
    assert payload[head.properties_start : head.properties_end] == properties_section.encode()
    application = Message(application_properties=message.application_properties)
    assert payload[head.application_start : head.application_end] == application.encode()
    assert payload[head.body_start :] == Message(body=message.body, footer=message.footer).encode()


@pytest.mark.parametrize("encoded", ["44", "5300", "800000000000000000"])
def test_equal_ulong_ids_have_equal_bytes(encoded: str) -> None:
    payload = bytes.fromhex("005373c0" + f"{len(encoded) // 2 + 1:02x}" + "01" + encoded)
    head = scan_head(payload + DATA)
    assert (head.message_id_type, head.message_id) == (IdType.ULONG, bytes(8))


@pytest.mark.parametrize("value", [1_700_000_000_000, Timestamp(1_700_000_000_000), ULong(1_700_000_000_000)])
def test_delivery_time_is_read_from_its_annotation(value: object) -> None:
    payload = Message(message_annotations={"x-opt-a": {}, DELIVERY_TIME: value}, body=Value(1)).encode()
    head = scan_head(payload)
    assert head.delivery_time_ms == 1_700_000_000_000
    assert head.delivery_delay_ms == 0


@pytest.mark.parametrize(
    ("fields", "unique_id"),
    [
        ({"x-opt-mqe-origin-qmgr": "QM1", "x-opt-mqe-time": 7}, pack_unique_id("QM1", 7)),
        ({"x-opt-mqe-time": ULong(9), "x-opt-mqe-origin-qmgr": "Zürich"}, pack_unique_id("Zürich", 9)),
        ({"x-opt-mqe-origin-qmgr": "QM1"}, b""),
        ({"x-opt-mqe-time": 7}, b""),
        ({"x-opt-mqe-origin-qmgr": "", "x-opt-mqe-time": 7}, b""),
    ],
)
def test_a_unique_id_of_mqe_is_read_from_its_two_annotations(
    fields: dict[str, object], unique_id: bytes
) -> None:
    marked = {Symbol(name): value for name, value in fields.items()}
    assert scan_head(Message(message_annotations=marked, body=Value(1)).encode()).unique_id == unique_id


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-opt-mqe-origin-qmgr", 1),
        ("x-opt-mqe-time", "1"),
        ("x-opt-mqe-time", True),
        ("x-opt-mqe-time", ULong(1 << 63)),
        ("x-opt-mqe-origin-qmgr", "x" * 248),
    ],
)
def test_a_unique_id_that_is_none_is_refused(name: str, value: object) -> None:
    marked = {Symbol("x-opt-mqe-origin-qmgr"): "QM", Symbol("x-opt-mqe-time"): 1, Symbol(name): value}
    with pytest.raises(DecodeError):
        scan_head(Message(message_annotations=marked, body=Value(1)).encode())


def test_delivery_delay_is_read_from_its_annotation() -> None:
    payload = Message(message_annotations={DELIVERY_DELAY: UInt(5000), ULong(7): None}).encode() + DATA
    head = scan_head(payload)
    assert head.delivery_time_ms == 0
    assert head.delivery_delay_ms == 5000


def test_a_sender_says_whether_it_may_become_a_dead_letter() -> None:
    for eligible in (True, False):
        marked = {Symbol("x-opt-dead-letter-eligible"): eligible}
        assert (
            scan_head(Message(message_annotations=marked, body=Value(1)).encode()).dead_letter_eligible
            == eligible
        )
    assert not scan_head(DATA).dead_letter_eligible
    with pytest.raises(DecodeError, match="boolean"):
        scan_head(Message(message_annotations={Symbol("x-opt-dead-letter-eligible"): 1}).encode())


def test_a_null_delivery_time_is_none() -> None:
    assert scan_head(Message(message_annotations={DELIVERY_TIME: None}).encode()).delivery_time_ms == 0


def test_a_message_without_a_body_is_let_pass() -> None:
    head = scan_head(HEADER)
    assert head.body_start == head.bare_offset == len(HEADER)


@pytest.mark.parametrize(
    "body",
    [
        Data([b"x" * 1000]),
        Data([b"a"] * 10),
        Sequence([[1, [2]], [], list(range(300))]),
        Value({"a": [1]}),
        Value(Described(Symbol("x"), Described(ULong(5), None))),
        Value(Described(Described(ULong(1), ULong(2)), [])),
        Value(Described([1], Described({}, 5))),
        Value(None),
    ],
)
def test_bodies_of_all_kinds_pass(body: Data | Sequence | Value) -> None:
    payload = Message(body=body, footer={"x-opt-crc": 1}).encode()
    assert scan_head(payload).body_start == 0


@given(messages.filter(lambda message: message.body is not None))
def test_the_head_is_found_before_the_body_is_there(message: Message) -> None:
    payload = message.encode()
    whole = scan_head(payload)
    body_descriptor = payload[: whole.body_start + 3]
    assert fields_of(scan_head(body_descriptor, complete=False)) == fields_of(whole)


@given(messages.filter(lambda message: message.body is not None), st.data())
def test_a_head_broken_off_is_refused(message: Message, data: st.DataObject) -> None:
    payload = message.encode()
    end = data.draw(st.integers(0, scan_head(payload).body_start))
    with pytest.raises(DecodeError):
        scan_head(payload[:end], complete=False)


MALFORMED: list[tuple[bytes, str]] = [
    (b"", "no body section"),
    (b"hello", "a described value expected"),
    (DATA + HEADER, "section 0x70 is unknown or out of order"),
    (section(d.PROPERTIES, []) + HEADER + DATA, "section 0x70 is unknown, there twice or out of order"),
    (HEADER + HEADER, "section 0x70 is unknown, there twice or out of order"),
    (section(d.OPEN, []), "section 0x10 is unknown"),
    (section(0x79, []), "section 0x79 is unknown"),
    (DATA + section(d.AMQP_VALUE, 1), "a body of more than one kind, or of two values"),
    (section(d.AMQP_VALUE, 1) * 2, "a body of more than one kind, or of two values"),
    (DATA + section(d.FOOTER, {}) + DATA, "section 0x75 is unknown or out of order"),
    (DATA[:-1], "1 bytes wanted, 0 left"),
    (section(d.DATA, "x"), "data: binary expected, found constructor 0xa1"),
    (section(d.AMQP_SEQUENCE, {}), "sequence: list expected, found constructor 0xc1"),
    (section(d.FOOTER, []), "a map expected, found constructor 0x45"),
    (section(d.APPLICATION_PROPERTIES, []), "a map expected"),
    (section(d.DELIVERY_ANNOTATIONS, 5), "a map expected"),
    (section(d.MESSAGE_ANNOTATIONS, [1]), "a map expected"),
    (b"\x00\x53\x72\xc1\x02\x01\x40", "the last key has no value"),
    (b"\x00\x53\x72\xc1\x03\x00\x40\x40", "2 bytes left over"),
    (b"\x00\x53\x72\xc1\x09\x02\xa3\x50x-op", "9 bytes wanted"),
    (section(d.MESSAGE_ANNOTATIONS, {DELIVERY_TIME: -1}), "milliseconds expected, not negative"),
    (section(d.MESSAGE_ANNOTATIONS, {DELIVERY_TIME: Timestamp(-1)}), "milliseconds expected, not negative"),
    (section(d.MESSAGE_ANNOTATIONS, {DELIVERY_TIME: True}), "milliseconds expected"),
    (section(d.MESSAGE_ANNOTATIONS, {DELIVERY_DELAY: "5"}), "x-opt-delivery-delay: milliseconds expected"),
    (section(d.HEADER, [1]), "header: durable: boolean expected"),
    (section(d.HEADER, [None] * 5 + [1]), "header: more fields than the type has"),
    (section(d.PROPERTIES, [5]), "an id is a string, binary, uuid or ulong"),
    (section(d.PROPERTIES, [None] * 5 + [True]), "an id is a string, binary, uuid or ulong"),
    (section(d.PROPERTIES, [None] * 8 + [5]), "absolute-expiry-time: timestamp expected"),
    (section(d.PROPERTIES, [None] * 10 + [b"g"]), "group-id: string expected"),
    (section(d.PROPERTIES, [None] * 11 + [5]), "group-sequence: uint expected"),
    (b"\x00\x53\x77" + b"\x00\x53\x01" * 70 + b"\x40", "nested deeper than 64 levels"),
    (b"\x00\x53\x77" + b"\x00" * 70, "nested deeper than 64 levels"),
    (b"\x00\x53\x77\x3f", "an AMQP value expected, found constructor 0x3f"),
    (b"\x00\x53\x77\xf0\xff\xff\xff\xff", "4294967295 bytes wanted, 0 left"),
]


@pytest.mark.parametrize(("payload", "text"), MALFORMED)
def test_malformed_messages_are_refused(payload: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        scan_head(payload)


def test_an_id_longer_than_the_ledger_keeps_is_refused() -> None:
    longest = Message(properties=Properties(message_id=b"x" * MAX_ID_BYTES)).encode() + DATA
    assert len(scan_head(longest).message_id) == MAX_ID_BYTES
    longer = Message(properties=Properties(message_id=b"x" * (MAX_ID_BYTES + 1))).encode() + DATA
    with pytest.raises(DecodeError, match="an id of 65536 bytes") as caught:
        scan_head(longer)
    assert caught.value.condition == RESOURCE_LIMIT_EXCEEDED


# --- header and annotations of a delivery


@given(st.booleans(), ubytes, st.none() | uints, st.booleans(), uints)
def test_encode_header(durable: bool, priority: int, ttl: int | None, first: bool, count: int) -> None:
    encoded = encode_header(durable, priority, -1 if ttl is None else ttl, first, count)
    expected = Header(durable=durable, priority=priority, ttl=ttl, first_acquirer=first, delivery_count=count)
    assert decode_message(encoded).header == expected


def test_a_header_of_defaults_is_an_empty_list() -> None:
    assert encode_header(False, 4, -1, False, 0) == b"\x00\x53\x70\x45"


def test_a_header_out_of_range_is_refused() -> None:
    with pytest.raises(EncodeError, match="256 is out of the range of ubyte"):
        encode_header(False, 256, -1, False, 0)


@given(messages, annotations)
def test_merged_annotations_replace_those_of_the_same_key(
    message: Message, patch: dict[object, object]
) -> None:
    message.header = None
    message.delivery_annotations = {}
    stored = message.encode()
    merged = merge_annotations(stored, patch)
    assert read_annotations(merged) == {**message.message_annotations, **patch}
    message.message_annotations = {}
    assert merged.endswith(message.encode())


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        ("a303", b""),  # a symbol
        ("b300000003", b""),  # with a size of four bytes
        ("a103", b""),  # a string, as some clients send
        ("a003", b"\x55\x07"),  # a binary is another key
    ],
)
def test_a_key_is_found_whatever_its_encoding(key: str, kept: bytes) -> None:
    pair = bytes.fromhex(key) + b"x-a" + b"\x55\x07"
    stored = b"\x00\x53\x72\xc1" + bytes([len(pair) + 1, 2]) + pair + DATA
    merged = merge_annotations(stored, {Symbol("x-a"): 9})
    assert merged.count(b"x-a\x55\x09") == 1
    assert merged.count(b"x-a\x55\x07") == (1 if kept else 0)
    assert merged.endswith(DATA)


def test_values_that_stay_are_copied_as_they_are() -> None:
    odd = b"\xa3\x01b\x70\x00\x00\x00\x01"  # a uint wider than need be
    garbage = b"\xa3\x01c\xc0\x03\x7f\xff\xff"  # nobody has looked into this list
    content = odd + garbage + b"\xa3\x01a\x41"
    stored = b"\x00\x53\x72\xc1" + bytes([len(content) + 1, 6]) + content + DATA
    scan_head(stored)
    assert merge_annotations(stored, {"a": False, "d": None}) == (
        b"\x00\x53\x72\xc1" + bytes([len(content) + 5, 8]) + content[:-1] + b"\x42\xa3\x01d\x40" + DATA
    )


def test_merging_nothing_changes_nothing() -> None:
    assert merge_annotations(DATA, {}) == DATA


def test_stored_sections_without_annotations_have_none() -> None:
    assert read_annotations(DATA) == {}
    assert read_annotations(b"") == {}
    assert read_annotations(merge_annotations(b"", {"x-opt-a": 1})) == {"x-opt-a": 1}
