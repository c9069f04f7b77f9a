"""The words of a selector."""

import re
import struct
from typing import Final, final

from mypy_extensions import i64

from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.names import AMQP_PREFIX, RESERVED, continues_identifier, starts_identifier

END: Final = 0
NAME: Final = 1
WORD: Final = 2  # reserved, in capitals
STRING: Final = 3
NUMBER: Final = 4
SIGN: Final = 5  # operators, brackets, comma

MAX_TOKENS: Final = 4096

MAX_LONG: Final = (1 << 63) - 1
TWO_TO_63: Final = 1 << 63

_SPACE: Final = " \t\f\r\n"
_NUMBER: Final = re.compile(
    r"0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+[fFdD]?"  # hexadecimal floating point
    r"|0[xX][0-9a-fA-F_]+[lL]?|0[bB][01_]+[lL]?"
    r"|(?:[0-9][0-9_]*\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|[0-9][0-9_]*(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD]|[lL]?)"
)
_TWO: Final = ("<>", "<=", ">=")
_ONE: Final = "=<>+-*/(),"


@final
class Token:
    """One word; ``number`` is an int or a float."""

    __slots__ = ("kind", "number", "position", "text")

    def __init__(self, kind: i64, text: str, position: int, number: object = None) -> None:
        self.kind: i64 = kind
        self.text = text
        self.position = position
        self.number = number

    def described(self) -> str:
        """For an error message."""
        if self.kind == END:
            return "the end"
        return "a string" if self.kind == STRING else repr(self.text)


def tokens_of(text: str) -> list[Token]:
    """The words of ``text``, the last one END; raises SelectorInvalid."""
    found: list[Token] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at == len(text):
            found.append(Token(END, "", at))
            return found
        if len(found) >= MAX_TOKENS:
            raise SelectorInvalid(at, text, f"more than {MAX_TOKENS} words in one selector")
        token, at = _token(text, at)
        found.append(token)


def _token(text: str, at: int) -> tuple[Token, int]:
    """The word at ``at``, and where it ends."""
    char = text[at]
    if char == "'":
        return _string(text, at)
    if char == '"':
        return _quoted_name(text, at)
    if "0" <= char <= "9" or (char == "." and "0" <= text[at + 1 : at + 2] <= "9"):
        return _number(text, at)
    if starts_identifier(char):
        return _name(text, at)
    if text[at : at + 2] in _TWO:
        return Token(SIGN, text[at : at + 2], at), at + 2
    if char in _ONE:
        return Token(SIGN, char, at), at + 1
    raise SelectorInvalid(at, text, f"{char!r} has no meaning here")


def _string(text: str, at: int) -> tuple[Token, int]:
    parts: list[str] = []
    start = at + 1
    while True:
        end = text.find("'", start)
        if end < 0:
            raise SelectorInvalid(at, text, "a string without its closing quote (')")
        parts.append(text[start:end])
        if text[end + 1 : end + 2] != "'":
            return Token(STRING, "'".join(parts), at), end + 1
        start = end + 2


def _quoted_name(text: str, at: int) -> tuple[Token, int]:
    end = text.find('"', at + 1)
    name = text[at + 1 : end] if end > 0 else ""
    if not name.startswith(AMQP_PREFIX):
        raise SelectorInvalid(
            at, text, f"double quotes are for names that begin with {AMQP_PREFIX}; strings stand in ' quotes"
        )
    return Token(NAME, name, at), end + 1


def _name(text: str, at: int) -> tuple[Token, int]:
    end = at + 1
    while end < len(text) and (continues_identifier(text[end]) or text[end] == "."):
        end += 1
    name = text[at:end]
    upper = name.upper()
    if upper in RESERVED:
        return Token(WORD, upper, at), end
    return Token(NAME, name, at), end


def _number(text: str, at: int) -> tuple[Token, int]:
    match = _NUMBER.match(text, at)
    assert match is not None
    literal = match.group()
    end = at + len(literal)
    if end < len(text) and (continues_identifier(text[end]) or text[end] == "."):
        raise SelectorInvalid(at, text, "neither a number nor an identifier: identifiers don't begin so")
    try:
        value = _value(literal)
    except (ValueError, OverflowError):
        raise SelectorInvalid(at, text, f"{literal!r} is no number of the Java language") from None
    return Token(NUMBER, literal, at, value), end


def _value(literal: str) -> object:
    """An exact number as int, an approximate one as float; raises ValueError, OverflowError."""
    lower = literal.lower()
    if "_" in lower:
        if re.search(r"(?<![0-9a-f_])_|_(?![0-9a-f_])", lower):
            raise ValueError(literal)
        lower = lower.replace("_", "")
    if lower.startswith("0x"):
        return _approximate(lower) if "p" in lower else _two_complement(int(lower.rstrip("l")[2:], 16))
    if lower.startswith("0b"):
        return _two_complement(int(lower.rstrip("l")[2:], 2))
    if "." in lower or "e" in lower or lower[-1] in "fd":
        return _approximate(lower)
    return _exact(lower.rstrip("l"))


def _exact(digits: str) -> int:
    """2**63 is let through: it is a long when a minus sign stands before it, as the parser checks."""
    value = int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)
    if value > TWO_TO_63:
        raise OverflowError(digits)
    return value


def _two_complement(bits: int) -> int:
    """Hexadecimal and binary literals of Java name the bits of a long."""
    if bits >> 64:
        raise OverflowError(bits)
    return bits - (1 << 64) if bits > MAX_LONG else bits


def _approximate(lower: str) -> float:
    single = lower[-1] == "f" and ("p" in lower or not lower.startswith("0x"))
    digits = lower[:-1] if lower[-1] in "fd" else lower
    value: float = float.fromhex(digits) if digits.startswith("0x") else float(digits)
    if single:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if value in (float("inf"), float("-inf")):
        raise OverflowError(lower)
    return value
