"""From words to a tree; see docs/reference/selectors for the grammar.

Types are checked here as far as they show: what can't have a value of the type that an operator wants is a
mistake of whoever wrote it, and refused rather than never matched.

By hand: Lark takes 11 to 17 times as long as this compiled, and its errors list terminals
(docs/explanation/own-parts.md).
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.model.selector import tokens as t
from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.expressions import (
    ANY,
    BOOLEAN,
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    NUMBER,
    STRING,
    UNEQUAL,
    And,
    Arithmetic,
    Between,
    Compare,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
)
from postroom.model.selector.like import Pattern
from postroom.model.selector.names import problem_with
from postroom.model.selector.tokens import Token, tokens_of

MAX_DEPTH: Final = 40
"""Brackets, NOTs and signs within one another."""

_COMPARISONS: Final = {
    "=": EQUAL,
    "<>": UNEQUAL,
    "<": LESS,
    "<=": LESS_OR_EQUAL,
    ">": GREATER,
    ">=": GREATER_OR_EQUAL,
}
_KINDS: Final = ("a value", "a condition", "a number", "a string")


@final
class Parser:
    """Reads one selector; `names` are the identifiers that it met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self._tokens = tokens_of(text)
        self._at: i64 = 0
        self._depth: i64 = 0

    def parse(self) -> Expression:
        """The whole text as a condition; raises SelectorInvalid."""
        start = self._token()
        expression = self._or()
        if self._token().kind != t.END:
            raise self._expected("an operator, AND, OR or the end")
        self._want(expression, BOOLEAN, start, "the selector")
        return expression

    # Words.

    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _is(self, kind: i64, text: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == kind and token.text == text

    def _take(self, kind: i64, text: str) -> bool:
        """Pass the word if it is this one."""
        found = self._is(kind, text)
        if found:
            self._at += 1
        return found

    def _demand(self, kind: i64, text: str, what: str) -> None:
        if not self._take(kind, text):
            raise self._expected(what)

    def _expected(self, what: str) -> SelectorInvalid:
        token = self._token()
        return SelectorInvalid(token.position, self.text, f"expected {what}, found {token.described()}")

    def _want(self, expression: Expression, kind: i64, start: Token, what: str) -> None:
        """``expression``, which begins at ``start``, must be able to have a value of ``kind``."""
        if expression.kind != kind and expression.kind != ANY:
            raise SelectorInvalid(
                start.position, self.text, f"{what} must be {_KINDS[kind]}, this is {_KINDS[expression.kind]}"
            )

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SelectorInvalid(
                self._token().position, self.text, f"more than {MAX_DEPTH} levels of brackets, NOTs and signs"
            )

    # Conditions.

    def _or(self) -> Expression:
        start = self._token()
        operands = [self._and()]
        while self._is(t.WORD, "OR"):
            self._next()
            operands.append(self._operand_of("OR", operands, start))
        return operands[0] if len(operands) == 1 else Or(operands)

    def _operand_of(self, word: str, operands: list[Expression], start: Token) -> Expression:
        """The next operand of AND or OR, both checked."""
        if len(operands) == 1:
            self._want(operands[0], BOOLEAN, start, f"the left side of {word}")
        here = self._token()
        operand = self._and() if word == "OR" else self._not()
        self._want(operand, BOOLEAN, here, f"the right side of {word}")
        return operand

    def _and(self) -> Expression:
        start = self._token()
        operands = [self._not()]
        while self._is(t.WORD, "AND"):
            self._next()
            operands.append(self._operand_of("AND", operands, start))
        return operands[0] if len(operands) == 1 else And(operands)

    def _not(self) -> Expression:
        if not self._take(t.WORD, "NOT"):
            return self._comparison()
        self._deeper()
        start = self._token()
        operand = self._not()
        self._want(operand, BOOLEAN, start, "what NOT denies")
        self._depth -= 1
        return Not(operand)

    def _comparison(self) -> Expression:
        start = self._token()
        left = self._sum()
        token = self._token()
        if token.kind == t.SIGN and token.text in _COMPARISONS:
            self._next()
            return self._compared(left, start, token.text)
        if token.kind != t.WORD:
            return left
        if token.text == "IS":
            return self._is_null(left, start)
        negative = token.text == "NOT"
        if negative:
            self._next()
        found = self._predicate(left, start, negative)
        return Not(found) if negative else found

    def _compared(self, left: Expression, start: Token, sign: str) -> Expression:
        here = self._token()
        right = self._sum()
        operator = _COMPARISONS[sign]
        if operator != EQUAL and operator != UNEQUAL:
            self._want(left, NUMBER, start, f"the left side of {sign}")
            self._want(right, NUMBER, here, f"the right side of {sign}")
        return Compare(operator, left, right)

    def _predicate(self, left: Expression, start: Token, negative: bool) -> Expression:
        """[NOT] BETWEEN, IN or LIKE; without NOT perhaps nothing of it."""
        if self._take(t.WORD, "BETWEEN"):
            return self._between(left, start)
        if self._take(t.WORD, "IN"):
            return self._in(self._identifier(left, start, "IN"))
        if self._take(t.WORD, "LIKE"):
            return self._like(self._identifier(left, start, "LIKE"))
        if negative:
            raise self._expected("BETWEEN, IN or LIKE after NOT")
        return left

    def _identifier(self, left: Expression, start: Token, word: str) -> Identifier:
        if isinstance(left, Identifier):
            return left
        raise SelectorInvalid(start.position, self.text, f"expected an identifier before {word}")

    def _is_null(self, left: Expression, start: Token) -> Expression:
        self._next()
        operand = self._identifier(left, start, "IS")
        negative = self._take(t.WORD, "NOT")
        self._demand(t.WORD, "NULL", "NULL" if negative else "NULL or NOT NULL")
        found: Expression = IsNull(operand)
        return Not(found) if negative else found

    def _between(self, left: Expression, start: Token) -> Expression:
        self._want(left, NUMBER, start, "what stands before BETWEEN")
        here = self._token()
        low = self._sum()
        self._want(low, NUMBER, here, "the lower end of BETWEEN")
        self._demand(t.WORD, "AND", "AND and the upper end of BETWEEN")
        here = self._token()
        high = self._sum()
        self._want(high, NUMBER, here, "the upper end of BETWEEN")
        return Between(left, low, high)

    def _in(self, operand: Identifier) -> Expression:
        self._demand(t.SIGN, "(", "a list of strings in brackets")
        strings = [self._string("a string in the list of IN")]
        while self._take(t.SIGN, ","):
            strings.append(self._string("a string in the list of IN"))
        self._demand(t.SIGN, ")", "a comma or the closing bracket of IN")
        return In(operand, strings)

    def _like(self, operand: Identifier) -> Expression:
        here = self._token()
        pattern = self._string("a pattern in quotes")
        escape = ""
        if self._take(t.WORD, "ESCAPE"):
            here = self._token()
            escape = self._string("the escape character in quotes")
            if len(escape) != 1:
                raise SelectorInvalid(here.position, self.text, "ESCAPE takes one character")
        try:
            return Like(operand, Pattern(pattern, escape))
        except ValueError as error:
            raise SelectorInvalid(here.position, self.text, str(error)) from None

    def _string(self, what: str) -> str:
        if self._token().kind != t.STRING:
            raise self._expected(what)
        return self._next().text

    # Arithmetic.

    def _sum(self) -> Expression:
        return self._chain("+-")

    def _product(self) -> Expression:
        return self._chain("*/")

    def _chain(self, wanted: str) -> Expression:
        """Operands joined by the signs of ``wanted``, from left to right."""
        start = self._token()
        first = self._product() if wanted == "+-" else self._signed()
        signs: list[str] = []
        others: list[Expression] = []
        while self._token().kind == t.SIGN and self._token().text in wanted:
            sign = self._next().text
            if not signs:
                self._want(first, NUMBER, start, f"the left side of {sign}")
            here = self._token()
            other = self._product() if wanted == "+-" else self._signed()
            self._want(other, NUMBER, here, f"the right side of {sign}")
            signs.append(sign)
            others.append(other)
        return Arithmetic(first, signs, others) if signs else first

    def _signed(self) -> Expression:
        token = self._token()
        if token.kind != t.SIGN or token.text not in "+-":
            return self._primary()
        self._next()
        here = self._token()
        if token.text == "-" and here.kind == t.NUMBER:
            self._next()
            return Literal(NUMBER, _opposite(here))
        self._deeper()
        operand = self._signed()
        self._depth -= 1
        self._want(operand, NUMBER, here, f"what follows {token.text}")
        return Negative(operand) if token.text == "-" else operand

    def _primary(self) -> Expression:
        token = self._token()
        if token.kind == t.NAME:
            return self._name()
        if token.kind == t.NUMBER:
            self._next()
            self._check_long(token)
            return Literal(NUMBER, token.number)
        if token.kind == t.STRING:
            self._next()
            return Literal(STRING, token.text)
        if token.kind == t.WORD and token.text in ("TRUE", "FALSE"):
            self._next()
            return Literal(BOOLEAN, token.text == "TRUE")
        if self._take(t.SIGN, "("):
            return self._bracketed()
        raise self._expected("an identifier, a literal, NOT or an opening bracket")

    def _bracketed(self) -> Expression:
        self._deeper()
        inner = self._or()
        self._demand(t.SIGN, ")", "an operator or a closing bracket")
        self._depth -= 1
        return inner

    def _name(self) -> Expression:
        token = self._next()
        problem = problem_with(token.text)
        if problem:
            raise SelectorInvalid(token.position, self.text, problem)
        self.names.add(token.text)
        return Identifier(token.text)

    def _check_long(self, token: Token) -> None:
        if isinstance(token.number, int) and token.number > t.MAX_LONG:
            raise SelectorInvalid(token.position, self.text, f"{token.text} is beyond the range of a long")


def _opposite(token: Token) -> object:
    number = token.number
    if isinstance(number, (int, float)):
        return -number
    return None
