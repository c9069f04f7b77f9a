"""AMQP values as a type's name and a text, and back: what the maps of a message's row hold.

Exact in both directions for every value that has an encoding (of a NaN not its payload). Simple values:
numbers decimal, booleans ``true`` and ``false``, binary and decimals in base64, timestamps in RFC 3339 with
milliseconds (outside of the years 1 to 9999 the number of milliseconds since 1970). Lists and maps are JSON:
a string, a boolean, null, an ``int`` and a ``double`` are what JSON has for them, a list an array, a map
whose keys are all strings an object; any other value is an object with its type as the one key,
``{"ulong": "5"}``, and a map of other keys ``{"map": [[key, value], …]}``. Arrays and described values are
their encoding in base64.
"""

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from postroom.amqp.encoding.codec import decode_all, encode
from postroom.amqp.encoding.types import (
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
from postroom.amqp.errors import DecodeError

Typed = tuple[str, str | None]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z, the first time that a Spark timestamp shows."""
LAST_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last one."""

_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    UByte: "ubyte",
    UShort: "ushort",
    UInt: "uint",
    ULong: "ulong",
    Byte: "byte",
    Short: "short",
    Int: "int",
    int: "long",
    Float32: "float",
    float: "double",
    Decimal32: "decimal32",
    Decimal64: "decimal64",
    Decimal128: "decimal128",
    Char: "char",
    Timestamp: "timestamp",
    UUID: "uuid",
    bytes: "binary",
    str: "string",
    Symbol: "symbol",
    list: "list",
    dict: "map",
    PairMap: "map",
    Array: "array",
    Described: "described",
}


class ValueInvalid(ValueError):
    """A text that is none of its type, or a type that there isn't."""


# --- to text --------------------------------------------------------------------------------------


def typed(value: object) -> Typed:
    """A value as its type's name and its text; the text of null is None."""
    kind = _NAMES[type(value)]
    return kind, _TEXTS.get(kind, str)(value)


def timestamp_text(time_ms: int) -> str:
    """A time in milliseconds since 1970 as RFC 3339, or as the number where no calendar has it."""
    if not FIRST_MS <= time_ms <= LAST_MS:
        return str(time_ms)
    time = EPOCH + timedelta(milliseconds=time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def float_texts(numbers: npt.NDArray[Any]) -> pa.Array:
    """The shortest decimal numbers that are these floats, of 32 or 64 bits."""
    texts = pa.array(numbers).cast(pa.string())
    finite = np.isfinite(numbers)
    if finite.all():
        return texts
    others = np.select([numbers > 0, numbers < 0], ["Infinity", "-Infinity"], "NaN")
    return pc.if_else(pa.array(finite), texts, pa.array(others.tolist(), pa.string()))


def _float_text(value: float) -> str:
    kind = np.float32 if isinstance(value, Float32) else np.float64
    return str(float_texts(np.array([value], kind))[0].as_py())


def _base64(value: Any) -> str:
    return b64encode(value).decode()


def _exact_json(value: Any) -> str:
    return json.dumps(_exact(value), ensure_ascii=False, separators=(",", ":"))


def _exact(value: Any) -> object:
    kind = _NAMES[type(value)]
    if kind in ("null", "boolean", "string"):
        return value
    if kind == "int":
        return int(value)
    if kind == "double" and math.isfinite(value):
        return value
    if kind == "list":
        return [_exact(item) for item in value]
    if kind == "map":
        return _exact_map(value)
    return {kind: typed(value)[1]}


def _exact_map(value: dict[object, object] | PairMap) -> object:
    pairs = value.pairs if isinstance(value, PairMap) else tuple(value.items())
    keys = [key for key, _ in pairs]
    is_plain = all(type(key) is str for key in keys) and not (len(keys) == 1 and keys[0] in _READERS)
    if is_plain:
        return {str(key): _exact(item) for key, item in pairs}
    return {"map": [[_exact(key), _exact(item)] for key, item in pairs]}


_TEXTS: Final[dict[str, Callable[[Any], str | None]]] = {
    "null": lambda value: None,
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys(("float", "double"), _float_text),
    **dict.fromkeys(("decimal32", "decimal64", "decimal128", "binary"), _base64),
    "timestamp": timestamp_text,
    **dict.fromkeys(("list", "map"), _exact_json),
    **dict.fromkeys(("array", "described"), lambda value: _base64(encode(value))),
}


# --- from text ------------------------------------------------------------------------------------


def untyped(kind: str, text: str | None) -> object:
    """The value that a type's name and a text are. Raises ``ValueInvalid``."""
    if kind == "null":
        return None
    read = _READERS.get(kind)
    if read is None:
        raise ValueInvalid(f"{kind!r} is no AMQP type: {', '.join(_READERS)}")
    if text is None:
        raise ValueInvalid(f"a value of type {kind} without a text; the type of no value is null")
    try:
        return read(text)
    except (ValueError, TypeError, ArithmeticError, DecodeError) as error:
        raise ValueInvalid(f"{text[:80]!r} is no {kind}: {error}") from error


def timestamp_ms(text: str) -> int:
    """The milliseconds since 1970 of a timestamp's text. Raises ValueError."""
    if text.lstrip("-").isdecimal():
        return int(text)
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without its zone")
    return (time - EPOCH) // timedelta(milliseconds=1)


def _ranged(kind: Callable[[int], object], bits: int, is_signed: bool) -> Callable[[str], object]:
    low = -(1 << bits - 1) if is_signed else 0
    high = (1 << bits - 1 if is_signed else 1 << bits) - 1

    def read(text: str) -> object:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"{low} to {high} expected")
        return kind(number)

    return read


def _checked(
    fits: Callable[[str], bool], what: str, make: Callable[[str], object]
) -> Callable[[str], object]:
    def read(text: str) -> object:
        if not fits(text):
            raise ValueError(what)
        return make(text)

    return read


def _sized(kind: Callable[[bytes], object], size_bytes: int) -> Callable[[str], object]:
    def read(text: str) -> object:
        data = _bytes(text)
        if len(data) != size_bytes:
            raise ValueError(f"{size_bytes} bytes expected, not {len(data)}")
        return kind(data)

    return read


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _of_type(name: str, read_value: Callable[[str], object]) -> Callable[[str], object]:
    def read(text: str) -> object:
        value = read_value(text)
        if (found := _NAMES[type(value)]) != name:
            raise ValueError(f"it is a {found}")
        return value

    return read


def _from_exact(value: Any) -> object:
    if isinstance(value, dict):
        if len(value) == 1 and (kind := next(iter(value))) in _READERS:
            return _map_of(value[kind]) if kind == "map" else untyped(kind, value[kind])
        return {key: _from_exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_exact(item) for item in value]
    return _ranged(Int, 32, True)(str(value)) if type(value) is int else value


def _float32(text: str) -> Float32:
    """The nearest that there is: the shortest text of one needn't be a number of 32 bits itself. One that is
    too large is refused by OverflowError."""
    return Float32(*_FLOAT32.unpack(_FLOAT32.pack(float(text))))


def _map_of(pairs: Any) -> object:
    found = [(_from_exact(key), _from_exact(item)) for key, item in pairs]
    try:
        as_dict = dict(found)
    except TypeError:
        return PairMap(found)
    return as_dict if len(as_dict) == len(found) else PairMap(found)


_FLOAT32: Final = struct.Struct("<f")
_READERS: Final[dict[str, Callable[[str], object]]] = {
    "boolean": _checked(
        lambda text: text in ("true", "false"), "true or false expected", lambda text: text == "true"
    ),
    "ubyte": _ranged(UByte, 8, False),
    "ushort": _ranged(UShort, 16, False),
    "uint": _ranged(UInt, 32, False),
    "ulong": _ranged(ULong, 64, False),
    "byte": _ranged(Byte, 8, True),
    "short": _ranged(Short, 16, True),
    "int": _ranged(Int, 32, True),
    "long": _ranged(int, 64, True),
    "float": _float32,
    "double": float,
    "decimal32": _sized(Decimal32, 4),
    "decimal64": _sized(Decimal64, 8),
    "decimal128": _sized(Decimal128, 16),
    "char": _checked(lambda text: len(text) == 1, "one character expected", Char),
    "timestamp": lambda text: Timestamp(timestamp_ms(text)),
    "uuid": UUID,
    "binary": _bytes,
    "string": str,
    "symbol": _checked(str.isascii, "a symbol is ASCII", Symbol),
    **{kind: _of_type(kind, lambda text: _from_exact(json.loads(text))) for kind in ("list", "map")},
    **{kind: _of_type(kind, lambda text: decode_all(_bytes(text))) for kind in ("array", "described")},
}


# --- keys of annotations --------------------------------------------------------------------------

_ULONG: Final = "ulong:"
_STRING: Final = "string:"
_SYMBOL: Final = "symbol:"


def key_text(key: object) -> str:
    """A key of annotations as text: a symbol as it is, a ulong as ``ulong:5``, a string (no client should
    send it) as ``string:…``; a symbol that begins like one of these gets ``symbol:`` before it."""
    if isinstance(key, Symbol):
        return _SYMBOL + key if key.startswith((_ULONG, _STRING, _SYMBOL)) else str(key)
    return f"{_ULONG}{key}" if isinstance(key, ULong) else f"{_STRING}{key}"


def key_of(text: str) -> object:
    """The key that a text is. Raises ``ValueInvalid``."""
    if text.startswith(_ULONG):
        return untyped("ulong", text.removeprefix(_ULONG))
    if text.startswith(_STRING):
        return text.removeprefix(_STRING)
    return untyped("symbol", text.removeprefix(_SYMBOL))


# --- JSON of bodies -------------------------------------------------------------------------------


def plain_json(value: object) -> str:
    """A value as the JSON that people expect, for queries: it doesn't say which AMQP type it was."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> object:
    if value is None or isinstance(value, bool | int | str):
        return timestamp_text(value) if isinstance(value, Timestamp) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Array):
        return [_plain(item) for item in value.items]
    if isinstance(value, dict | PairMap):
        pairs = value.pairs if isinstance(value, PairMap) else value.items()
        plain = [(_plain(key), _plain(item)) for key, item in pairs]
        return {k if isinstance(k, str) else json.dumps(k, ensure_ascii=False): item for k, item in plain}
    return _plain(value.value) if isinstance(value, Described) else typed(value)[1]
