"""The plan: what is to be made, changed and deleted so that a broker has what a file says, in the order in
which that can be done; and what can't be done on a running broker, with what to do instead.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from postroom.cli.definitions.kinds import (
    CHANNEL,
    HANDLER,
    KINDS,
    QUEUE,
    ROLE,
    SUBSCRIPTION,
    TOPIC,
    USER,
    Kind,
    Thing,
    claim_of,
)
from postroom.cli.definitions.present import RESERVED, Present
from postroom.cli.definitions.wanted import Entry, Wanted
from postroom.model.rights import ADMINISTRATOR

CREATE: Final = "create"
CHANGE: Final = "change"
DELETE: Final = "delete"
BLOCKED: Final = "blocked"
ACTIONS: Final = (CREATE, CHANGE, DELETE, BLOCKED)

_DELETING: Final = (*(kind for kind in reversed(KINDS) if kind not in (USER, ROLE)), USER, ROLE)
"""The order of deletions: rights go last here, too."""

ONLY_CONFIGURED: Final = "message_retry_exit"
"""Of a channel: names code, so that the configuration file alone may have it."""

_FIRST_USER: Final = (
    "nobody is defined at this broker yet, and everybody may do everything: make the first administrator with"
    f" `postroom user add NAME --role {ADMINISTRATOR}`, then apply the file again"
)
_NO_SIGHT: Final = (
    "whoever applies this needs administer-users on queue manager, to see users and roles at all"
)
_HANDLERS: Final = (
    "dead-letter queue handlers are the configuration file's: put [[dead_letter_handler]] there, and start"
    " the broker again"
)
_CONFIGURED: Final = "is the configuration file's: change it there, and have the broker read it anew (SIGHUP)"


@dataclass(frozen=True)
class Step:
    """One thing to be done."""

    action: str
    kind: Kind
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that are given to it."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """What these were, of a change."""
    why: str = ""
    """Why it is blocked and what to do; else what there is to know of it."""

    @property
    def label(self) -> str:
        return f"{self.kind.table} {self.name}"


@dataclass(frozen=True)
class Plan:
    """Steps in their order."""

    steps: tuple[Step, ...]
    not_in_file: int
    """Things of the file's kinds that the broker has and the file hasn't, where these aren't deleted."""

    def of(self, action: str) -> list[Step]:
        return [step for step in self.steps if step.action == action]


def make_plan(wanted: Wanted, prune: bool = False, force: bool = False) -> Plan:
    """``prune``: delete what isn't in the file, of those kinds of which the file has a table. ``force``: also
    what has messages."""
    present = wanted.present
    roles = _Memberships(wanted)
    made = [step for kind in KINDS for step in _sorted(wanted, _steps_of(wanted, kind, roles))]
    surplus = [each for kind in _DELETING for each in _surplus(wanted, kind)]
    deletions = {each.claim: _deletion(present, each, force) for each in surplus} if prune else {}
    going = {claim: step for claim, step in deletions.items() if step.action == DELETE}
    holders = {each.claim: each for each in present.things.values()}
    before, steps = [], []
    for step in made:
        claim = claim_of(step.kind, step.name, step.settings.get("client", ""))
        if step.action == CREATE and claim in going:  # what has the name goes first
            before.append(deletions.pop(claim))
        elif step.action == CREATE and claim in holders:
            step = _taken(step, holders[claim])
        steps.append(step)
    return Plan((*before, *steps, *deletions.values()), 0 if prune else len(surplus))


def _taken(step: Step, holder: Thing) -> Step:
    why = f"{holder.kind.table} {holder.name!r} has the name: delete that first"
    return replace(step, action=BLOCKED, why=why)


def _sorted(wanted: Wanted, steps: Iterable[Step]) -> list[Step]:
    """What is new first, since others may refer to it; of roles those first that others have."""

    def place(step: Step) -> tuple[int, int]:
        depth = len(wanted.every_role_of(step.name)) if step.kind is ROLE else 0
        return ACTIONS.index(step.action), depth

    return sorted(steps, key=place)


def _steps_of(wanted: Wanted, kind: Kind, roles: "_Memberships") -> Iterator[Step]:
    present = wanted.present
    if kind in (ROLE, USER):
        yield from _steps_of_principals(wanted, kind, roles)
        return
    for entry in wanted.of(kind):
        thing = present.things.get((kind.table, entry.name))
        if kind is HANDLER:
            if not _has_handler(present, entry):
                yield Step(BLOCKED, kind, entry.name, entry.given, why=_HANDLERS)
        elif thing is None:
            yield from _creation(entry)
        else:
            yield from _change(entry.settings, thing)


def _has_handler(present: Present, entry: Entry) -> bool:
    rules, queue = entry.settings["rules"], entry.settings["queue"]
    return any(
        each.settings["rules"] == rules and queue in ("", each.settings["queue"])
        for each in present.of(HANDLER)
    )


def _creation(entry: Entry) -> Iterator[Step]:
    if entry.kind is CHANNEL and entry.given.get(ONLY_CONFIGURED):
        why = f"{ONLY_CONFIGURED} {_CONFIGURED}"
        yield Step(BLOCKED, entry.kind, entry.name, entry.given, why=why)
        return
    given = {key: value for key, value in entry.given.items() if key != "members"}
    yield Step(CREATE, entry.kind, entry.name, given)


def _change(settings: Mapping[str, Any], thing: Thing) -> Iterator[Step]:
    differing = {key: value for key, value in settings.items() if value != thing.settings[key]}
    before = {key: thing.settings[key] for key in differing}
    fixed = [key for key in differing if key in thing.kind.fixed]
    if fixed:
        why = f"{', '.join(fixed)} can't change: delete it ({_losing(thing)}), then apply the file again"
        yield Step(BLOCKED, thing.kind, thing.name, differing, before, why)
        return
    if ONLY_CONFIGURED in differing:
        yield Step(BLOCKED, thing.kind, thing.name, differing, before, f"{ONLY_CONFIGURED} {_CONFIGURED}")
        return
    if thing.kind in (QUEUE, TOPIC) and thing.row["auto_created"]:
        differing["auto_created"], before["auto_created"] = False, True
    if differing:
        yield Step(CHANGE, thing.kind, thing.name, differing, before, _of_configuration(thing, differing))


def _losing(thing: Thing) -> str:
    return "what waits there is lost" if thing.kind is SUBSCRIPTION else "with its state"


def _of_configuration(thing: Thing, differing: Mapping[str, Any]) -> str:
    if not thing.row.get("configured"):
        return ""
    return "it is in the configuration file, too: the next start takes what stands there"


# Users and roles.


class _Memberships:
    """Which roles everybody is to have: those of the file as its ``members`` say, others as they are."""

    def __init__(self, wanted: Wanted) -> None:
        self._managed: Final = {entry.name for entry in wanted.of(ROLE)}
        self._of: Final = wanted.roles_of

    def of(self, name: str, thing: Thing | None) -> list[str]:
        """Own roles, without those that the configuration gives."""
        own = set(thing.settings["roles"]) if thing is not None else set()
        by_configuration = (set(thing.row["roles"]) if thing is not None else set()) - own
        new = self._of.get(name, set()) - by_configuration
        return sorted({role for role in own if role not in self._managed} | new)


def _steps_of_principals(wanted: Wanted, kind: Kind, roles: _Memberships) -> Iterator[Step]:
    present = wanted.present
    if not wanted.tables & {ROLE.table, USER.table}:
        return
    blocked = _NO_SIGHT if not present.sees_users else _FIRST_USER if not present.has_users else ""
    entries = {entry.name: entry for entry in wanted.of(kind)}
    for name in dict.fromkeys([*entries, *(thing.name for thing in present.of(kind))]):
        entry, thing = entries.get(name), present.things.get((kind.table, name))
        settings = {"roles": roles.of(name, thing)}
        if entry is not None and (kind is USER or name != ADMINISTRATOR):
            settings = {**entry.settings, **settings}
        if thing is None and name == ADMINISTRATOR:
            continue
        if blocked and entry is not None:
            yield Step(BLOCKED, kind, name, entry.given, why=blocked)
        elif thing is None:
            yield _new_principal(kind, name, settings)
        elif name != ADMINISTRATOR:
            yield from _changed_principal(settings, thing)


def _new_principal(kind: Kind, name: str, settings: Mapping[str, Any]) -> Step:
    given = {key: value for key, value in settings.items() if value not in ([], "", False)}
    why = "" if kind is ROLE else f"without a password: `postroom user password {name}` gives it one"
    return Step(CREATE, kind, name, given, why=why)


def _changed_principal(settings: Mapping[str, Any], thing: Thing) -> Iterator[Step]:
    if not thing.row["configured"]:
        yield from _change(settings, thing)
        return
    differing = {key: value for key, value in settings.items() if value != thing.settings[key]}
    if differing:
        before = {key: thing.settings[key] for key in differing}
        yield Step(BLOCKED, thing.kind, thing.name, differing, before, _CONFIGURED)


# Deleting.


def _surplus(wanted: Wanted, kind: Kind) -> Iterator[Thing]:
    """What the broker has beyond the file."""
    present = wanted.present
    if kind.table not in wanted.tables:
        return
    for thing in present.of(kind):
        if (kind.table, thing.name) in wanted.entries or thing.name == ADMINISTRATOR:
            continue
        if kind in (QUEUE, TOPIC) and (thing.name.startswith(RESERVED) or thing.row["auto_created"]):
            continue
        if kind is HANDLER and any(_names(entry, thing) for entry in wanted.of(HANDLER)):
            continue
        if kind in (ROLE, USER) and thing.row["configured"]:
            continue
        yield thing


def _names(entry: Entry, handler: Thing) -> bool:
    queue = entry.settings["queue"]
    return bool(
        entry.settings["rules"] == handler.settings["rules"] and queue in ("", handler.settings["queue"])
    )


def _deletion(present: Present, thing: Thing, force: bool) -> Step:
    if thing.kind is USER and thing.name == present.reader:
        why = "isn't in the file, and is who applies it: have another user do that"
        return Step(BLOCKED, thing.kind, thing.name, why=why)
    if thing.kind is HANDLER:
        return Step(BLOCKED, thing.kind, thing.name, why=f"isn't in the file: {_HANDLERS}")
    if thing.row.get("configured"):
        why = "isn't in the file, and the configuration file has it: the next start would make it again"
        return Step(BLOCKED, thing.kind, thing.name, why=why)
    messages = messages_of(thing.row)
    if messages and not force:
        why = f"isn't in the file, and holds {messages:,} messages: --force deletes it with them"
        return Step(BLOCKED, thing.kind, thing.name, why=why)
    return Step(DELETE, thing.kind, thing.name, why=f"with {messages:,} messages" if messages else "")


def messages_of(row: Mapping[str, Any]) -> int:
    """Those on a queue or subscription, or on all of a topic's."""
    return int(row.get("messages_current", 0)) + int(row.get("messages_pending", 0))
