"""What bounds a broker on so many cores, from processor times that were measured: pure arithmetic.

A rate is bounded by the thread that has most to do, by all cores together, by the memory; and by the disk,
which is told apart, since cores don't matter to it. It is what can't be exceeded: waiting, caches that cores
share, and clients on the same machine aren't in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SECOND_US: Final = 1_000_000
ALL_CORES, MEMORY = "all cores", "memory"
HANDED_COPIES: Final = 4
"""Of each body, on its way through a ring in shared memory."""


@dataclass(frozen=True)
class Costs:
    """Of one message, in one kind of traffic: µs of processor time, and what it moves."""

    loop_us: float
    framing_us: float
    """Of the loop's: sockets, frames and heads, which a process of connections could do."""
    commit_us: float
    maintenance_us: float
    copies: int
    """Times that its bytes are copied."""
    bytes_copied: int
    """Each time."""
    bytes_synced: int

    @property
    def sum_us(self) -> float:
        return self.loop_us + self.commit_us + self.maintenance_us


@dataclass(frozen=True)
class Handed:
    """µs of processor time a message on either side of a hand-over."""

    connections_us: float
    engine_us: float


@dataclass(frozen=True)
class Limits:
    """Of the machine, in bytes a second."""

    copied: float
    synced: float


@dataclass(frozen=True)
class Bound:
    """The most messages a second, by what they are bounded, and what the disk allows whatever they are."""

    rate: float
    by: str
    disk_rate: float
    sum_us: float
    """Processor time of one message, by all threads and processes."""


def one_loop(costs: Costs, limits: Limits, cores: int) -> Bound:
    """The broker as it is: loop, commit thread and maintenance, each on a core if there is one."""
    threads = {"event loop": costs.loop_us, **_beside(costs)}
    return _bound(threads, costs.sum_us, costs, limits, cores)


def framing_outside(costs: Costs, handed: Handed, limits: Limits, cores: int) -> Bound:
    """Processes serve connections, as many as help; one engine has the queue manager and the ledger."""
    outside_us = costs.framing_us + handed.connections_us
    engine_us = costs.loop_us - costs.framing_us + handed.engine_us
    copies = costs.copies + HANDED_COPIES
    found = []
    for processes in range(1, cores + 1):
        threads = {"engine": engine_us, "connections": outside_us / processes, **_beside(costs)}
        sum_us = engine_us + outside_us + costs.commit_us + costs.maintenance_us
        found.append(_bound(threads, sum_us, costs, limits, cores, copies))
    return _best(found)


def several_managers(costs: Costs, passed_on: Costs, share: float, limits: Limits, cores: int) -> Bound:
    """As many queue managers as help, each a broker of its own, with the same disk. ``share``: of the
    messages, those that arrive at another than where their queue is, so that a channel passes them on: they
    cost ``passed_on`` besides."""
    loop_us = costs.loop_us + share * passed_on.loop_us
    sum_us = costs.sum_us + share * passed_on.sum_us
    beside = {
        "commit threads": costs.commit_us + share * passed_on.commit_us,
        "maintenance": costs.maintenance_us + share * passed_on.maintenance_us,
    }
    moved = Costs(
        **{
            **vars(costs),
            "copies": costs.copies + round(share * passed_on.copies),
            "bytes_synced": round(costs.bytes_synced + share * passed_on.bytes_synced),
        }
    )
    found = []
    for managers in range(1, cores + 1):
        threads = {name: us / managers for name, us in {"event loops": loop_us, **beside}.items()}
        found.append(_bound(threads, sum_us, moved, limits, cores))
    return _best(found)


def _beside(costs: Costs) -> dict[str, float]:
    return {"commit thread": costs.commit_us, "maintenance": costs.maintenance_us}


def _bound(
    threads: dict[str, float],
    sum_us: float,
    costs: Costs,
    limits: Limits,
    cores: int,
    copies: int | None = None,
) -> Bound:
    rates = {name: SECOND_US / us for name, us in threads.items() if us > 0}
    rates[ALL_CORES] = cores * SECOND_US / sum_us
    rates[MEMORY] = limits.copied / ((copies or costs.copies) * costs.bytes_copied)
    by = min(rates, key=lambda name: rates[name])
    return Bound(rates[by], by, limits.synced / costs.bytes_synced, sum_us)


def _best(bounds: Iterable[Bound]) -> Bound:
    """The first of those with the highest rate: no more processes than help."""
    return max(bounds, key=lambda bound: bound.rate)
