"""Every type of AMQP 1.0, encoded and decoded."""

import struct
from collections import OrderedDict
from enum import IntEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.codec import decode, decode_all, encode
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import (
    AmqpType,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    PairMap,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from postroom.amqp.errors import DecodeError, EncodeError
from tests.amqp.strategies import SCALARS, same, values

SMALLEST: list[tuple[object, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(0), "5000"),
    (UByte(255), "50ff"),
    (UShort(0), "600000"),
    (UShort(0xFFFF), "60ffff"),
    (UInt(0), "43"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (UInt(0xFFFF_FFFF), "70ffffffff"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(256), "800000000000000100"),
    (ULong(0xFFFF_FFFF_FFFF_FFFF), "80ffffffffffffffff"),
    (Byte(-128), "5180"),
    (Short(-2), "61fffe"),
    (Int(-1), "54ff"),
    (Int(127), "547f"),
    (Int(-128), "5480"),
    (127, "557f"),
    (-128, "5580"),
    (Int(128), "7100000080"),
    (Int(-129), "71ffffff7f"),
    (-1, "55ff"),
    (128, "810000000000000080"),
    (-129, "81ffffffffffffff7f"),
    (Float32(1.0), "723f800000"),
    (1.0, "823ff0000000000000"),
    (Decimal32(b"\x01\x02\x03\x04"), "7401020304"),
    (Decimal64(bytes(range(8))), "840001020304050607"),
    (Decimal128(bytes(range(16))), "94000102030405060708090a0b0c0d0e0f"),
    (Char("A"), "7300000041"),
    (Char("😀"), "730001f600"),
    (Char("\ud7ff"), "730000d7ff"),
    (Char("\ue000"), "730000e000"),
    (Char("\U0010ffff"), "730010ffff"),
    (Timestamp(-1), "83ffffffffffffffff"),
    (UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"), "98f81d4fae7dec11d0a76500a0c91e6bf6"),
    (b"", "a000"),
    (b"\xca\xfe", "a002cafe"),
    ("Hello Glorious Messaging World", "a11e48656c6c6f20476c6f72696f7573204d6573736167696e6720576f726c64"),
    (Symbol("amqp"), "a304616d7170"),
    ([], "45"),
    ([True, None], "c003024140"),
    ({"a": UInt(0)}, "c10502a1016143"),
    ({}, "c10100"),
    (Array(AmqpType.BOOLEAN, [True, False]), "e00402560100"),
    (Array(AmqpType.UINT, [UInt(1), UInt(2)]), "e00402520102"),
    (Array(AmqpType.UINT, [UInt(1), UInt(256)]), "e00a02700000000100000100"),
    (Array(AmqpType.SYMBOL, [Symbol("a"), Symbol("bc")]), "e00702a30161026263"),
    (Array(AmqpType.NULL, [None, None]), "e0020240"),
    (Array(AmqpType.UINT, []), "e0020052"),
    (Described(ULong(0x24), []), "00532445"),
]
"""Values and their smallest encodings (part 1, section 1.6; the string is the example of section 1.1.1)."""


@pytest.mark.parametrize(("value", "encoded"), SMALLEST, ids=[repr(value) for value, _ in SMALLEST])
def test_the_smallest_encoding_and_back(value: object, encoded: str) -> None:
    assert encode(value).hex() == encoded
    assert same(decode_all(bytes.fromhex(encoded)), value)


WIDER: list[tuple[str, object]] = [
    ("5600", False),
    ("5601", True),
    ("7000000000", UInt(0)),
    ("5200", UInt(0)),
    ("800000000000000000", ULong(0)),
    ("5300", ULong(0)),
    ("710000007f", Int(127)),
    ("81ffffffffffffffff", -1),
    ("b000000001ff", b"\xff"),
    ("b10000000161", "a"),
    ("b30000000161", Symbol("a")),
    ("c00100", []),
    ("d00000000400000000", []),
    ("d0000000050000000140", [None]),
    ("f000000006000000015601", Array(AmqpType.BOOLEAN, [True])),
    ("e0020341", Array(AmqpType.BOOLEAN, [True, True, True])),
    ("e0020243", Array(AmqpType.UINT, [UInt(0), UInt(0)])),
    ("e0020245", Array(AmqpType.LIST, [[], []])),
]


@pytest.mark.parametrize(("encoded", "value"), WIDER)
def test_every_other_form_is_read(encoded: str, value: object) -> None:
    assert same(decode_all(bytes.fromhex(encoded)), value)


def test_the_described_type_of_the_specification() -> None:
    """Part 1, figure 1.3: a URL as a described string."""
    text = b"http://example.org/hello-world"
    encoded = b"\x00\xa1\x03URL\xa1\x1e" + text
    assert decode_all(encoded) == Described("URL", text.decode())
    assert encode(Described("URL", text.decode())) == encoded


def test_an_array_of_described_values() -> None:
    array = Array(AmqpType.STRING, ["a", "bc"], [Symbol("url")])
    encoded = encode(array)
    assert encoded.hex() == "e00d0200a30375726ca1016102" + b"bc".hex()
    assert same(decode_all(encoded), array)


def test_arrays_in_arrays_keep_their_own_types() -> None:
    array = Array(
        AmqpType.ARRAY,
        [Array(AmqpType.INT, [Int(1), Int(-1)]), Array(AmqpType.ARRAY, [Array(AmqpType.STRING, ["x"])])],
    )
    assert same(decode_all(encode(array)), array)


@pytest.mark.parametrize("size", [0, 1, 253, 254, 255, 256, 257, 70_000])
def test_sizes_around_the_wide_forms(size: int) -> None:
    assert decode_all(encode(b"x" * size)) == b"x" * size
    assert decode_all(encode("é" * size)) == "é" * size
    assert decode_all(encode([None] * size)) == [None] * size
    assert decode_all(encode([b"x" * size])) == [b"x" * size]
    for items in ([b"x" * size, b""], [b"x"] * size):
        array = Array(AmqpType.BINARY, items)
        assert decode_all(encode(array)) == array
    array = Array(AmqpType.LIST, [[None] * size, []])
    assert decode_all(encode(array)) == array


@given(values)
def test_any_value_comes_back_the_same(value: object) -> None:
    encoded = encode(value)
    decoded, end = decode(encoded)
    assert end == len(encoded)
    assert same(decoded, value)
    assert encode(decoded) == encoded


@given(values, st.binary(max_size=5), st.binary(max_size=5))
def test_a_value_is_found_at_its_offset(value: object, before: bytes, after: bytes) -> None:
    encoded = encode(value)
    decoded, end = decode(before + encoded + after, len(before))
    assert end == len(before) + len(encoded)
    assert same(decoded, value)


@pytest.mark.parametrize("kind", list(SCALARS), ids=[kind.name for kind in SCALARS])
@given(data=st.data())
def test_arrays_of_every_type(kind: AmqpType, data: st.DataObject) -> None:
    array = Array(kind, data.draw(st.lists(SCALARS[kind], max_size=300)))
    assert same(decode_all(encode(array)), array)


@given(st.floats(allow_nan=False, width=32))
def test_floats_are_ieee_754(value: float) -> None:
    assert encode(Float32(value))[1:] == struct.pack(">f", value)
    assert encode(value)[1:] == struct.pack(">d", value)


def test_nan_stays_nan() -> None:
    for value in (float("nan"), Float32("nan")):
        decoded = decode_all(encode(value))
        assert type(decoded) is type(value)
        assert decoded != decoded


class Colour(IntEnum):
    RED = 7


@pytest.mark.parametrize(
    ("value", "like"),
    [
        ((1, 2), [1, 2]),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, 7),
        (Array(AmqpType.UINT, [1]), Array(AmqpType.UINT, [UInt(1)])),
        (Array(AmqpType.SYMBOL, ["a"]), Array(AmqpType.SYMBOL, [Symbol("a")])),
    ],
)
def test_related_python_types_are_taken_too(value: object, like: object) -> None:
    assert encode(value) == encode(like)


# --- maps that a dict can't hold


@pytest.mark.parametrize(
    "pairs",
    [
        [(1, "a"), (True, "b")],
        [("x", 1), (Symbol("x"), 2)],
        [(UInt(1), "a"), (ULong(1), "b")],
        [([1], "list")],
        [({"a": 1}, "map"), ({"a": 1}, "map")],
        [(Described(ULong(1), [2]), None)],
    ],
)
def test_what_a_dict_would_lose_becomes_a_pair_map(pairs: list[tuple[object, object]]) -> None:
    value = PairMap(pairs)
    decoded = decode_all(encode(value))
    assert isinstance(decoded, PairMap)
    assert [(type(key), key, item) for key, item in decoded.pairs] == [
        (type(key), key, item) for key, item in pairs
    ]


def test_a_pair_map_that_a_dict_can_hold_comes_back_as_a_dict() -> None:
    assert decode_all(encode(PairMap([("a", 1), ("b", 2)]))) == {"a": 1, "b": 2}


def test_a_map_with_many_numbers_as_keys_is_no_dict() -> None:
    """Their hashes can be made to collide; see MAX_NUMERIC_KEYS."""
    within = dict.fromkeys(range(c.MAX_NUMERIC_KEYS))
    assert decode_all(encode(within)) == within
    beyond = [(number, None) for number in range(c.MAX_NUMERIC_KEYS + 1)]
    assert decode_all(encode(PairMap(beyond))) == PairMap(beyond)


def test_colliding_keys_make_no_dict() -> None:
    """2**61 - 1 is the modulus of Python's number hash: all these keys have the same one."""
    keys = [UUID(int=number * ((1 << 61) - 1)) for number in range(1, 20_000)]
    assert len({hash(key) for key in keys}) == 1
    pairs = PairMap([(key, None) for key in keys])
    assert decode_all(encode(pairs)) == pairs


# --- bounds


def _nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_depth_is_bounded_both_ways() -> None:
    deepest = _nested(c.MAX_DEPTH)
    assert decode_all(encode(deepest)) == deepest
    with pytest.raises(EncodeError, match="nested deeper than 64"):
        encode(_nested(c.MAX_DEPTH + 1 + 1))
    with pytest.raises(EncodeError, match="nested deeper than 64"):
        endless: list[object] = []
        endless.append(endless)
        encode(endless)


@pytest.mark.parametrize("prefix", ["00", "c0ff01", "c1ff02", "e0ff01"])
def test_a_long_nest_of_containers_is_refused(prefix: str) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(prefix) * 100_000)


def test_described_values_nest_no_deeper() -> None:
    with pytest.raises(DecodeError, match="nested deeper than 64 levels"):
        decode(b"\x00\x53\x01" * 65 + b"\x40")


def test_items_without_width_are_bounded() -> None:
    count = c.MAX_ZERO_WIDTH_ELEMENTS
    body = struct.pack(">I", count) + b"\x40"
    array = decode_all(b"\xf0" + struct.pack(">I", len(body)) + body)
    assert array == Array(AmqpType.NULL, [None] * count)
    body = struct.pack(">I", count + 1) + b"\x40"
    with pytest.raises(DecodeError, match="4096 array items without width"):
        decode(b"\xf0" + struct.pack(">I", len(body)) + body)


def test_items_without_width_are_bounded_over_all_arrays_of_a_value() -> None:
    array = b"\xf0\x00\x00\x00\x05" + struct.pack(">I", c.MAX_ZERO_WIDTH_ELEMENTS // 2) + b"\x44"
    content = array * 3
    with pytest.raises(DecodeError, match="array items without width"):
        decode(b"\xc0" + bytes([len(content) + 1, 3]) + content)


def test_elements_are_bounded() -> None:
    content = struct.pack(">I", c.MAX_ELEMENTS + 1) + b"\x40" * (c.MAX_ELEMENTS + 1)
    with pytest.raises(DecodeError, match="too many elements in one value"):
        decode(b"\xd0" + struct.pack(">I", len(content)) + content)


# --- values without an encoding

WITHOUT_ENCODING: list[tuple[object, str]] = [
    (UByte(256), "256 is out of the range of ubyte"),
    (UByte(-1), "-1 is out of the range of ubyte"),
    (UShort(65_536), "range of ushort"),
    (UInt(2**32), "range of uint"),
    (ULong(2**64), "range of ulong"),
    (Byte(128), "range of byte"),
    (Short(-32_769), "range of short"),
    (Int(2**31), "range of int"),
    (2**63, "range of long; make it a ULong"),
    (-(2**63) - 1, "range of long$"),
    (Timestamp(2**63), "range of timestamp"),
    (Float32(1e39), "range of a 32-bit float"),
    (Decimal32(b"abc"), "a decimal of 32 bits is 4 bytes, not 3"),
    (Decimal128(b""), "128 bits is 16 bytes, not 0"),
    (Symbol("é"), "ASCII only"),
    (Char(""), "one Unicode character"),
    (Char("ab"), "one Unicode character"),
    (Char("\ud800"), "one Unicode character"),
    ("\ud800", "lone surrogate"),
    (object(), "no AMQP encoding for object"),
    ({1, 2}, "no AMQP encoding for set"),
    (1j, "no AMQP encoding for complex"),
    (Array(AmqpType.UINT, [True]), "an array of uint can't hold a bool"),
    (Array(AmqpType.UINT, [-1]), "range of uint"),
    (Array(AmqpType.STRING, [b"x"]), "an array of string can't hold a bytes"),
    (Array(AmqpType.NULL, [0]), "an array of null can't hold a int"),
    (Array(AmqpType.LIST, [{}]), "an array of list can't hold a dict"),
    (Array(AmqpType.MAP, [[]]), "an array of map can't hold a list"),
    (Array(AmqpType.ARRAY, [[]]), "an array of array can't hold a list"),
    (Array(AmqpType.UUID, ["x"]), "an array of uuid can't hold a str"),
    (Array(AmqpType.DECIMAL64, [b"x"]), "64 bits is 8 bytes, not 1"),
    (Array(AmqpType.NULL, [None] * 5000), "more than 4096 nulls"),
]


@pytest.mark.parametrize(("value", "text"), WITHOUT_ENCODING)
def test_values_without_an_encoding_are_refused(value: object, text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        encode([value])


def test_decode_all_wants_nothing_after_the_value() -> None:
    with pytest.raises(DecodeError, match="1 bytes left over after the value at byte 1"):
        decode_all(b"\x40\x40")


def text_map_of(encoded: bytes) -> dict[str, object] | None:
    """What `Reader.text_map` gives; {} for what is wrong."""
    try:
        return Reader(encoded, 0, len(encoded)).text_map()
    except DecodeError:
        return {}


@given(st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_a_map_of_strings_is_read_at_once(value: dict[str, object]) -> None:
    found = text_map_of(encode(value))
    assert found is not None and same(found, decode(encode(value))[0])


@pytest.mark.parametrize("value", [{Symbol("a"): 1}, {"a": 1, 2: 3}, [1], None, "text"])
def test_any_other_value_is_no_map_of_strings(value: object) -> None:
    assert text_map_of(encode(value)) is None


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        ("c10702a10161540102", "left over"),
        ("c10903a101615401a10162", "no value"),
        ("c10b04a101615401a101615402", "twice"),
        ("c10502a101ff40", "not UTF-8"),
        ("c1", "byte wanted"),
    ],
)
def test_a_map_of_strings_that_is_wrong(encoded: str, why: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(DecodeError, match=why):
        Reader(data, 0, len(data)).text_map()
