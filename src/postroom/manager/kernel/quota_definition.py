"""Quota resources: named limits that destinations are put under.

A shared quota is one pool for which all its destinations compete; one that is not shared is a template, and
each destination that names it has a pool of that size for itself. A destination is under one quota only: its
own, the one it names, or the broker's.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.destination_checks import POLICIES, POLICY_FIFO, POLICY_PREEMPTIVE
from postroom.manager.kernel.errors import DefinitionInvalid, NameNotAllowed
from postroom.manager.kernel.quota_pool import NO_LIMIT, Pool
from postroom.model.settings import bounds_of, first_fault, record_of, setting

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

KIND_QUOTA: Final = "quota"
MAX_QUOTA_NAME_BYTES: Final = 255


@dataclass(frozen=True)
class QuotaDefinition:
    """What a quota is, as it is written to the ledger. −1: no limit; 0: nothing may be stored."""

    name: str
    messages_maximum: int = NO_LIMIT
    """−1: no limit; 0: nothing may be stored."""
    bytes_maximum: int = NO_LIMIT
    """Likewise."""
    policy: str = setting(POLICY_FIFO, choices=POLICIES)
    """`fifo`: sends that wait go in in the order in which they came; `preemptive`: whichever fits."""
    shared: bool = True
    """One pool for all queues that name it; false: one of this size for each."""

    def check(self) -> None:
        """Raise NameNotAllowed or DefinitionInvalid, naming the key."""
        size = len(self.name.encode("utf-8", "surrogatepass"))
        if not 0 < size <= MAX_QUOTA_NAME_BYTES or not self.name.isprintable():
            raise NameNotAllowed(
                f"quota name {self.name[:40]!r} must have 1 to {MAX_QUOTA_NAME_BYTES} bytes, all printable"
            )
        key, fault = first_fault(self, _BOUNDS)
        if fault:
            raise DefinitionInvalid(f"quota {self.name!r}: {fault}", key)

    def to_record(self) -> dict[str, object]:
        """As JSON-able fields, for the ledger."""
        return {"kind": KIND_QUOTA, **record_of(self)}


_BOUNDS: Final = bounds_of(QuotaDefinition)


@final
class Quota:
    """One quota resource and the destinations under it."""

    def __init__(self, id: i64, definition: QuotaDefinition, changed: list[Pool]) -> None:
        self.id: i64 = id
        self.name = definition.name
        self.members: list[Destination] = []
        self.pool = Pool(f"quota {definition.name!r}", changed)
        """What is shared; a template's stays empty."""
        self.define(definition)

    def define(self, definition: QuotaDefinition) -> None:
        """Take over the limits, for the pool that is shared."""
        self.definition = definition
        self.limit(self.pool)

    def pools(self) -> list[Pool]:
        """The shared pool, or the private ones of the members."""
        if self.definition.shared:
            return [self.pool]
        return [queue.quota.pool for queue in self.members if queue.quota.pool is not None]

    def limit(self, pool: Pool) -> None:
        """Give a pool of this quota its limits."""
        definition = self.definition
        preemptive = definition.policy == POLICY_PREEMPTIVE
        pool.limit(definition.messages_maximum, definition.bytes_maximum, preemptive)
