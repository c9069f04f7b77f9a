"""What a file wants a broker to have, checked against that broker's defaults before anything is changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.cli.definitions.file_format import DefinitionsError, Source, Table, Tree
from postroom.cli.definitions.kinds import (
    BY_TABLE,
    CHANNEL,
    HANDLER,
    QUEUE,
    QUOTA,
    REMOTE_QUEUE,
    ROLE,
    SUBSCRIPTION,
    TOPIC,
    USER,
    Defaults,
    Kind,
    claim_of,
    subscription_name,
)
from postroom.cli.definitions.present import RESERVED, Present
from postroom.manager.kernel.errors import DefinitionInvalid, ManagerError
from postroom.manager.kernel.name_rules import is_pattern
from postroom.manager.kernel.options import (
    KIND_QUEUE,
    KIND_SUBSCRIPTION,
    KIND_TOPIC,
    QUEUE_SETTINGS,
    QueueDefinition,
)
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.security.principal_definition import ROLE as ROLE_KIND
from postroom.manager.security.principal_definition import USER as USER_KIND
from postroom.manager.security.principal_definition import PrincipalDefinition
from postroom.model.channel import ChannelDefinition, ChannelInvalid
from postroom.model.rights import ADMINISTRATOR, GrantInvalid, add_grants, parse_grant
from postroom.model.selector import SelectorInvalid, parse

_QUEUE_KINDS: Final = {QUEUE: KIND_QUEUE, TOPIC: KIND_TOPIC, SUBSCRIPTION: KIND_SUBSCRIPTION}


@dataclass(frozen=True)
class Entry:
    """One table of a file."""

    kind: Kind
    name: str
    """As the management node has it."""
    index: int
    """Among those of its kind."""
    given: Mapping[str, Any]
    """The keys that the file has of it, without its name."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All that it is to have."""

    @property
    def claim(self) -> tuple[str, ...]:
        """See `claim_of`."""
        return claim_of(self.kind, self.name, self.given.get("client", ""))


class Wanted:
    """The tables of a file, complete with what they leave to the broker."""

    def __init__(self, source: Source, tree: Tree, present: Present) -> None:
        """Raises `DefinitionsError` with all that is wrong."""
        self.source: Final = source
        self.tables: Final = frozenset(tree)
        self.present: Final = present
        self.faults: Final[list[str]] = []
        self.entries: Final[dict[tuple[str, str], Entry]] = {}
        self.claims: Final[dict[tuple[str, ...], Entry]] = {}
        defaults = present.defaults
        for table in BY_TABLE:
            for index, row in enumerate(tree.get(table, [])):
                self._add(_entry(BY_TABLE[table], index, row), defaults)
        self.roles_of: Final = _roles_by_member(self.of(ROLE))
        for entry in self.entries.values():
            self._check(entry)
        if self.faults:
            raise DefinitionsError(self.faults)

    def of(self, kind: Kind) -> list[Entry]:
        """Those of a kind, in the order of the file."""
        return [entry for (table, _), entry in self.entries.items() if table == kind.table]

    def every_role_of(self, name: str) -> set[str]:
        """The roles that the file gives somebody, directly or by others."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            new = self.roles_of.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def fault(self, entry: Entry, key: str, what: str) -> None:
        self.faults.append(self.source.fault(entry.kind.table, entry.index, key, what, entry.name))

    def is_there(self, kind: Kind, name: str) -> bool:
        """Whether the broker or the file has it."""
        return (kind.table, name) in self.entries or (kind.table, name) in self.present.things

    def _add(self, entry: Entry, defaults: Defaults) -> None:
        other = self.claims.setdefault(entry.claim, entry)
        if other is not entry:
            self.fault(entry, "name", f"{other.kind.table} {other.name!r} has it already in this file")
            return
        entry.settings.update({**defaults.of(entry.kind, entry.name, entry.given), **entry.given})
        entry.settings.pop("members", None)
        if entry.kind is TOPIC:
            defaults.topics[entry.name] = entry.settings
        if entry.kind in (ROLE, USER):
            entry.settings["grants"] = self._grants(entry)
        self.entries[entry.kind.table, entry.name] = entry

    def _grants(self, entry: Entry) -> list[str]:
        """In the form that the broker has them."""
        found: tuple[Any, ...] = ()
        for text in entry.given.get("grants", []):
            try:
                found = add_grants(found, parse_grant(text))
            except GrantInvalid as error:
                self.fault(entry, "grants", str(error))
        return sorted(map(str, found))

    # What can't be.

    def _check(self, entry: Entry) -> None:
        try:
            _CHECKS[entry.kind.table](entry)
        except (DefinitionInvalid, ChannelInvalid) as error:
            self.fault(entry, error.key, error.description)
        except ManagerError as error:
            self.fault(entry, "name", error.description)
        for key, what in self._references(entry):
            self.fault(entry, key, what)

    def _references(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """What it names and isn't there, by key."""
        kind, settings = entry.kind, entry.settings
        if kind in _QUEUE_KINDS and settings["quota"] and not self.is_there(QUOTA, settings["quota"]):
            yield "quota", f"there is no quota {settings['quota']!r}, neither here nor in the file"
        is_new = (kind.table, entry.name) not in self.present.things
        if kind in (QUEUE, TOPIC, REMOTE_QUEUE) and is_new and entry.name.startswith(RESERVED):
            yield "name", f"names may not begin with {' or '.join(RESERVED)}: these are the broker's own"
        if kind is SUBSCRIPTION:
            yield from self._of_subscription(settings)
        if kind is ROLE:
            yield from self._of_role(entry)
        for key in ("dead_letter_queue", "expiry_queue") if kind in _QUEUE_KINDS else ():
            if self.is_there(REMOTE_QUEUE, settings[key]):
                yield key, f"{settings[key]!r} is a remote queue; must be one here"

    def _of_subscription(self, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        topic = settings["topic"]
        if not topic:
            yield "topic", "is missing"
        elif not is_pattern(topic) and not self.is_there(TOPIC, topic):
            yield "topic", f"there is no topic {topic!r}, neither here nor in the file"
        if not settings["client"] and not settings["shared"]:
            yield "shared", "without a client a subscription is shared: shared = true"
        if not settings["client"] and settings["no_local"]:
            yield "no_local", "needs a client"
        try:
            parse(settings["selector"])
        except SelectorInvalid as error:
            yield "selector", str(error)

    def _of_role(self, entry: Entry) -> Iterator[tuple[str, str]]:
        if entry.name == ADMINISTRATOR and set(entry.given) - {"members"}:
            yield "grants", f"role {ADMINISTRATOR!r} has every right: give it members only"
        for member in entry.given.get("members", []):
            is_there = self.is_there(USER, member) or self.is_there(ROLE, member)
            if self.present.sees_users and not is_there:
                yield "members", f"there is no user or role {member!r}, neither here nor in the file"
            elif member == entry.name or member in self.every_role_of(entry.name):
                yield "members", f"the role would have itself, by {member!r}"


def _roles_by_member(roles: Iterable[Entry]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for role in roles:
        for member in role.given.get("members", []):
            found.setdefault(member, set()).add(role.name)
    return found


def _entry(kind: Kind, index: int, row: Table) -> Entry:
    given = {key: value for key, value in row.items() if key != "name"}
    if kind is SUBSCRIPTION:
        name = subscription_name(row.get("topic", ""), row.get("client", ""), row["name"])
    elif kind is HANDLER:
        name = f"{row.get('queue', '')}:{row.get('rules', '')}"
    else:
        name = row["name"]
    return Entry(kind, name, index, given)


def _check_queue(entry: Entry) -> None:
    settings = {key: entry.settings[key] for key in QUEUE_SETTINGS}
    QueueDefinition(name=entry.name, kind=_QUEUE_KINDS[entry.kind], **settings).check()


def _check_channel(entry: Entry) -> None:
    if "type" not in entry.given:
        raise ChannelInvalid("is missing: sender, receiver, server or requester", "type")
    ChannelDefinition(name=entry.name, **entry.settings).check()


def _check_handler(entry: Entry) -> None:
    if not entry.settings["rules"]:
        raise DefinitionInvalid("is missing: the file of its rules table", "rules")


def _check_principal(entry: Entry) -> None:
    kind = ROLE_KIND if entry.kind is ROLE else USER_KIND
    grants, description = tuple(entry.settings["grants"]), entry.settings["description"]
    PrincipalDefinition(entry.name, kind, grants=grants, description=description).check()


_CHECKS: Final[Mapping[str, Callable[[Entry], None]]] = {
    QUOTA.table: lambda entry: QuotaDefinition(name=entry.name, **entry.settings).check(),
    **{kind.table: _check_queue for kind in _QUEUE_KINDS},
    REMOTE_QUEUE.table: lambda entry: RemoteQueueDefinition(name=entry.name, **entry.settings).check(),
    CHANNEL.table: _check_channel,
    HANDLER.table: _check_handler,
    **{kind.table: _check_principal for kind in (ROLE, USER)},
}
