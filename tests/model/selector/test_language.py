"""The selector language: what the specification says, line by line, and what is refused where."""

import pytest

from postroom.model.selector import SelectorInvalid, parse
from postroom.model.selector.parser import MAX_DEPTH
from postroom.model.selector.selector import MAX_CACHED_SELECTORS, MAX_SELECTOR_CHARS, _cache
from postroom.model.selector.tokens import MAX_TOKENS
from tests.model.selector.reading import selects

# Conditions whose truth is known: b is absent, so a comparison with it is unknown.
TRUE, FALSE, UNKNOWN = "(1 = 1)", "(1 = 2)", "(b = 1)"


BLUE_CAR = "JMSType = 'car' AND color = 'blue' AND weight > 2500"


def truth(condition: str) -> str:
    if selects(condition):
        return "T"
    return "F" if selects(f"NOT ({condition})") else "U"


@pytest.mark.parametrize(
    ("operator", "table"),
    [
        # Jakarta Messaging 3.1, tables 3-4 and 3-5: rows and columns T, F, U.
        ("AND", "TFU FFF UFU"),
        ("OR", "TTT TFU TUU"),
    ],
)
def test_three_valued_tables(operator: str, table: str) -> None:
    for left, row in zip((TRUE, FALSE, UNKNOWN), table.split(), strict=True):
        for right, wanted in zip((TRUE, FALSE, UNKNOWN), row, strict=True):
            assert truth(f"{left} {operator} {right}") == wanted, (left, operator, right)


def test_not_of_the_three_values() -> None:
    assert [truth(f"NOT {each}") for each in (TRUE, FALSE, UNKNOWN)] == ["F", "T", "U"]


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        # Examples of the specification.
        (BLUE_CAR, {"JMSType": "car", "color": "blue", "weight": 2501}, True),
        (BLUE_CAR, {"JMSType": "car", "color": "blue", "weight": 2500}, False),
        ("age BETWEEN 15 AND 19", {"age": 19}, True),
        ("age NOT BETWEEN 15 AND 19", {"age": 20}, True),
        ("Country IN (' UK', 'US', 'France')", {"Country": "US"}, True),
        ("Country NOT IN (' UK', 'US', 'France')", {"Country": "Peru"}, True),
        ("Country NOT IN (' UK', 'US', 'France')", {}, False),
        ("phone LIKE '12%3'", {"phone": "123"}, True),
        ("phone LIKE '12%3'", {"phone": "12993"}, True),
        ("phone LIKE '12%3'", {"phone": "1234"}, False),
        ("word LIKE 'l_se'", {"word": "lose"}, True),
        ("word LIKE 'l_se'", {"word": "loose"}, False),
        ("underscored LIKE '\\_%' ESCAPE '\\'", {"underscored": "_foo"}, True),
        ("underscored LIKE '\\_%' ESCAPE '\\'", {"underscored": "bar"}, False),
        ("phone NOT LIKE '12%3'", {"phone": "1234"}, True),
        ("prop_name IS NULL", {}, True),
        ("prop_name IS NOT NULL", {"prop_name": False}, True),
        # A comparison of unlike types is false, and so is an order of strings or booleans.
        ("NumberOfOrders > 1", {"NumberOfOrders": "2"}, False),
        ("a = 1", {"a": "1"}, False),
        ("a <> 1", {"a": "1"}, False),
        ("NOT (a = 1)", {"a": "1"}, True),
        ("a < c", {"a": "x", "c": "y"}, False),
        ("a = TRUE", {"a": True}, True),
        ("a", {"a": True}, True),
        ("NOT a", {"a": False}, True),
        ("a", {"a": "true"}, False),
        ("NOT a", {"a": "true"}, False),
        ("a = 1", {"a": True}, False),
        ("a LIKE '1%'", {"a": 12}, False),
        ("a = c", {"a": b"x", "c": b"x"}, False),
        ("a IS NOT NULL", {"a": b"x"}, True),
        # Numbers: exact and approximate by value, no long rounded to a double.
        ("a = 9007199254740993", {"a": 9007199254740993.0}, False),
        ("a > 9007199254740992.0", {"a": 9007199254740993}, True),
        ("a = 9223372036854775807", {"a": 9223372036854775807}, True),
        ("a = -9223372036854775808", {"a": -(2**63)}, True),
        ("a = 1.0", {"a": 1}, True),
        ("a = 0x1F", {"a": 31}, True),
        ("a = 0xFFFFFFFFFFFFFFFF", {"a": -1}, True),
        ("a = 017", {"a": 15}, True),
        ("a = 0b101", {"a": 5}, True),
        ("a = 1__000L", {"a": 1000}, True),
        ("a = 7.", {"a": 7}, True),
        ("a = .5D", {"a": 0.5}, True),
        ("a = 5f", {"a": 5}, True),
        ("a = 0.1F", {"a": 0.1}, False),
        ("a = 0.1F", {"a": 0.10000000149011612}, True),
        ("a = -57.9E2", {"a": -5790}, True),
        ("a = 0x1p3", {"a": 8}, True),
        ("a = +62", {"a": 62}, True),
        # Arithmetic, in its order.
        ("a + 2 * 3 = 7", {"a": 1}, True),
        ("(a + 2) * 3 = 9", {"a": 1}, True),
        ("10 - a - 3 = 5", {"a": 2}, True),
        ("100 / a / 2 = 5", {"a": 10}, True),
        ("a / 2 = -3", {"a": -7}, True),
        ("a / 2 = -3.5", {"a": -7.0}, True),
        ("- -a = 3 AND -(a) = - + 3", {"a": 3}, True),
        ("1 / a = 1", {"a": 0}, False),
        ("NOT (1 / a = 1)", {"a": 0}, False),
        ("1 / a > 1", {"a": 0.0}, True),
        ("a * a > 0", {"a": 2**40}, False),
        ("a + 1 = 2", {"a": "1"}, False),
        ("a + 1 = 2 OR TRUE", {}, True),
        # Precedence of NOT, AND, OR; letters of any case.
        ("NOT a = 1 AND c = 2", {"a": 2, "c": 2}, True),
        ("a = 1 OR a = 2 AND c = 3", {"a": 1, "c": 0}, True),
        ("a bEtWeEn 1 aNd 3 and not c Is nUlL", {"a": 2, "c": 0}, True),
        ("true", {}, True),
        ("FALSE OR a is null", {}, True),
        ("s = 'it''s'", {"s": "it's"}, True),
        ("s = ''", {"s": ""}, True),
        ("$a_1 = 1 AND größe = 2", {"$a_1": 1, "größe": 2}, True),
        ("a IN ('x')", {}, False),
        ("a BETWEEN b AND 3", {"a": 4}, False),
        ("NOT (a BETWEEN b AND 3)", {"a": 4}, True),
        ("NOT (a BETWEEN b AND 3)", {"a": 2}, False),
        ("", {}, True),
        (" \t\n", {}, True),
    ],
)  # fmt: skip
def test_selects(text: str, values: dict[str, object], wanted: bool) -> None:
    assert selects(text, **values) is wanted


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("", "", True),
        ("", "x", False),
        ("%", "", True),
        ("%%", "abc", True),
        ("_%_", "a", False),
        ("_%_", "ab", True),
        ("a%", "bab", False),
        ("%ab%_c", "xabyzabqc", True),
        ("%a_c%", "xxabcxx", True),
        ("%a_c", "abcabd", False),
        ("a!%b", "a%b", True),
        ("a!%b", "axb", False),
        ("a!!b", "a!b", True),
        ("a.c", "abc", False),
        ("_", "\n", True),
        ("%x", "ayx", True),
        ("aa%aa", "aaa", False),
    ],
)
def test_like(pattern: str, text: str, wanted: bool) -> None:
    assert selects(f"s LIKE '{pattern}' ESCAPE '!'", s=text) is wanted


def test_like_does_not_explode() -> None:
    assert not selects("s LIKE '" + "%a" * 200 + "%b'", s="a" * 20_000)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("NULL = ZERO", 0, "expected an identifier"),
        ("TRUE > 0", 0, "must be a number"),
        ("a = 1 b", 6, "expected an operator"),
        ("a = ", 4, "found the end"),
        ("(a = 1", 6, "closing bracket"),
        ("a = 1)", 5, "expected an operator"),
        ("a = 'x", 4, "closing quote"),
        ('string = "literal"', 9, "double quotes"),
        ("1uncorrect IS NULL", 0, "neither a number"),
        ("%uncorrect IS NULL", 0, "no meaning"),
        ("a.b = 1", 0, "a dot"),
        ("a IN ()", 6, "a string in the list"),
        ("a IN (1)", 6, "a string in the list"),
        ("a IN ('x' 'y')", 10, "a comma"),
        ("1 IN ('x')", 0, "identifier before IN"),
        ("'a' LIKE 'a'", 0, "identifier before LIKE"),
        ("a + 1 IS NULL", 0, "identifier before IS"),
        ("a LIKE 5", 7, "a pattern"),
        ("a LIKE 'x' ESCAPE 'yy'", 18, "one character"),
        ("a LIKE '!x' ESCAPE '!'", 19, "must stand before"),
        ("a LIKE 'x!' ESCAPE '!'", 19, "must stand before"),
        ("a BETWEEN 1 OR 2", 12, "upper end of BETWEEN"),
        ("a BETWEEN 'x' AND 'y'", 10, "must be a number"),
        ("a NOT 5", 6, "BETWEEN, IN or LIKE"),
        ("a IS 5", 5, "NULL or NOT NULL"),
        ("a < 'x'", 4, "must be a number"),
        ("a + TRUE = 1", 4, "must be a number"),
        ("a = 1 AND 'x'", 10, "must be a condition"),
        ("5 OR a", 0, "must be a condition"),
        ("NOT 5", 4, "must be a condition"),
        ("'x'", 0, "must be a condition"),
        ("a + 1", 0, "must be a condition"),
        ("-'x' = 1", 1, "must be a number"),
        ("a = 9223372036854775808", 4, "range of a long"),
        ("a = 0x1FFFFFFFFFFFFFFFF", 4, "no number"),
        ("a = 089", 4, "no number"),
        ("a = 1e999", 4, "no number"),
        ("a = 1__", 4, "no number"),
        ("a = 0x_1", 4, "no number"),
        ("a = .٣", 4, "no meaning"),
        ("a == 1", 3, "expected an identifier"),
        ("a != 1", 2, "no meaning"),
        ("JMSExpiration > 1", 0, "can't be selected by"),
        ("JMSReplyTo = 'x'", 0, "can't be selected by"),
        ("amqp.nothing = 1", 0, "no field"),
        ("AND > 0", 0, "expected an identifier"),
        ("a = 1 AND", 9, "found the end"),
    ],
)
def test_refused_with_the_place(text: str, position: int, problem: str) -> None:
    with pytest.raises(SelectorInvalid) as caught:
        parse(text)
    assert caught.value.position == position
    assert problem in caught.value.problem
    assert f"character {position + 1}" in str(caught.value)


def test_bounds() -> None:
    with pytest.raises(SelectorInvalid, match="characters are more"):
        parse("a = '" + "x" * MAX_SELECTOR_CHARS + "'")
    with pytest.raises(SelectorInvalid, match="levels"):
        parse("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1))
    with pytest.raises(SelectorInvalid, match="levels"):
        parse("NOT " * (MAX_DEPTH + 1) + "a")
    with pytest.raises(SelectorInvalid, match="levels"):
        parse("a = " + "- " * (MAX_DEPTH + 1) + "b")
    with pytest.raises(SelectorInvalid, match="words"):
        parse("a+" * MAX_TOKENS + "a = 1")
    assert selects("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, a=True)
    assert selects(" OR ".join(["a = 1"] * 1000 + ["TRUE"]))
    assert selects("a" + "+ 1" * 2000 + " = 2001", a=1)


def test_equal_texts_are_parsed_once_and_the_cache_is_bounded() -> None:
    assert parse("a = 1") is parse("a = 1")
    for number in range(MAX_CACHED_SELECTORS + 10):
        parse(f"a = {number} OR a = 1")
    assert len(_cache) == MAX_CACHED_SELECTORS


def test_a_selector_knows_what_it_reads() -> None:
    assert not parse("JMSPriority > 4 AND JMSDeliveryMode = 'PERSISTENT'").needs_sections
    assert parse("JMSPriority > 4 AND color = 'red'").needs_sections
    assert parse("JMSXDeliveryCount > 1").changes
    assert parse('"amqp.annotation.x-opt-y" IS NULL').changes
    assert not parse("color = 'red'").changes
