"""What one seed has to do with: a few of all destinations, options and clients that there are.

A run that does everything does little of each. So every seed draws a small part, and many seeds cover all.
Some are simple: nothing but messages that come and go, for the ledger's sake.
"""

from dataclasses import replace
from random import Random
from typing import Any

from postroom.ledger.options import VOLUME_SHARE, LedgerOptions
from postroom.manager.kernel.options import QueueDefinition
from tests.simulation.oracle import REMADE, Oracle

DEAD_LETTERS = "dead-letters"
SMALL = "small"
"""The queue that has a quota."""
TOPIC = "topic"
REDELIVERY_LIMIT = 2
REDELIVERY_DELAY_US = 50_000

SMALL_DISK_BYTES = 1 << 20
SMALL_DISK_CHANCE = 0.1
TRAITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "exclusive": {"access": "exclusive"},
    "groups": {"group_buckets": 4},
    "units": {"unit_of_order": True},
    "limited": {
        "redelivery_limit": REDELIVERY_LIMIT,
        "redelivery_delay_ms": REDELIVERY_DELAY_US // 1000,
        "lost_link_counts": True,
    },
    "overridden": {"priority_override": 7, "ttl_override_ms": 0},
}
EXTRAS = (
    ("pauser", 0.25),
    ("keeper", 0.45),
    ("taker", 0.3),
    ("brancher", 0.3),
    ("subscriber", 0.6),
    ("browser", 0.2),
    ("deleter", 0.15),
    ("mover", 0.2),
    ("replayer", 0.15),
    ("importer", 0.15),
    ("purger", 0.05),
)
"""Kinds of clients beside those that every seed has, and how likely each is."""
LATER_EXTRAS = (
    ("outcomes", 0.3),
    ("requester", 0.15),
    ("remaker", 0.1),
    ("waiter", 0.15),
    ("local", 0.3),
    ("reattacher", 0.15),
    ("containers", 0.15),
    ("clock", 0.1),
)
"""Likewise, and habits: outcomes of every kind in local transactions, several connections of one container, a
clock that jumps. Drawn apart, so that other seeds stay what they were."""
UNDER_LEASE = ("taker", "brancher", "keeper", "outcomes")
"""Not where the clock jumps: it ends transactions and locks, and nobody hears of that at once."""
CONTAINERS = ("one", "another")


class Swarm:
    """The part of everything that one seed has to do with."""

    def __init__(
        self, random: Random, simple: bool, small_disk: bool, later: Random, clock_jumps: bool
    ) -> None:
        """`later`: what `LATER_EXTRAS` are drawn by; `clock_jumps`: whether that may be among them."""
        self.simple = simple
        self.disk_bytes = SMALL_DISK_BYTES if small_disk else 0
        """Of the volume; 0: as many as are wanted."""
        self.sources = [f"q{n}" for n in range(1 if simple else random.randrange(1, 4))]
        """Where is consumed from: queues and durable subscriptions."""
        traits = ("plain",) if simple else ("plain", "plain", "plain", *TRAITS)
        self.traits = {name: random.choice(traits) for name in self.sources}
        self.selects = not simple and random.random() < 0.4
        """Whether messages have what selectors ask for."""
        if self.selects:  # consumers with different selectors don't share groups
            self.traits = {name: _but(trait, "groups") for name, trait in self.traits.items()}
        self.quota_messages = 0 if simple else random.choice((0, 0, 4))
        if self.quota_messages:
            self.sources.append(SMALL)
        self.queues = list(self.sources)
        """Where is sent to; the topic among them."""
        self.subscriptions = [
            f"{TOPIC}::s{n}" for n in range(random.choice((0, 2) if simple else (0, 0, 1, 2)))
        ]
        if self.subscriptions:
            self.queues.append(TOPIC)
        self.sources += self.subscriptions
        self.extras = [kind for kind, chance in EXTRAS if not simple and random.random() < chance]
        if not self.subscriptions:
            self.extras = [kind for kind in self.extras if kind != "subscriber"]
        self.extras += [kind for kind, chance in LATER_EXTRAS if not simple and later.random() < chance]
        if not clock_jumps:
            self.extras = [kind for kind in self.extras if kind != "clock"]
        if "clock" in self.extras:
            self.extras = [kind for kind in self.extras if kind not in UNDER_LEASE]
        if "remaker" in self.extras:
            self.sources.append(REMADE)
            self.queues.append(REMADE)
        if not self.subscriptions:
            self.extras = [kind for kind in self.extras if kind != "local"]
        self.paddings = (200, 3000, 3000) if simple else (0, 10, 200, 3000)
        if self.disk_bytes:
            self.paddings = (3000, 6000, 9000)
        """Of bodies, in bytes: where they are long, files are soon full."""
        self.names_messages = bool({"deleter", "mover", "importer"} & set(self.extras))
        limited = "limited" in self.traits.values()
        self.moments_us = (1_000, 1_000, 1_000, 20_000, 600_000) if limited else (1_000, 20_000, 600_000)
        """Steps in which time passes: smaller ones where redeliveries are delayed."""
        self.together = any(trait in ("groups", "units") for trait in self.traits.values())

    def plain_queues(self) -> list[str]:
        """Neither topic nor subscription, and there all the time."""
        return [name for name in self.sources if name in self.queues and name != REMADE]

    def overrides(self, queue: str) -> dict[str, Any]:
        """What the queue makes of messages, whatever their sender says."""
        overridden = self.traits.get(queue) == "overridden"
        return TRAITS["overridden"] if overridden else {}

    def instruct(self, oracle: Oracle) -> None:
        """Tell the oracle what it must know of the destinations."""
        oracle.may_refuse = "pauser" in self.extras or self.quota_messages > 0 or self.disk_bytes > 0
        oracle.may_refuse |= "remaker" in self.extras
        oracle.pauses = "pauser" in self.extras
        oracle.replays = "replayer" in self.extras
        for name, trait in self.traits.items():
            if trait in ("groups", "units", "exclusive"):
                oracle.together[name] = trait
            elif trait == "limited":
                oracle.redelivery_limits[name] = REDELIVERY_LIMIT

    def definition(self, name: str) -> QueueDefinition:
        """Of one of the queues, or of the topic."""
        if name == TOPIC:
            return QueueDefinition(name=name, kind="topic")
        dead = DEAD_LETTERS if name != DEAD_LETTERS else ""
        maximum = self.quota_messages if name == SMALL else -1
        trait = TRAITS[self.traits.get(name, "plain")]
        return QueueDefinition(name=name, dead_letter_queue=dead, max_messages=maximum, **trait)


def _but(trait: str, unwanted: str) -> str:
    return "plain" if trait == unwanted else trait


def ledger_options(random: Random, simple: bool, disk_bytes: int) -> LedgerOptions:
    """`disk_bytes` of the volume, 0: it doesn't matter."""
    chosen = LedgerOptions(
        journal_file_bytes=random.choice((1 << 16,) if simple else (1 << 16, 1 << 16, 1 << 18)),
        reserve_bytes=0,
        at_once_bytes=random.choice((0, 4096)),
        retention_bytes=random.choice((0, 0, 1 << 17, 1 << 30)),
        compact_below=random.choice((0.5, 0.9, 1.0)),
        carry_below=random.choice((0.5, 1.0)),
    )
    if not disk_bytes:
        return chosen
    return replace(
        chosen, journal_file_bytes=disk_bytes // VOLUME_SHARE, reserve_bytes=disk_bytes // VOLUME_SHARE
    )
