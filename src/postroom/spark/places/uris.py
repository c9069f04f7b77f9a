"""Which place a URI names; patterns name several."""

from collections.abc import Iterable
from glob import has_magic
from pathlib import Path
from typing import Final

from postroom.ledger.errors import LedgerError
from postroom.ledger.reading.reader import NoLedger, holds_ledger
from postroom.spark.places.place import Place


class PlaceUnknown(LedgerError):
    """A URI that names no place where a ledger can be read."""


FOLDER_SCHEMES: Final = ("file://", "file:")
BROKER_SCHEMES: Final = ("http://", "https://")
STORE_SCHEME: Final = "store:"


def place_of(uri: str, token: str = "", cache: str = "") -> Place:
    """The place that a URI names: a path or ``file:…`` is a folder, ``http(s)://…`` a broker (several with
    commas: the members of a replicated one), ``store:URI`` an object store, with ``#LEDGER-ID`` behind it
    where it holds several ledgers.

    `token` is what a broker asks for; `cache` is a folder where tasks keep the sealed files of places that
    are far away. Raises ``PlaceUnknown``.
    """
    from postroom.spark.places.folder import FolderPlace

    if uri.startswith(STORE_SCHEME):
        from postroom.spark.places.store import LEDGER_MARK, StorePlace

        root, _, ledger_id = uri.removeprefix(STORE_SCHEME).partition(LEDGER_MARK)
        return StorePlace(root, ledger_id, cache)
    if uri.startswith(BROKER_SCHEMES):
        from postroom.spark.places.broker import BrokerPlace

        return BrokerPlace(uri, token, cache)
    for scheme in FOLDER_SCHEMES:
        if uri.startswith(scheme):
            return FolderPlace(Path(uri.removeprefix(scheme)))
    if "://" in uri:
        raise PlaceUnknown(
            f"{uri}: no such place; name the broker's data folder, http(s)://HOST:PORT of a broker, or"
            f" {STORE_SCHEME}{uri} for a store that `postroom ledger upload` has filled"
        )
    return FolderPlace(Path(uri))


class Places:
    """What some URIs lead to now. A path with ``*``, ``?`` or ``[…]`` stands for every folder of that pattern
    that holds a ledger: one that appears is there from the next look on."""

    def __init__(self, uris: Iterable[str], token: str = "", cache: str = "") -> None:
        """`token` and `cache` as for `place_of`."""
        self._uris: Final = tuple(uris)
        self._token: Final = token
        self._cache: Final = cache
        self._known: Final[dict[str, Place]] = {}

    def now(self) -> list[Place]:
        """The places; those that were given before are the same objects, which remember what they saw.

        Raises ``PlaceUnknown``; ``NoLedger`` for a pattern that nothing matches.
        """
        return [self._place(found) for uri in self._uris for found in _matching(uri)]

    def _place(self, uri: str) -> Place:
        place = self._known.get(uri)
        if place is None:
            place = self._known[uri] = place_of(uri, self._token, self._cache)
        return place


def _matching(uri: str) -> list[str]:
    """The folders with a ledger that a pattern matches, by name; what is no pattern stands for itself."""
    path = uri.removeprefix("file://").removeprefix("file:")
    if uri.startswith((*BROKER_SCHEMES, STORE_SCHEME)) or not has_magic(path) or Path(path).exists():
        return [uri]
    anchor = Path(path).anchor or "."
    folders = sorted(Path(anchor).glob(path.removeprefix(anchor)))
    found = [str(folder) for folder in folders if holds_ledger(folder)]
    if not found:
        raise NoLedger(Path(path))
    return found
