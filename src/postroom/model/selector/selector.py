"""A selector ready for use, and the cache of those parsed."""

from collections import OrderedDict
from typing import Final, final

from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.expressions import BOOLEAN as _BOOLEAN
from postroom.model.selector.expressions import TRUE, Expression, Fields, Literal
from postroom.model.selector.names import CHANGING, WITHOUT_SECTIONS
from postroom.model.selector.parser import Parser

MAX_SELECTOR_CHARS: Final = 32 << 10
MAX_CACHED_SELECTORS: Final = 1024


@final
class Selector:
    """Which messages somebody wants; made by `parse`, never changed, shared by all who say the same."""

    def __init__(self, text: str, expression: Expression, names: frozenset[str]) -> None:
        self.text = text
        self.names = names
        """The identifiers in it."""
        self.needs_sections = not names <= WITHOUT_SECTIONS
        """Whether the message's own bytes must be read to judge it."""
        self.changes = any(name.startswith(CHANGING) for name in names)
        """Whether a message that comes back may be judged otherwise than before."""
        self._expression = expression

    def matches(self, fields: Fields) -> bool:
        """Whether the message is wanted: only if the condition is true, neither false nor unknown."""
        return self._expression.truth(fields) == TRUE


_cache: OrderedDict[str, Selector] = OrderedDict()


def parse(text: str) -> Selector:
    """The selector that ``text`` is; an empty one selects everything. Raises SelectorInvalid."""
    found = _cache.get(text)
    if found is not None:
        _cache.move_to_end(text)
        return found
    selector = _parse(text)
    _cache[text] = selector
    if len(_cache) > MAX_CACHED_SELECTORS:
        _cache.popitem(last=False)
    return selector


def _parse(text: str) -> Selector:
    if len(text) > MAX_SELECTOR_CHARS:
        raise SelectorInvalid(
            0, text, f"{len(text)} characters are more than a selector may have ({MAX_SELECTOR_CHARS})"
        )
    if not text.strip():
        return Selector(text, Literal(_BOOLEAN, True), frozenset())
    parser = Parser(text)
    expression = parser.parse()
    return Selector(text, expression, frozenset(parser.names))
