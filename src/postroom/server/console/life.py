"""The life of a message, from what the ledger says of it: which states it was in, for how long, and who held
it; the same of what it was made of, and of what was made of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from postroom.model.entity_types import LEDGER_TYPE
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

ENDED: Final = "deleted"
"""The state in which a life has ended."""
MAX_LINES: Final = 5000
"""Events that a page goes through; a life with more is shown as far as these go."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Stay:
    """A state that a message was in, from one event to the next."""

    state: str
    event: str
    """By which it began."""
    since_us: int
    until_us: int | None = None
    """None: it lasts."""
    holder: str = ""
    user: str = ""
    causes: str = ""
    """Why it waits."""
    position: int = 0

    def duration_us(self, now_us: int) -> int:
        return max(0, (now_us if self.until_us is None else self.until_us) - self.since_us)


@dataclass(slots=True)
class Life:
    """That of one message."""

    serial: int
    queue: str
    message_id: str = ""
    parent: int = 0
    """What it was made of; 0: of nothing."""
    stays: list[Stay] = field(default_factory=list)
    outcome: str = ""
    ended_us: int | None = None
    """None: it is still there."""
    ended_by: str = ""
    """The event, and who had it."""

    @property
    def since_us(self) -> int:
        return self.stays[0].since_us if self.stays else self.ended_us or 0


@dataclass(frozen=True, slots=True)
class Family:
    """A message, and all that it is related to."""

    serial: int
    lives: list[Life]
    """In the order of their arrival."""
    first_position: int
    """How far back the ledger goes."""
    is_whole: bool
    """False: there are more events than are shown."""

    @property
    def own(self) -> Life | None:
        """None: the ledger knows no such message."""
        return next((each for each in self.lives if each.serial == self.serial), None)

    def ancestors(self) -> list[Life]:
        """What it was made of, the nearest first."""
        by_serial, found, life = {each.serial: each for each in self.lives}, list[Life](), self.own
        while life is not None and life.parent in by_serial and by_serial[life.parent] not in found:
            life = by_serial[life.parent]
            found.append(life)
        return found

    def descendants(self) -> list[Life]:
        """What was made of it, and of that."""
        known = {self.serial}
        found = []
        for each in self.lives:  # a parent comes before its children
            if each.parent in known:
                known.add(each.serial)
                found.append(each)
        return found


async def family_of(visit: Visit, serial: int) -> Family:
    """A message's. Raises `Refusal` where the user may not look into the ledger."""
    found = await visit.manage("FIND-MESSAGES", LEDGER_TYPE, "", {"serial": serial})
    serials = list(map(int, found["serials"]))
    if not serials:
        return Family(serial, [], int(found["first_position"]), True)
    lines, is_whole = await lines_of(visit, serials)
    return Family(serial, lives_of(lines), int(found["first_position"]), is_whole)


async def lines_of(visit: Visit, serials: list[int]) -> tuple[list[dict[str, Any]], bool]:
    """What happened to messages and to what was made of them; whether that is all. Raises `Refusal`."""
    lines: list[dict[str, Any]] = []
    place: Attributes = {"serials": serials, "first": min(serials), "skip": 0}
    while True:
        part = await visit.manage("FOLLOW-MESSAGES", LEDGER_TYPE, "", place)
        lines += map(json.loads, part["lines"])
        if not part["next"]:
            return lines, True
        if len(lines) >= MAX_LINES:
            return lines, False
        place = {"serials": list(part["serials"]), "first": part["next"], "skip": part["skip"]}


def lives_of(lines: Iterable[dict[str, Any]]) -> list[Life]:
    """The lives that those lines tell, in the order of arrival."""
    lives: dict[int, Life] = {}
    for line in lines:
        serial = int(line["serial"])
        life = lives.setdefault(serial, Life(serial, str(line["queue"])))
        _add(life, line)
    return sorted(lives.values(), key=lambda life: life.serial)


def _add(life: Life, line: dict[str, Any]) -> None:
    at_us = _microseconds(str(line["time"]))
    if life.stays:
        life.stays[-1].until_us = at_us
    life.message_id = life.message_id or str(line.get("message_id", ""))
    life.parent = life.parent or int(line.get("parent", 0))
    event, holder, user = str(line["event"]), _holder(line), str(line.get("user", ""))
    if line["to"] == ENDED:
        life.outcome, life.ended_us = str(line.get("outcome", "")), at_us
        what = event.replace("_", " ")
        life.ended_by = " ".join(filter(None, (what, holder and f"by {holder}", user and f"as {user}")))
        return
    causes, position = _listed(line.get("causes")), int(line["position"])
    life.stays.append(Stay(str(line["to"]), event, at_us, None, holder, user, causes, position))


def _holder(line: dict[str, Any]) -> str:
    parts = (str(line.get("holder_kind", "")).replace("_", " "), line.get("holder"), line.get("holder_name"))
    return " ".join(str(each) for each in parts if each)


def _listed(value: object) -> str:
    return str(value or "").replace("_", " ").replace("+", ", ")


def _microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)
