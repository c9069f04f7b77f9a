"""What a running broker has, as definitions."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.cli.definitions.file_format import Table, Tree
from postroom.cli.definitions.kinds import (
    CHANNEL,
    HANDLER,
    KINDS,
    QUEUE,
    ROLE,
    SUBSCRIPTION,
    TOPIC,
    USER,
    Defaults,
    Kind,
    Thing,
)
from postroom.client import Connection
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE, CONNECTION_TYPE
from postroom.model.rights import ADMINISTRATOR

RESERVED: Final = ("$", "postroom.")
"""Names that begin so belong to the broker."""

Key = tuple[str, str]
"""A table and a name."""


@dataclass
class Present:
    """The definitions of one broker."""

    queue_manager: str
    defaults: Defaults
    things: dict[Key, Thing] = field(default_factory=dict)
    sees_users: bool = True
    """Whether who reads this may see users and roles."""
    has_users: bool = True
    """Whether any is defined: else everybody may do everything."""
    reader: str = ""
    """The user who reads this, and who would apply a file."""
    unseen: int = 0
    """Queues and subscriptions that who reads this may not see."""

    def of(self, kind: Kind) -> list[Thing]:
        """All of a kind, by name."""
        return [self.things[key] for key in sorted(self.things) if key[0] == kind.table]


def read_present(connection: Connection) -> Present:
    """Everything, by as many queries as there are kinds. Needs the right to inquire on the queue manager."""
    with closing(connection.create_management()) as management:
        broker: Mapping[str, Any] = management.read(BROKER_TYPE, BROKER_NAME)
        rows: dict[str, list[dict[str, Any]]] = {
            kind.table: management.query(kind.entity_type) for kind in KINDS
        }
        connections = management.query(CONNECTION_TYPE, ("container_id", "user"))
    defaults = Defaults(broker["dead_letter_queue"], broker["queue_defaults"])
    found = Present(str(broker["container_id"]), defaults)
    found.unseen = int(broker["queues"]) - len(rows[QUEUE.table]) - len(rows[SUBSCRIPTION.table])
    found.sees_users = bool(rows[ROLE.table])
    found.has_users = len(rows[ROLE.table]) > 1 or bool(rows[USER.table])
    for row in connections:
        if row["container_id"] == connection.client_id:
            found.reader = str(row["user"])
    for kind in KINDS:
        for row in rows[kind.table]:
            if _is_lasting(kind, row):
                thing = _thing(kind, row)
                found.things[kind.table, thing.name] = thing
    defaults.topics.update({each.name: each.settings for each in found.of(TOPIC)})
    return found


def _is_lasting(kind: Kind, row: Mapping[str, Any]) -> bool:
    """Not what is a client's own, or the broker's inside."""
    if kind in (QUEUE, TOPIC):
        return not row["temporary"] and not row["dynamic"] and not str(row["name"]).startswith("$")
    return bool(row["durable"]) if kind is SUBSCRIPTION else True


def _thing(kind: Kind, row: Mapping[str, Any]) -> Thing:
    name = str(row["name"])
    if kind is CHANNEL:
        return Thing(
            kind, name, {key: row["channel_type" if key == "type" else key] for key in kind.keys}, row
        )
    if kind is HANDLER:
        return Thing(kind, f"{name}:{row['rules_file']}", {"rules": row["rules_file"], "queue": name}, row)
    if kind in (ROLE, USER):
        grants = [] if name == ADMINISTRATOR else sorted(row["grants"])
        description = "" if name == ADMINISTRATOR else row["description"]
        settings = {"grants": grants, "description": description, "roles": sorted(row["own_roles"])}
        return Thing(kind, name, {**settings, **({"locked": row["locked"]} if kind is USER else {})}, row)
    return Thing(kind, name, {key: row[key] for key in kind.keys}, row)


# Export.


def exported(present: Present, everything: bool, auto_created: bool) -> Tree:
    """The tables of a file that say so: keys that are not as by default, or ``everything``; what attaching
    has made only if ``auto_created``."""
    kinds = [kind for kind in KINDS if present.sees_users or kind not in (ROLE, USER)]
    found: Tree = {kind.table: [] for kind in kinds}
    subscribed = {each.settings["topic"] for each in present.of(SUBSCRIPTION)}
    for kind in kinds:
        for thing in present.of(kind):
            if is_kept(present, thing, subscribed, auto_created):
                found[kind.table].append(_table(present, thing, everything))
    return found


def is_kept(present: Present, thing: Thing, subscribed: set[str], auto_created: bool) -> bool:
    """Whether a thing is somebody's wish: neither as the broker has made it for itself, nor as attaching
    has."""
    kind, name, row = thing.kind, thing.name, thing.row
    if kind in (QUEUE, TOPIC) and name.startswith(RESERVED):
        return dict(thing.settings) != present.defaults.of(kind, name, thing.settings)
    if kind in (QUEUE, TOPIC) and row["auto_created"]:
        return auto_created or (kind is TOPIC and name in subscribed)
    if kind is USER:
        return not row["configured"]
    if kind is ROLE and (row["configured"] or name == ADMINISTRATOR):
        return bool(_members(present, name))
    return True


def _members(present: Present, role: str) -> list[str]:
    """Those that have it by their own definition, not by the configuration's."""
    everybody = (*present.of(USER), *present.of(ROLE))
    return sorted(
        each.name for each in everybody if role in each.settings["roles"] and not each.row["configured"]
    )


def _table(present: Present, thing: Thing, everything: bool) -> Table:
    kind, row = thing.kind, thing.row
    given = {"usage": thing.settings["usage"]} if kind is QUEUE else thing.settings
    usual = present.defaults.of(kind, thing.name, given)
    keys = dict(thing.settings) if everything else dict(_unusual(thing, usual))
    if kind is HANDLER:
        return keys
    if kind is ROLE:
        keys.pop("roles", None)
        members = _members(present, thing.name)
        keys = {**({"members": members} if members or everything else {}), **keys}
        if thing.name == ADMINISTRATOR:
            keys = {"members": members}
    if kind is USER:
        keys.pop("roles", None)
    if kind is SUBSCRIPTION:
        first = {key: thing.settings[key] for key in ("topic", "client") if thing.settings[key]}
        return {"name": row["subscription"], **first, **{k: v for k, v in keys.items() if k not in first}}
    if kind is CHANNEL:
        return {"name": thing.name, "type": thing.settings["type"], **keys}
    return {"name": thing.name, **keys}


def _unusual(thing: Thing, usual: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in thing.settings.items():
        if value != usual[key]:
            yield key, value
