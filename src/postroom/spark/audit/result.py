"""What an audit found, as plain values: what its verdict is about, its sums, and a sample of what is wrong.

All rows are in the Parquet files that the run writes; here are those that people are shown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Final

import msgspec

from postroom.ledger.verification.integrity import Covered
from postroom.model.names import DYNAMIC_PREFIX

RESULT_FILE: Final = "audit.json"
"""In the folder that a run writes to: the result."""

MAX_SHOWN: Final = 200
"""So many violations, and so many of what can't be proven, are in a result; all are counted."""


class Verdict(StrEnum):
    """What an audit says of everything that it looked at."""

    CLEAN = "clean"
    """From the opening to the cut every message is accounted for, and no rule is broken."""
    VIOLATIONS = "violations"
    NOT_PROVEN = "not proven"
    """No rule is seen broken, but the history doesn't reach far enough to say that none is."""


class ExitCode(IntEnum):
    """How the command ends, for orchestrators."""

    CLEAN = 0
    UNREADABLE = 1
    VIOLATIONS = 3
    NOT_PROVEN = 4


EXIT_CODES: Final[Mapping[Verdict, ExitCode]] = {
    Verdict.CLEAN: ExitCode.CLEAN,
    Verdict.VIOLATIONS: ExitCode.VIOLATIONS,
    Verdict.NOT_PROVEN: ExitCode.NOT_PROVEN,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """What of one queue manager's ledger was audited: the opening is what was held before `first_position`,
    the cut is `position`."""

    ledger_id: str
    name: str
    """What people call it: the last part of where it is read."""
    uri: str
    first_position: int
    first_look: int
    """How far it went when all were looked at first (see `crossings`)."""
    position: int
    epoch: int
    epoch_id: str
    """32 hexadecimal digits."""
    last_time_us: int
    """Time of the last block, µs since 1970; 0 unknown."""
    opened_from: int | None
    """Position of the checkpoint whose totals it opens from; 0: the ledger's beginning; None: from nothing,
    so nothing is proven."""


@dataclass(frozen=True, slots=True)
class QueueSums:
    """One queue or subscription, or (``queue_id`` None) a whole queue manager: opening and arrivals are what
    is held and what has ended, by outcome."""

    ledger_id: str
    queue_id: int | None
    queue: str
    opening: int | None
    """Held before the history began; None: nothing tells."""
    arrivals: int
    held: int
    in_transit: int
    """Of those held: what is in a channel's batch or in a transaction that isn't decided."""
    outcomes: Mapping[str, int]
    difference: int
    verdict: str
    available: int = 0
    delayed: int = 0
    unconfirmed: int = 0


COUNTED: Final = ("arrivals", "held", "in_transit", "available", "delayed", "unconfirmed")
"""The numbers of queues that add up, beside opening, outcomes and difference."""


def folded(queues: Iterable[QueueSums]) -> list[QueueSums]:
    """The sums of dynamic queues of clients, such as those for replies, as one of each ledger and verdict:
    often they outnumber all others. One that doesn't balance stays alone."""
    kept: list[QueueSums] = []
    together: dict[tuple[str, str], list[QueueSums]] = {}
    for one in queues:
        if one.queue.startswith(DYNAMIC_PREFIX) and one.difference == 0:
            together.setdefault((one.ledger_id, one.verdict), []).append(one)
        else:
            kept.append(one)
    return [*kept, *(_sum(each) for each in together.values())]


def _sum(queues: list[QueueSums]) -> QueueSums:
    first = queues[0]
    if len(queues) == 1:
        return first
    openings = [one.opening for one in queues if one.opening is not None]
    return replace(
        first,
        queue=f"{len(queues):,} dynamic queues",
        opening=sum(openings) if len(openings) == len(queues) else None,
        outcomes={name: sum(one.outcomes.get(name, 0) for one in queues) for name in first.outcomes},
        **{name: sum(getattr(one, name) for one in queues) for name in COUNTED},
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of one rule."""

    rule: str
    ledger_id: str
    queue_id: int | None
    queue: str | None
    serial: int | None
    """The entry is (serial, queue_id); None where the rule is about more than one."""
    positions: tuple[int, ...]
    """The events that break it."""
    detail: str


@dataclass(frozen=True, slots=True)
class Unproven:
    """Something that the history doesn't reach far enough to tell."""

    ledger_id: str
    what: str
    why: str
    count: int
    """How many messages it is about; 0: not known."""


@dataclass(frozen=True, slots=True)
class CrossingSums:
    """What went from one queue manager's transmission queue to another queue manager."""

    ledger_id: str
    queue: str
    to_ledger_id: str | None
    verdicts: Mapping[str, int]
    violations: int


@dataclass(frozen=True, slots=True)
class RefusedSums:
    """Messages that a broker refused, and whose sender had settled them, so that only the ledger tells."""

    ledger_id: str
    sender: str
    """Container and link. Where address and condition are empty, too: all that aren't in other rows."""
    address: str
    condition: str
    messages: int


@dataclass(frozen=True, slots=True)
class TableCovered:
    """What of a table was looked at."""

    table: str
    version: int
    files: int
    size_bytes: int
    rows: int
    """Of the table of events those whose values were summed; of others those that were folded anew and
    compared."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """An audit of one or several queue managers."""

    cuts: tuple[Cut, ...]
    events: int
    entries: int
    managers: tuple[QueueSums, ...]
    """A row for each queue manager."""
    queues: tuple[QueueSums, ...]
    crossings: tuple[CrossingSums, ...]
    lost: tuple[str, ...]
    """Ids of messages, not persistent, that a channel lost on the way; a sample."""
    refused: tuple[RefusedSums, ...]
    """Messages that were refused and whose senders wanted no answer."""
    duplicates: Mapping[str, int]
    """How many arrivals with an id that their destination had taken before, by verdict (see `rules`)."""
    violation_counts: Mapping[str, int]
    """By rule."""
    violations: tuple[Violation, ...]
    """The first of them."""
    unproven: tuple[Unproven, ...]
    tables: tuple[TableCovered, ...] = ()
    """Where tables were audited: what of each was looked at."""
    covered: tuple[Covered, ...] = ()
    """Where ledgers were audited: what of each was found whole before it was read."""

    @property
    def lost_on_the_way(self) -> int:
        """Messages, not persistent, that channels lost: all of them, `lost` names some."""
        return sum(one.verdicts.get("lost", 0) for one in self.crossings)

    @property
    def lost_at_crashes(self) -> int:
        """Messages, not persistent, that were lost when a broker ended."""
        return sum(one.outcomes.get("lost", 0) for one in self.managers)

    @property
    def refused_unheard(self) -> int:
        """Messages that were refused and whose senders wanted no answer."""
        return sum(one.messages for one in self.refused)

    @property
    def violation_count(self) -> int:
        return sum(self.violation_counts.values())

    @property
    def verdict(self) -> Verdict:
        if self.violation_count:
            return Verdict.VIOLATIONS
        return Verdict.NOT_PROVEN if self.unproven else Verdict.CLEAN

    @property
    def is_clean(self) -> bool:
        return self.verdict is Verdict.CLEAN

    @property
    def exit_code(self) -> ExitCode:
        return EXIT_CODES[self.verdict]

    def name_of(self, ledger_id: str | None) -> str:
        """What people call a ledger; its id if it isn't among those audited, "(nowhere)" for none."""
        if ledger_id is None:
            return "(nowhere)"
        return next((cut.name for cut in self.cuts if cut.ledger_id == ledger_id), ledger_id)

    def sentence(self) -> str:
        """The verdict in one line, with its cut."""
        spans = ", ".join(f"{cut.name} {cut.first_position:,} to {cut.position:,}" for cut in self.cuts)
        words = {
            Verdict.CLEAN: self.accounted(),
            Verdict.VIOLATIONS: f"{self.violation_count:,} violation{'s' * (self.violation_count != 1)}",
            Verdict.NOT_PROVEN: "not proven: " + "; ".join(sorted({one.why for one in self.unproven})),
        }
        return f"Audit of positions {spans}: {words[self.verdict]}"

    def accounted(self) -> str:
        """What is said where no rule is broken; how many were lost that aren't persistent, too."""
        lost = [
            f"{count:,} lost {where}"
            for count, where in (
                (self.lost_on_the_way, "on the way between queue managers"),
                (self.lost_at_crashes, "when a broker ended"),
            )
            if count
        ]
        text = "every message is accounted for"
        if lost:
            text = f"every persistent message is accounted for; of the others {' and '.join(lost)}"
        if self.refused_unheard:
            text += f"; {self.refused_unheard:,} refused whose senders wanted no answer"
        return text

    def to_json(self) -> dict[str, Any]:
        """Everything, for `--json`; the file ``audit.json`` beside the tables has the same."""
        attributes = asdict(self)
        return {
            "verdict": str(self.verdict),
            "exit_code": int(self.exit_code),
            "sentence": self.sentence(),
            **attributes,
        }


def result_of(attributes: Mapping[str, Any]) -> AuditResult:
    """The inverse of `AuditResult.to_json`."""
    return msgspec.convert(attributes, AuditResult)
