"""The selector language of JMS (Jakarta Messaging 3.1, section 3.8.1): which messages somebody wants to see.

Public: `parse` (text to `Selector`, cached), `Selector.matches(fields)`, `Fields` (what a selector reads a
message through), `SelectorInvalid` (with position and what was expected). Touches nothing but its arguments:
how properties lie in a stored message is the business of `postroom.amqp.message.message_fields`.

The parser is written by hand, by recursive descent: the grammar has two dozen productions, mypyc compiles
it, and it says at each place what it expected there, which a table-driven one can't in the language's words.
"""

from postroom.model.selector.errors import SelectorInvalid
from postroom.model.selector.expressions import Fields
from postroom.model.selector.selector import Selector, parse

__all__ = ["Fields", "Selector", "SelectorInvalid", "parse"]
