"""What goes wrong between a test and its broker."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

HINTED_NAMES: Final = 3


class UnknownName(KeyError):
    """There is nothing of that name; the text tells which names are like it."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"{what}{hint(name, known)}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class UnknownQueue(UnknownName):
    """The broker has no such queue."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"the broker has no queue {name!r}", name, known)


class UnknownConnection(UnknownName):
    """No client with that container id is connected."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no client with the container id {name!r} is connected", name, known)


class UnknownMessage(UnknownName):
    """The ledger knows no message with that id."""

    def __init__(self, message_id: object) -> None:
        super().__init__(f"the ledger knows no message with the id {message_id!r}", "", ())


class ConfigInvalid(ValueError):
    """The configuration, or the settings of a queue, can't be used."""


class NotAllowed(ValueError):
    """The broker refuses what the test asks for."""


class BrokerFailed(RuntimeError):
    """The broker has ended, by itself or by ``close``, or doesn't come to rest."""


def hint(name: str, known: Iterable[str]) -> str:
    """Which of the known names are like ``name``, or all where they are few, as the end of a sentence."""
    names = sorted(known)
    near = get_close_matches(name, names, HINTED_NAMES)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    if not names or len(names) > HINTED_NAMES:
        return ""
    return f"; there is {' and '.join(map(repr, names))}"
