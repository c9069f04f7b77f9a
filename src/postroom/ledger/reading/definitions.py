"""What ids stand for: the queues, routing sets, producers and holders that a run of records speaks of."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.dictionary import defines
from postroom.ledger.format.expand import Chunk, ExpandError, RoutingSets
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import RecordType
from postroom.ledger.retention.leases import Lease, lease_from


def is_definition(transitions: Array) -> npt.NDArray[np.bool_]:
    """Which transitions define or drop something: queues, routing sets, holders, producers, leases,
    channels."""
    chosen: npt.NDArray[np.bool_] = defines(transitions["type"])
    return chosen


def _defined_in(chunk: Chunk) -> Array:
    """A copy of the transitions of a chunk that define or drop something."""
    return chunk.transitions[defines(chunk.types)]


_WITHOUT_ENTRIES: Final = ("quota", "remote")
"""Kinds of what is defined as a queue is, and has no entries."""


class Definitions:
    """The definitions that a range of records speaks of: those in force when its file began, and those made
    since.

    What was closed or dropped within the file keeps its name. Details are decoded when first asked for; one
    that is not what it should be raises ``ExpandError`` with its position.
    """

    def __init__(
        self,
        transitions: Array,
        names: npt.NDArray[np.uint8],
        decoded: dict[tuple[int, int, int], dict[str, Any]] | None = None,
    ) -> None:
        self.transitions: Final = transitions
        """The defining records, oldest first."""
        self.names: Final = names
        """The heap of their details."""
        self._decoded: Final = {} if decoded is None else decoded
        """Details by type, id and position: definitions that grow from chunk to chunk decode each once."""

    def and_those_of(self, chunk: Chunk) -> "Definitions":
        """These and what is defined in the chunk that follows, of the same heap; itself if nothing is."""
        more = _defined_in(chunk)
        if not len(more):
            return self
        return Definitions(np.concatenate([self.transitions, more]), self.names, self._decoded)

    def and_those_behind(self, chunk: Chunk) -> "Definitions":
        """As `and_those_of`, of a chunk whose details lie in another heap."""
        more = _defined_in(chunk)
        if not len(more):
            return self
        starts, lengths = more["detail_offset"].tolist(), more["detail_len"].tolist()
        details = [chunk.names[at : at + length] for at, length in zip(starts, lengths, strict=True)]
        ends = np.cumsum(lengths)
        more["detail_offset"] = len(self.names) + ends - lengths
        joined = np.concatenate([self.transitions, more])
        return Definitions(joined, np.concatenate([self.names, *details]), self._decoded)

    def details(self, kind: RecordType) -> Iterator[tuple[int, bytes, int]]:
        """(id, detail, position) of every definition of a kind, oldest first; a later one replaces it."""
        chosen = self.transitions[self.transitions["type"] == kind]
        ids = chosen["queue" if kind == RecordType.QUEUE_DEFINED else "holder"].tolist()
        places = (chosen[name].tolist() for name in ("detail_offset", "detail_len", "position"))
        for number, at, length, position in zip(ids, *places, strict=True):
            yield number, self.names[at : at + length].tobytes(), position

    def _objects(self, kind: RecordType) -> dict[int, dict[str, Any]]:
        """The details of a kind by id, as JSON objects; without a detail an empty one."""
        found: dict[int, dict[str, Any]] = {}
        for number, detail, position in self.details(kind):
            key = (kind, number, position)
            decoded = self._decoded.get(key)
            if decoded is None:
                decoded = self._decoded[key] = _decoded(detail, position) if detail else {}
            found[number] = decoded
        return found

    @cached_property
    def queues(self) -> dict[int, dict[str, Any]]:
        """Queue definitions by id."""
        return self._objects(RecordType.QUEUE_DEFINED)

    @cached_property
    def deleted_queues(self) -> set[int]:
        """Ids of the queues that were deleted within the range."""
        chosen = self.transitions["type"] == RecordType.QUEUE_DELETED
        return set(self.transitions["queue"][chosen].tolist())

    @cached_property
    def queue_names(self) -> dict[int, str]:
        """Queue names by id."""
        return {
            number: str(definition.get("name", f"#{number}")) for number, definition in self.queues.items()
        }

    @cached_property
    def holding_names(self) -> dict[int, str]:
        """As `queue_names`, of what may have entries."""
        kinds = {number: definition.get("kind") for number, definition in self.queues.items()}
        return {
            number: name for number, name in self.queue_names.items() if kinds[number] not in _WITHOUT_ENTRIES
        }

    @cached_property
    def producer_details(self) -> dict[int, dict[str, Any]]:
        """What is said of the producers, by id."""
        return self._objects(RecordType.PRODUCER_OPENED)

    @cached_property
    def holder_details(self) -> dict[int, dict[str, Any]]:
        """What is said of the holders, by id."""
        return self._objects(RecordType.HOLDER_OPENED)

    @cached_property
    def producer_names(self) -> dict[int, str]:
        """Producers' names, with their container's, by id."""
        return _who(self.producer_details)

    @cached_property
    def holder_names(self) -> dict[int, str]:
        """Holders' names, with their container's, by id."""
        return _who(self.holder_details)

    @cached_property
    def producer_users(self) -> dict[int, str]:
        """Who the producers logged in as, by id; only those that did."""
        return _users(self.producer_details)

    @cached_property
    def holder_users(self) -> dict[int, str]:
        """Who the holders logged in as, by id; only those that did."""
        return _users(self.holder_details)

    @cached_property
    def receiving_channels(self) -> dict[int, tuple[str, str]]:
        """Of the producers that are channels: the channel's name and the sender's ledger (32 hexadecimal
        digits)."""
        return {
            number: (str(detail["channel"]), str(detail.get("ledger", "")))
            for number, detail in self.producer_details.items()
            if detail.get("channel")
        }

    @cached_property
    def channels(self) -> dict[int, dict[str, Any]]:
        """Definitions of message channels by id."""
        return self._objects(RecordType.CHANNEL_DEFINED)

    @cached_property
    def channel_states(self) -> dict[int, dict[str, Any]]:
        """What must survive of channels, and of the partners of receiving ones, by id."""
        return self._objects(RecordType.CHANNEL_STATE)

    @cached_property
    def annotations(self) -> dict[int, dict[str, Any]]:
        """What entries have beside their bodies, by an id of its own."""
        return self._objects(RecordType.ENTRY_ANNOTATED)

    @cached_property
    def leases(self) -> list[Lease]:
        """The leases in force or broken at the end of the range, by name."""
        kinds = self.transitions["type"]
        chosen = self.transitions[(kinds >= RecordType.LEASE_GRANTED) & (kinds <= RecordType.LEASE_RELEASED)]
        found: dict[int, Lease] = {}
        for row in chosen:
            number, position, at = int(row["holder"]), int(row["position"]), int(row["detail_offset"])
            if row["type"] == RecordType.LEASE_RELEASED:
                found.pop(number, None)
            else:
                detail = self.names[at : at + int(row["detail_len"])].tobytes()
                found[number] = _lease(number, detail, position)
        return sorted(found.values(), key=lambda lease: lease.name)

    @cached_property
    def routing_sets(self) -> RoutingSets:
        """Queue ids by set id."""
        details = self.details(RecordType.ROUTING_SET_DEFINED)
        return {number: _queue_ids(detail, position) for number, detail, position in details}


def _decoded(detail: bytes, position: int) -> dict[str, Any]:
    try:
        decoded = json.loads(detail)
    except ValueError as error:
        raise ExpandError(position, f"its detail is no JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise ExpandError(position, "its detail is no JSON object")
    return decoded


def _lease(number: int, detail: bytes, position: int) -> Lease:
    try:
        return lease_from(number, _decoded(detail, position), position)
    except TypeError as error:
        raise ExpandError(position, f"its detail tells of no lease: {error}") from error


def _queue_ids(detail: bytes, position: int) -> Array:
    if len(detail) % _QUEUE_ID.itemsize:
        raise ExpandError(position, f"its detail of {len(detail)} bytes is no list of queue ids")
    return np.frombuffer(detail, _QUEUE_ID)


_QUEUE_ID: Final = np.dtype("<u4")


def _who(details: dict[int, dict[str, Any]]) -> dict[int, str]:
    names = {}
    for number, who in details.items():
        parts = (who.get("container"), who.get("name"))
        names[number] = "/".join(str(part) for part in parts if part) or f"#{number}"
    return names


def _users(details: dict[int, dict[str, Any]]) -> dict[int, str]:
    return {number: str(who["user"]) for number, who in details.items() if who.get("user")}
