"""Random selectors, written out and parsed, say what a plain evaluator of the same tree says."""

import operator
import re
from fractions import Fraction
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.model.selector.reading import selects

Node = tuple[Any, ...]

NAMES = st.sampled_from(["a", "b", "c", "_x", "$y"])
STRINGS = st.text(alphabet="ab%_'! ", max_size=4)
EXACT = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
APPROXIMATE = st.one_of(
    st.sampled_from([0.0, 0.5, -1.5, 2.0, 9007199254740992.0]), st.floats(-1e9, 1e9, allow_nan=False)
)
VALUES = st.one_of(st.none(), st.booleans(), EXACT, APPROXIMATE, STRINGS)

numbers = st.recursive(
    st.one_of(
        st.tuples(st.just("name"), NAMES),
        st.tuples(st.just("literal"), EXACT),
        st.tuples(st.just("literal"), APPROXIMATE),
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner), st.tuples(st.just("minus"), inner)
    ),
    max_leaves=4,
)
operands = st.one_of(
    numbers, st.tuples(st.just("literal"), STRINGS), st.tuples(st.just("literal"), st.booleans())
)
predicates = st.one_of(
    st.tuples(st.sampled_from(["=", "<>"]), operands, operands),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), numbers, numbers),
    st.tuples(st.just("between"), numbers, numbers, numbers),
    st.tuples(st.just("in"), NAMES, st.lists(STRINGS, min_size=1, max_size=3)),
    st.tuples(st.just("like"), NAMES, STRINGS),
    st.tuples(st.just("null"), NAMES),
    st.tuples(st.just("name"), NAMES),
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
    ),
    max_leaves=8,
)


def written(node: Node) -> str:
    """With brackets everywhere: precedence has its own tests."""
    kind = node[0]
    if kind == "name":
        return str(node[1])
    if kind == "literal":
        return literal(node[1])
    if kind == "minus":
        return f"(-{written(node[1])})"
    if kind == "not":
        return f"(not {written(node[1])})"
    if kind == "null":
        return f"({node[1]} is null)"
    if kind == "in":
        return f"({node[1]} in ({', '.join(map(literal, node[2]))}))"
    if kind == "like":
        return f"({node[1]} like {literal(node[2])})"
    if kind == "between":
        return f"({written(node[1])} between {written(node[2])} and {written(node[3])})"
    return f"({written(node[1])} {kind.upper()} {written(node[2])})"


def literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def plain(node: Node, values: dict[str, object]) -> object:
    """True, False, None, a number or a string, by the letter of the specification."""
    kind = node[0]
    if kind == "name":
        return values.get(node[1])
    if kind == "literal":
        return node[1]
    if kind in ("and", "or", "not"):
        return plain_logic(kind, [as_condition(plain(each, values)) for each in node[1:]])
    if kind == "null":
        return values.get(node[1]) is None
    if kind in ("in", "like"):
        return plain_text(kind, values.get(node[1]), node[2])
    found = [plain(each, values) for each in node[1:]]
    if kind in "+-*/" or kind == "minus":
        return plain_arithmetic(kind, found)
    if kind == "between":
        both = [plain_comparison(">=", found[0], found[1]), plain_comparison("<=", found[0], found[2])]
        return plain_logic("and", both)
    return plain_comparison(kind, found[0], found[1])


def as_condition(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def plain_logic(kind: str, sides: list[bool | None]) -> bool | None:
    if kind == "not":
        return None if sides[0] is None else not sides[0]
    deciding = kind == "or"
    if deciding in sides:
        return deciding
    return None if None in sides else not deciding


def plain_text(kind: str, value: object, wanted: Any) -> bool | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return False
    if kind == "in":
        return value in wanted
    pattern = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in wanted)
    return re.fullmatch(pattern, value, re.DOTALL) is not None


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def plain_comparison(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if left != left or right != right or abs(left) == float("inf") or abs(right) == float("inf"):
            exact_left, exact_right = left, right
        else:
            exact_left, exact_right = Fraction(left), Fraction(right)
        return bool(COMPARISONS[sign](exact_left, exact_right))
    if type(left) is not type(right) or sign not in ("=", "<>"):
        return False
    return bool((left == right) is (sign == "="))


def plain_arithmetic(sign: str, sides: list[Any]) -> object:
    if not all(map(is_number, sides)):
        return None
    if sign == "minus":
        return -sides[0]
    left, right = sides
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if sign == "/" and right == 0:
            return divided_by_zero(left, right)
        return {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[sign]
    if sign == "/" and right == 0:
        return None
    result = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": int(Fraction(left, right or 1)),
    }[sign]
    return result if abs(result) <= 2**64 else None


def divided_by_zero(left: float, right: float) -> float:
    import math

    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


@given(conditions, st.dictionaries(st.sampled_from(["a", "b", "c", "_x", "$y"]), VALUES))
@example(("between", ("name", "c"), ("name", "c"), ("/", ("name", "c"), ("literal", 0.0))), {"c": 0})  # NaN
def test_same_verdict(tree: Node, values: dict[str, object]) -> None:
    assert selects(written(tree), **values) is (as_condition(plain(tree, values)) is True)


@given(st.text(alphabet="aA1.'\"() =<>+-*/%_,!\nNOTANDORLIKEISIN0xeEfF", max_size=40))
def test_any_text_is_taken_or_refused_with_a_place(text: str) -> None:
    from postroom.model.selector import SelectorInvalid, parse

    try:
        parse(text)
    except SelectorInvalid as error:
        assert 0 <= error.position <= len(text)
