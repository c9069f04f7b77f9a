"""AMQP values are told as a type and a text, and read back as what they were."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postroom.amqp.encoding.codec import decode_all, encode
from postroom.amqp.encoding.types import Float32, Int, Symbol, Timestamp, ULong
from postroom.spark.messages.values import (
    ValueInvalid,
    key_of,
    key_text,
    plain_json,
    timestamp_text,
    typed,
    untyped,
)
from tests.amqp import strategies as amqp
from tests.sampling import examples


@settings(max_examples=examples(500), deadline=None)
@given(amqp.values)
@example(Float32(33807192.0)).via("its shortest text, 33807190, is no number of 32 bits")
def test_a_value_is_read_back_as_it_was(value: object) -> None:
    value = decode_all(encode(value))
    kind, text = typed(value)
    assert amqp.same(untyped(kind, text), value), (kind, text)


@given(st.one_of(amqp.symbols, amqp.ulongs.map(ULong), amqp.texts))
def test_a_key_is_read_back_as_it_was(key: object) -> None:
    assert amqp.same(key_of(key_text(key)), key)


@pytest.mark.parametrize("prefix", ["ulong:", "string:", "symbol:"])
def test_a_symbol_may_begin_as_other_keys_do(prefix: str) -> None:
    key = Symbol(prefix + "5")
    assert key_text(key) == "symbol:" + key
    assert amqp.same(key_of(key_text(key)), key)


@given(amqp.longs)
def test_every_time_has_a_text(time_ms: int) -> None:
    assert untyped("timestamp", timestamp_text(time_ms)) == Timestamp(time_ms)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ubyte", "256"),
        ("int", "2147483648"),
        ("int", "1.5"),
        ("ulong", "-1"),
        ("boolean", "yes"),
        ("char", "ab"),
        ("uuid", "x"),
        ("binary", "%"),
        ("symbol", "ä"),
        ("timestamp", "2026-01-01T00:00:00"),
        ("decimal32", "AAA="),
        ("map", "[1]"),
        ("list", "{"),
        ("array", "QA=="),
        ("map", '{"map":5}'),
        ("list", '[{"array":5}]'),
        ("money", "1"),
        ("string", None),
    ],
)
def test_what_is_no_value_is_refused(kind: str, text: str | None) -> None:
    with pytest.raises(ValueInvalid, match=kind):
        untyped(kind, text)


@settings(deadline=None)
@given(amqp.values)
def test_every_value_has_plain_json(value: object) -> None:
    json.loads(plain_json(decode_all(encode(value))))


def test_plain_json_is_what_people_expect() -> None:
    value = {"n": ULong(5), "t": Timestamp(0), "l": [1.5, float("nan"), b"\x00"], 7: Int(1)}
    assert plain_json(value) == '{"n":5,"t":"1970-01-01T00:00:00.000Z","l":[1.5,"NaN","AA=="],"7":1}'


def test_a_float_too_large_is_refused() -> None:
    with pytest.raises(ValueInvalid, match="'1e300' is no float"):
        untyped("float", "1e300")
