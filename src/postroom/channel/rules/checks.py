"""What a value may be, and what to say where it isn't."""

from typing import Final

from postroom.channel.rules.symbols import SYMBOLS, alike
from postroom.channel.rules.table import MAX_NUMBER

MAX_NAME_CHARS: Final = 48
"""Of a queue or a queue manager, as IBM MQ has it."""
WILDCARDS: Final = "*?"
MAX_DIGITS: Final = 32
SHOWN_CHARS: Final = 60


def number_of(text: str, least: int) -> int | None:
    """The number that stands there, in decimal digits; None if there is none from ``least`` to MAX_NUMBER."""
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        return None
    number = int(text)
    return number if least <= number <= MAX_NUMBER else None


def choice_of(value: str, choices: tuple[str, ...]) -> str | None:
    """The choice that ``value`` is."""
    return value if value in choices else None


def check_name(keyword: str, value: str, substitutes: tuple[str, ...]) -> str:
    """What is wrong with a name that is no pattern; "" if nothing is."""
    for wildcard in WILDCARDS:
        if wildcard in value:
            return f"{keyword} takes a name, and {wildcard} is none: only patterns have wildcards"
    if value.startswith("&") and value not in substitutes:
        can = " or ".join(substitutes)
        return f"{keyword} knows no {shown(value)}: " + (f"it takes {can}" if can else "it takes a name")
    if len(value.rstrip(" ")) > MAX_NAME_CHARS:
        return f"{keyword} takes names of at most {MAX_NAME_CHARS} characters; this one has {len(value)}"
    return ""


def check_pattern(keyword: str, value: str, max_chars: int) -> str:
    """What is wrong with a pattern for a field of ``max_chars``; "" if nothing is."""
    count = len(value.rstrip(" ").replace("*", ""))
    if count <= max_chars:
        return ""
    return (
        f"{keyword} has at most {max_chars} characters, asterisks not counted; this pattern has {count}: "
        "shorten it, with * for what is left out"
    )


def pattern_number(keyword: str, value: str) -> tuple[int, str]:
    """The number that a pattern stands for, and what is wrong with it ("" if nothing is)."""
    symbols = SYMBOLS[keyword]
    if value in symbols:
        return symbols[value], ""
    number = number_of(value, 0)
    if number is not None:
        return number, ""
    return 0, _number_fault(keyword, value)


def _number_fault(keyword: str, value: str) -> str:
    if any(wildcard in value for wildcard in WILDCARDS):
        return f"{keyword} takes one number, or * alone for any: {shown(value)} is neither"
    if value.lstrip("+-").isdigit():
        return f"{keyword} takes numbers from 0 to {MAX_NUMBER}, not {shown(value)}"
    for other, symbols in SYMBOLS.items():
        if value in symbols:
            return f"{value} is a value of {other}, not of {keyword}"
    near = alike(keyword, value.upper())
    hint = f"; is {near} meant?" if near else ": give the number instead"
    return f"{keyword} knows no value {shown(value)}{hint}"


def shown(value: str) -> str:
    """For a message, cut off where it is long."""
    return repr(value) if len(value) <= SHOWN_CHARS else repr(value[:SHOWN_CHARS]) + "…"
