"""The queues that a read asks for: one that no ledger knows is refused, with the nearest that one does; it
would be as if it were empty. Needs no Spark."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from postroom.ledger.reading.definitions import Definitions
from postroom.manager.kernel.options import KIND_QUEUE, KIND_TOPIC
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.option_names import nearest
from postroom.spark.ledger_source.options import SourceOptions
from postroom.spark.places.place import Place, Seen, Slice, Snapshot

SHOWN_NAMES: Final = 20
"""So many are named in an error."""


def check_queues(options: SourceOptions, seen: Mapping[str, Seen]) -> None:
    """Whether a ledger knows each of the queues that are asked for; those that were deleted, too, as long as
    there is history of them. Raises ``SourceOptionError``."""
    missing = set(options.queues or ())
    known: set[str] = set()
    for one in seen.values() if missing else ():
        for definitions in _definitions(one.place, one.snapshot):
            for number, definition in definitions.queues.items():
                name, is_there = definition.get("name"), number not in definitions.deleted_queues
                if name in missing and is_there and definition.get("kind") == KIND_TOPIC:
                    raise SourceOptionError(_topic(str(name), definitions))
            names = set(definitions.holding_names.values())
            missing -= names
            known |= names
            if not missing:
                return
    if missing:
        raise SourceOptionError(_unknown(sorted(missing), known))


def kinds_now(place: Place, snapshot: Snapshot) -> dict[str, str]:
    """What there is at the end of a look, by name: queue, topic, subscription, remote, …

    Raises ``LedgerError``, ``OSError``.
    """
    for definitions in _definitions(place, snapshot):
        gone = definitions.deleted_queues
        current = (one for number, one in definitions.queues.items() if number not in gone)
        return {str(one.get("name")): str(one.get("kind", KIND_QUEUE)) for one in current}
    return {}


def _definitions(place: Place, snapshot: Snapshot) -> Iterator[Definitions]:
    """What each file of a look defines, the newest first."""
    for segment in reversed(snapshot.segments):
        last = min(segment.last_position, snapshot.durable_through)
        if last >= segment.first_position:
            hint = place.hint(segment, last, last)
            yield from (definitions for _, definitions in place.read(Slice(place, segment, last, last, hint)))


def _topic(name: str, definitions: Definitions) -> str:
    """How a topic's messages are read."""
    gone = definitions.deleted_queues
    current = {number: one for number, one in definitions.queues.items() if number not in gone}
    names = sorted(str(one.get("name")) for one in current.values() if one.get("topic") == name)
    message = f'option "queues": {name!r} is a topic, which holds no messages: they are on its subscriptions'
    if not names:
        return f"{message}. It has none: make a durable one (postroom subscription create), and name that"
    return f"{message}; name those: {json.dumps(names[:SHOWN_NAMES], ensure_ascii=False)}"


def _unknown(missing: list[str], known: set[str]) -> str:
    message = f'option "queues": no ledger here knows {", ".join(map(repr, missing[:SHOWN_NAMES]))}'
    hints = {name: near for name in missing if (near := nearest(name, known))}
    if hints:
        return f"{message}; did you mean {', '.join(map(repr, hints.values()))}?"
    if not known:
        return f"{message}: there is no queue at all yet"
    shown = sorted(known)[:SHOWN_NAMES]
    return f"{message}; there {'are' if len(known) > 1 else 'is'} {', '.join(map(repr, shown))}" + (
        f" and {len(known) - SHOWN_NAMES:,} more" if len(known) > SHOWN_NAMES else ""
    )
