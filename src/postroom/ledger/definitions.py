"""What ids stand for: the queues, routing sets, producers and holders that a run of records speaks of."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.expand import RoutingSets
from postroom.ledger.layout import Array
from postroom.ledger.records import RecordType


def is_definition(transitions: Array) -> npt.NDArray[np.bool_]:
    """Which transitions define or drop something: queues, routing sets, holders, producers."""
    kinds = transitions["type"]
    chosen: npt.NDArray[np.bool_] = (kinds >= RecordType.QUEUE_DEFINED) & (
        kinds <= RecordType.PRODUCER_CLOSED
    )
    return chosen


class Definitions:
    """The definitions that a range of records speaks of: those in force when its file began, and those made
    since.

    What was closed or dropped within the file keeps its name. Details are decoded when first asked for.
    """

    def __init__(self, transitions: Array, names: npt.NDArray[np.uint8]) -> None:
        self._transitions: Final = transitions
        self._names: Final = names

    def and_those_of(self, transitions: Array) -> "Definitions":
        """These and what is defined among the transitions that follow, from the same heap; itself if nothing
        is."""
        if not len(transitions) or transitions["type"].max() < RecordType.QUEUE_DEFINED:
            return self
        more = transitions[is_definition(transitions)]
        return Definitions(np.concatenate([self._transitions, more]), self._names) if len(more) else self

    def details(self, kind: RecordType) -> Iterator[tuple[int, bytes]]:
        """(id, detail) of every definition of a kind, oldest first; a later one replaces it."""
        chosen = self._transitions[self._transitions["type"] == kind]
        ids = chosen["queue" if kind == RecordType.QUEUE_DEFINED else "holder"].tolist()
        offsets, lengths = chosen["detail_offset"].tolist(), chosen["detail_len"].tolist()
        for number, at, length in zip(ids, offsets, lengths, strict=True):
            yield number, self._names[at : at + length].tobytes()

    @cached_property
    def queues(self) -> dict[int, dict[str, Any]]:
        """Queue definitions by id."""
        return {number: json.loads(detail) for number, detail in self.details(RecordType.QUEUE_DEFINED)}

    @cached_property
    def deleted_queues(self) -> set[int]:
        """Ids of the queues that were deleted within the range."""
        chosen = self._transitions["type"] == RecordType.QUEUE_DELETED
        return set(self._transitions["queue"][chosen].tolist())

    @cached_property
    def queue_names(self) -> dict[int, str]:
        """Queue names by id."""
        return {number: str(definition["name"]) for number, definition in self.queues.items()}

    @cached_property
    def producer_names(self) -> dict[int, str]:
        """Producers' names, with their container's, by id."""
        return _who(self.details(RecordType.PRODUCER_OPENED))

    @cached_property
    def holder_names(self) -> dict[int, str]:
        """Holders' names, with their container's, by id."""
        return _who(self.details(RecordType.HOLDER_OPENED))

    @cached_property
    def routing_sets(self) -> RoutingSets:
        """Queue ids by set id."""
        details = self.details(RecordType.ROUTING_SET_DEFINED)
        return {number: np.frombuffer(detail, "<u4") for number, detail in details}


def _who(details: Iterator[tuple[int, bytes]]) -> dict[int, str]:
    names = {}
    for number, detail in details:
        who = json.loads(detail) if detail else {}
        names[number] = (
            "/".join(part for part in (who.get("container"), who.get("name")) if part) or f"#{number}"
        )
    return names
