"""The Python classes of AMQP's types."""

import pytest

from postroom.amqp.encoding.types import (
    AmqpType,
    Array,
    Described,
    PairMap,
    Symbol,
    UInt,
    is_hashable,
)


def test_numbers_compare_as_numbers_and_keep_their_class() -> None:
    assert UInt(5) == 5
    assert type(UInt(5)) is UInt
    assert {5: "five"}[UInt(5)] == "five"


def test_a_symbol_finds_what_a_string_finds() -> None:
    properties: dict[object, object] = {Symbol("product"): "Postroom"}
    assert properties["product"] == "Postroom"


def test_containers_compare_by_content() -> None:
    assert Described(UInt(1), [2]) == Described(UInt(1), [2])
    assert Described(UInt(1), [2]) != Described(UInt(1), [3])
    assert Array(AmqpType.UINT, [1]) == Array(AmqpType.UINT, [1])
    assert Array(AmqpType.UINT, [1]) != Array(AmqpType.ULONG, [1])
    assert Array(AmqpType.UINT, [1]) != Array(AmqpType.UINT, [1], [UInt(7)])
    assert PairMap([(1, "a"), (True, "b")]) == PairMap([(1, "a"), (True, "b")])
    assert PairMap([(1, "a")]) != {1: "a"}


def test_containers_of_hashable_things_can_be_keys() -> None:
    assert {Described(UInt(1), "x"): 1}[Described(UInt(1), "x")] == 1
    assert {Array(AmqpType.UINT, [1]): 2}[Array(AmqpType.UINT, [1])] == 2
    assert {PairMap([(1, 2)]): 3}[PairMap([(1, 2)])] == 3


@pytest.mark.parametrize(
    ("key", "expected"),
    [(1, True), ("a", True), ([1], False), (Described(UInt(1), [2]), False), (Described(UInt(1), 2), True)],
)
def test_is_hashable_looks_inside(key: object, expected: bool) -> None:
    assert is_hashable(key) is expected


def test_reprs_show_what_is_in_them() -> None:
    assert repr(Described(UInt(1), "x")) == "Described(1, 'x')"
    assert repr(Array(AmqpType.UINT, [1])) == "Array(UINT, [1])"
    assert repr(Array(AmqpType.UINT, [1], [UInt(9)])) == "Array(UINT, [1], descriptors=[9])"
    assert repr(PairMap([(1, 2)])) == "PairMap([(1, 2)])"
