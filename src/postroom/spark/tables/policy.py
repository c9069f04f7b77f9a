"""What of the personal data that events have may go into tables: kept, hashed under a key, or dropped.

Tables have the columns that their definitions name and nothing else: no body, no application property, no
header beyond these. Of the columns below somebody may be found by; what becomes of each is the policy, which
is applied to events before any table is made of them.
"""

import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from typing import Final

import pyarrow as pa

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.columns import ACT


class Action(StrEnum):
    """What becomes of a column."""

    KEEP = "keep"
    HASH = "hash"
    """Each text is replaced by its HMAC-SHA256: equal texts stay equal, in all tables of the same key."""
    DROP = "drop"


DEFAULT: Final[Mapping[str, Action]] = {
    "message_id": Action.KEEP,
    "correlation_id": Action.KEEP,
    "group_id": Action.KEEP,
    "producer": Action.KEEP,
    "holder": Action.KEEP,
    "container": Action.KEEP,
    "user": Action.DROP,
    "reason": Action.KEEP,
    ACT: Action.KEEP,
}
"""The columns that may be personal. Ids and names of links and containers are those of programs, and what
tables are for; who logged in is mostly a person, and no table, audit or report needs to know. Acts are
recorded to be held against who did them."""

DERIVED: Final[Mapping[str, str]] = {"description": "reason", "last_holder": "holder"}
"""Columns of tables that are made of one of these under another name."""

HASH_BYTES: Final = 16
"""Of the 32 that HMAC-SHA256 gives: enough that no two texts of a ledger meet, and half the size."""

MIN_KEY_BYTES: Final = 16

ACTOR: Final = ("user", "remote", "container")
"""Who did an act, and from where."""
ACT_WORDS: Final = ("description", "arguments")
"""What of an act may name people anywhere in it: dropped where the actor is hashed."""

WITHHELD: Final = "description"
"""What of a reason is words of a client, and so follows the policy; codes and names in it stay."""


def personal_columns(names: Iterable[str]) -> dict[str, str]:
    """Which columns of a table may be personal, each with the column of the policy that it follows."""
    return {name: DERIVED.get(name, name) for name in names if DERIVED.get(name, name) in DEFAULT}


def without_actor(act: str | None, stored: str) -> str | None:
    """An act, as JSON, without what it tells of somebody; as it is if that is somebody else."""
    parsed = json.loads(act) if act and json.dumps(stored, ensure_ascii=False) in act else {}
    found = [name for name in ACTOR if parsed.get(name) == stored]
    return json.dumps(parsed | dict.fromkeys(found), ensure_ascii=False) if found else act


def derived(name: str, stored: str) -> str | None:
    """What stands in a column where the one of the policy that it follows holds `stored`: of a reason its
    words, None where it has none."""
    if name != WITHHELD:
        return stored
    try:
        parsed = json.loads(stored)
    except ValueError:
        return None
    return str(parsed[WITHHELD]) if isinstance(parsed, dict) and WITHHELD in parsed else None


class PolicyError(LedgerError):
    """A policy that can't be followed: names the column or action and says what to do."""


@dataclass(frozen=True)
class Policy:
    """What becomes of each column; those not named do as by default. ``key`` is what hashes are made with:
    keep it as one keeps a password, since who has it can try texts."""

    columns: Mapping[str, str] = field(default_factory=dict)
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for name, action in self.columns.items():
            if name not in DEFAULT:
                known = ", ".join(DEFAULT)
                raise PolicyError(f"policy: {name!r} is no column that it is about; these are: {known}")
            if action not in tuple(Action):
                raise PolicyError(f"policy of {name}: {action!r} is none of keep, hash, drop")
        if Action.HASH in self.actions.values() and len(self.key) < MIN_KEY_BYTES:
            raise PolicyError(f"policy: hashing needs a key of at least {MIN_KEY_BYTES} bytes")

    @cached_property
    def actions(self) -> dict[str, Action]:
        """What becomes of each column."""
        return {name: Action(self.columns.get(name, default)) for name, default in DEFAULT.items()}

    @property
    def key_mark(self) -> str:
        """Tells whether tables were made with this key, and nothing about it; empty without a key."""
        return hmac.digest(self.key, b"postroom: mark of this key", "sha256").hex()[:8] if self.key else ""

    def hashed(self, text: str) -> str:
        """What stands for a text in hashed columns."""
        return hmac.digest(self.key, text.encode(), "sha256")[:HASH_BYTES].hex()

    def written(self, column: str, text: str) -> str | None:
        """What stands in a column for a text: to look for it, or to erase it."""
        action = self.actions.get(column, Action.KEEP)
        if action is Action.KEEP:
            return text
        if column == ACT:
            return self._act(text)
        return self._withheld(text) if column == "reason" else self._replaced(column, text)

    def _replaced(self, column: str, text: str) -> str | None:
        return self.hashed(text) if self.actions[column] is Action.HASH else None

    def _act(self, text: str) -> str | None:
        """An act without who did it; or, of a text to look for, what stands for it."""
        try:
            parsed = json.loads(text)
        except ValueError:
            return self._replaced(ACT, text)
        if not isinstance(parsed, dict):
            return self._replaced(ACT, text)
        actor = {name: self._replaced(ACT, str(parsed[name])) for name in ACTOR if name in parsed}
        return json.dumps(parsed | actor | dict.fromkeys(ACT_WORDS), ensure_ascii=False)

    def _withheld(self, text: str) -> str | None:
        """A reason without the words of a client."""
        try:
            parsed = json.loads(text)
        except ValueError:
            return self._replaced("reason", text)
        if not isinstance(parsed, dict) or WITHHELD not in parsed:
            return text
        words = self._replaced("reason", str(parsed.pop(WITHHELD)))
        return json.dumps(parsed if words is None else parsed | {WITHHELD: words})


def apply(policy: Policy, events: pa.Table) -> pa.Table:
    """Events as the policy has them; chunks stay as they are. The types of the columns do, too."""
    for name, action in policy.actions.items():
        if action is Action.KEEP or name not in events.column_names:
            continue
        at = events.schema.get_field_index(name)
        column = events.column(name)
        if column.null_count == len(column):
            continue
        chunks = [_replace(chunk, partial(policy.written, name)) for chunk in column.chunks]
        events = events.set_column(at, events.schema.field(at), pa.chunked_array(chunks, column.type))
    return events


def _replace(chunk: pa.Array, written: Callable[[str], str | None]) -> pa.Array:
    """Each text looked at once."""
    if chunk.null_count == len(chunk):
        return chunk
    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    texts = [None if text is None else written(text) for text in coded.dictionary.to_pylist()]
    replaced = pa.array(texts, pa.string()).take(coded.indices)
    return replaced.cast(chunk.type) if pa.types.is_dictionary(chunk.type) else replaced
