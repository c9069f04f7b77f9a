"""The tree of a selector, and what it says of a message.

Conditions have three values (Jakarta Messaging 3.1, section 3.8.1.2): a comparison with an absent property
is unknown, unknown AND false is false, unknown OR true is true, NOT unknown is unknown, and only true
selects. A comparison of unlike types is false. Exact and approximate numbers compare by their value, without
rounding a long to a double first; exact arithmetic is exact, with the division of Java (towards zero).
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from postroom.model.selector.like import Pattern
from postroom.model.selector.names import AMQP_PREFIX

FALSE: Final = 0
TRUE: Final = 1
UNKNOWN: Final = 2

ANY: Final = 0
"""Static kind of an identifier: known only with a message."""
BOOLEAN: Final = 1
NUMBER: Final = 2
STRING: Final = 3
NOTHING: Final = 4
"""Kind of a value: absent."""
OTHER: Final = 5
"""Kind of a value: of a type that JMS hasn't (binary, uuid, …); unlike every other."""

EQUAL: Final = 0
UNEQUAL: Final = 1
LESS: Final = 2
LESS_OR_EQUAL: Final = 3
GREATER: Final = 4
GREATER_OR_EQUAL: Final = 5

MAX_EXACT: Final = 1 << 64
"""Exact arithmetic beyond it has no value: bounded, where Java would silently wrap."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Fields:
    """What a selector reads of one message."""

    def value(self, name: str) -> object:
        """The value that ``name`` has: bool, int, float, str; None where the message has none."""
        raise NotImplementedError

    def property_value(self, name: str, encoded: bytes) -> object:
        """The same of an application property; ``encoded`` is its name in UTF-8."""
        return self.value(name)


def kind_of(value: object) -> i64:
    """The kind of a value as selectors see it."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return STRING
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float)):
        return NUMBER
    return OTHER


class Expression:
    """A node. ``kind`` is its static type: ANY, BOOLEAN, NUMBER or STRING."""

    def __init__(self, kind: i64) -> None:
        self.kind: i64 = kind

    def value(self, fields: Fields) -> object:
        """As an operand; None where it has no value."""
        raise NotImplementedError

    def truth(self, fields: Fields) -> i64:
        """As a condition. A value that isn't boolean is neither true nor false."""
        value = self.value(fields)
        if isinstance(value, bool):
            return TRUE if value else FALSE
        return UNKNOWN


@final
class Literal(Expression):
    def __init__(self, kind: i64, value: object) -> None:
        super().__init__(kind)
        self.constant = value

    def value(self, fields: Fields) -> object:
        return self.constant


@final
class Identifier(Expression):
    def __init__(self, name: str) -> None:
        super().__init__(ANY)
        self.name = name
        self._encoded = name.encode()
        self._is_property = not name.startswith(("JMS", AMQP_PREFIX))

    def value(self, fields: Fields) -> object:
        if self._is_property:
            return fields.property_value(self.name, self._encoded)
        return fields.value(self.name)


class Condition(Expression):
    """A node that is true, false or unknown by itself."""

    def __init__(self) -> None:
        super().__init__(BOOLEAN)

    def value(self, fields: Fields) -> object:
        truth = self.truth(fields)
        if truth == UNKNOWN:
            return None
        return truth == TRUE


@final
class Not(Condition):
    def __init__(self, operand: Expression) -> None:
        super().__init__()
        self.operand = operand

    def truth(self, fields: Fields) -> i64:
        return negated(self.operand.truth(fields))


def negated(truth: i64) -> i64:
    return truth if truth == UNKNOWN else 1 - truth


@final
class And(Condition):
    def __init__(self, operands: list[Expression]) -> None:
        super().__init__()
        self.operands = operands

    def truth(self, fields: Fields) -> i64:
        result: i64 = TRUE
        for operand in self.operands:
            truth = operand.truth(fields)
            if truth == FALSE:
                return FALSE
            if truth == UNKNOWN:
                result = UNKNOWN
        return result


@final
class Or(Condition):
    def __init__(self, operands: list[Expression]) -> None:
        super().__init__()
        self.operands = operands

    def truth(self, fields: Fields) -> i64:
        result: i64 = FALSE
        for operand in self.operands:
            truth = operand.truth(fields)
            if truth == TRUE:
                return TRUE
            if truth == UNKNOWN:
                result = UNKNOWN
        return result


@final
class Compare(Condition):
    def __init__(self, operator: i64, left: Expression, right: Expression) -> None:
        super().__init__()
        self.operator: i64 = operator
        self.left = left
        self.right = right

    def truth(self, fields: Fields) -> i64:
        return compared(self.operator, self.left.value(fields), self.right.value(fields))


def compared(operator: i64, left: object, right: object) -> i64:
    """Unknown if a side has no value, false if they are of unlike types or have no order."""
    if left is None or right is None:
        return UNKNOWN
    kind = kind_of(left)
    if kind != kind_of(right) or kind == OTHER:
        return FALSE
    if operator == EQUAL:
        return TRUE if left == right else FALSE
    if operator == UNEQUAL:
        return TRUE if left != right else FALSE
    if isinstance(left, (int, float)) and isinstance(right, (int, float)) and kind == NUMBER:
        return TRUE if _ordered(operator, left, right) else FALSE
    return FALSE


def _ordered(operator: i64, left: int | float, right: int | float) -> bool:
    if operator == LESS:
        return left < right
    if operator == LESS_OR_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


@final
class Between(Condition):
    """Both ends included."""

    def __init__(self, operand: Expression, low: Expression, high: Expression) -> None:
        super().__init__()
        self.operand = operand
        self.low = low
        self.high = high

    def truth(self, fields: Fields) -> i64:
        value = self.operand.value(fields)
        above = compared(GREATER_OR_EQUAL, value, self.low.value(fields))
        if above == FALSE:
            return FALSE
        below = compared(LESS_OR_EQUAL, value, self.high.value(fields))
        if below == FALSE:
            return FALSE
        return UNKNOWN if above == UNKNOWN or below == UNKNOWN else TRUE


@final
class In(Condition):
    def __init__(self, operand: Identifier, strings: list[str]) -> None:
        super().__init__()
        self.operand = operand
        self.strings = frozenset(strings)

    def truth(self, fields: Fields) -> i64:
        value = self.operand.value(fields)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, str) and value in self.strings else FALSE


@final
class Like(Condition):
    def __init__(self, operand: Identifier, pattern: Pattern) -> None:
        super().__init__()
        self.operand = operand
        self.pattern = pattern

    def truth(self, fields: Fields) -> i64:
        value = self.operand.value(fields)
        if value is None:
            return UNKNOWN
        return TRUE if isinstance(value, str) and self.pattern.matches(value) else FALSE


@final
class IsNull(Condition):
    def __init__(self, operand: Identifier) -> None:
        super().__init__()
        self.operand = operand

    def truth(self, fields: Fields) -> i64:
        return TRUE if self.operand.value(fields) is None else FALSE


@final
class Negative(Expression):
    def __init__(self, operand: Expression) -> None:
        super().__init__(NUMBER)
        self.operand = operand

    def value(self, fields: Fields) -> object:
        value = self.operand.value(fields)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
        return None


@final
class Arithmetic(Expression):
    """A chain of + and −, or of * and /, from left to right."""

    def __init__(self, first: Expression, signs: list[str], others: list[Expression]) -> None:
        super().__init__(NUMBER)
        self.first = first
        self.signs = signs
        self.others = others

    def value(self, fields: Fields) -> object:
        result = self.first.value(fields)
        for index, other in enumerate(self.others):
            result = calculated(self.signs[index], result, other.value(fields))
            if result is None:
                return None
        return result


def calculated(sign: str, left: object, right: object) -> object:
    """``left sign right``; None where an operand is no number, or the result is none (division by zero)."""
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if isinstance(left, int) and isinstance(right, int):
        exact = _exact(sign, int(left), int(right))
        return exact if exact is not None and -MAX_EXACT <= exact <= MAX_EXACT else None
    return _approximate(sign, float(left), float(right))


def _exact(sign: str, left: int, right: int) -> int | None:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    return _exact_quotient(left, right)


def _approximate(sign: str, left: float, right: float) -> float:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    return _approximate_quotient(left, right)


def _exact_quotient(left: int, right: int) -> int | None:
    """Towards zero, as in Java."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _approximate_quotient(left: float, right: float) -> float:
    """An infinity, or not a number, by zero: as in Java, and comparable."""
    if right != 0.0:
        return left / right
    if left == 0.0 or left != left:
        return float("nan")
    negative = (left < 0.0) != str(right).startswith("-")
    return float("-inf") if negative else float("inf")
