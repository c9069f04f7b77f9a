"""RabbitMQ's definitions (``rabbitmqctl export_definitions``, ``GET /api/definitions``): what of them has a
meaning here, as tables of our own, and a line for each thing that hasn't.

Of queues that several keys speak of, the argument counts, and of numbers the smaller one, as in RabbitMQ's
``rabbit_queue_type_util``; of policies that match, the one with the highest priority.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from postroom.cli.definitions.bindings import Exchanges
from postroom.cli.definitions.file_format import DefinitionsError, Table, Tree
from postroom.manager.kernel.options import ACCESS_EXCLUSIVE
from postroom.model.settings import MAX_NUMBER

MARKS: Final = ("rabbit_version", "rabbitmq_version", "vhosts", "bindings", "exchanges", "queues")
"""Keys at the top of RabbitMQ's file, of which our own has none."""
QUEUE_TYPES: Final = ("classic", "quorum")
MAX_PRIORITY: Final = 9

_NUMBERS: Final = {
    "message-ttl": "max_ttl_ms",
    "max-length": "max_messages",
    "max-length-bytes": "max_bytes",
    "delivery-limit": "redelivery_limit",
}
"""Keys of arguments (behind x-) and policies, and the setting that each is."""
_SMALLER: Final = (*_NUMBERS, "expires")
_WITHOUT_MEANING: Final = {
    "expires": "queues that somebody has defined stay, used or not",
    "overflow": "a full queue drops nothing: sends wait for room, and are refused in the end",
    "queue-mode": "bodies are on the disk anyhow",
    "queue-version": "there is one kind of queue here",
    "queue-type": "there is one kind of queue here",
    "queue-master-locator": "a queue is where its broker is",
    "queue-leader-locator": "a queue is where its broker is",
    "quorum-initial-group-size": "the whole broker is replicated, not a queue: see [replication]",
    "max-in-memory-length": "bodies are on the disk anyhow",
    "max-in-memory-bytes": "bodies are on the disk anyhow",
    "ha-mode": "the whole broker is replicated, not a queue: see [replication]",
    "federation-upstream-set": "use a channel to the other broker",
    "federation-upstream": "use a channel to the other broker",
}
_HANDLED: Final = (
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "single-active-consumer",
    "max-priority",
)
_AS_HERE: Final = {"dead-letter-strategy": ("at-least-once",), "overflow": ("reject-publish",)}
"""What is so here anyhow."""

Remark = Callable[[str], None]


def is_rabbitmq(tree: Any) -> bool:
    """Whether this is RabbitMQ's file and not ours."""
    return isinstance(tree, dict) and any(mark in tree for mark in MARKS)


def from_rabbitmq(tree: Mapping[str, Any], vhost: str) -> tuple[Tree, list[str]]:
    """Our tables, and what was not taken and why, a line each. Raises `DefinitionsError` for a file that
    isn't RabbitMQ's after all."""
    parts = _Parts(tree, vhost)
    exchanges = Exchanges(parts.rows("exchanges"), parts.rows("bindings"), parts.remarks.append)
    policies = _policies(parts)
    queues: list[Table] = []
    by_name: dict[str, Table] = {}
    for row in parts.rows("queues"):
        name = str(row.get("name", ""))
        made = _queue(row, name, policies, exchanges, parts.remarks.append)
        if made is not None:
            queues.append(made)
            by_name[name] = made
    topics, subscriptions = exchanges.subscriptions(by_name)
    users = [_user(row, parts.remarks.append) for row in parts.everywhere("users")]
    for key, why in _ELSEWHERE.items():
        for row in parts.everywhere(key):
            parts.remarks.append(f"{key.rstrip('s').replace('_', ' ')} {_name_of(row)}: {why}")
    found = {"queue": queues, "topic": topics, "subscription": subscriptions, "user": users}
    return {table: rows for table, rows in found.items() if rows}, parts.remarks


_ELSEWHERE: Final = {
    "permissions": "grant rights with `postroom grant`: patterns here go by levels of names",
    "topic_permissions": "grant rights with `postroom grant`: patterns here go by levels of names",
    "parameters": "shovels and federation are channels here: see [[channel]]",
    "global_parameters": "is RabbitMQ's own",
}


def _name_of(row: Mapping[str, Any]) -> str:
    return " ".join(str(row[key]) for key in ("user", "component", "name") if key in row)


class _Parts:
    """The lists of the file, of one virtual host."""

    def __init__(self, tree: Mapping[str, Any], vhost: str) -> None:
        self.remarks: Final[list[str]] = []
        self._tree: Final = tree
        self._vhost: Final = vhost
        others = {
            str(row["vhost"])
            for key in ("queues", "exchanges")
            for row in self.everywhere(key)
            if "vhost" in row
        }
        for other in sorted(others - {vhost}):
            self.remarks.append(f"virtual host {other}: names would meet; take it by itself with --vhost")

    def everywhere(self, key: str) -> list[dict[str, Any]]:
        rows = self._tree.get(key, [])
        if isinstance(rows, list) and all(isinstance(each, dict) for each in rows):
            return rows
        raise DefinitionsError([f"{key}: must be a list of objects, as RabbitMQ writes it"])

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Of this virtual host; a file of one virtual host names none."""
        return [row for row in self.everywhere(key) if row.get("vhost", self._vhost) == self._vhost]


# Policies.


class _Policy:
    def __init__(self, row: Mapping[str, Any]) -> None:
        self.name: Final = str(row.get("name", ""))
        self.priority: Final = row["priority"] if isinstance(row.get("priority"), int) else 0
        self.applies_to: Final = str(row.get("apply-to", "all"))
        self.definition: Final[Mapping[str, Any]] = (
            row["definition"] if isinstance(row.get("definition"), dict) else {}
        )
        self.pattern: Final = re.compile(str(row.get("pattern", "")))

    def matches(self, name: str, queue_type: str) -> bool:
        kinds = ("all", "queues", f"{queue_type}_queues")
        return self.applies_to in kinds and self.pattern.search(name) is not None


def _policies(parts: _Parts) -> list[_Policy]:
    """The one that counts first."""
    found = []
    for row in parts.rows("policies"):
        try:
            policy = _Policy(row)
        except (re.error, RecursionError, OverflowError) as error:
            parts.remarks.append(f"policy {row.get('name')}: its pattern can't be read: {error}")
            continue
        if policy.applies_to in ("exchanges", "streams"):
            parts.remarks.append(f"policy {policy.name}: there are no {policy.applies_to} here")
        else:
            found.append(policy)
    return sorted(found, key=lambda policy: (-policy.priority, policy.name))


# Queues.


def _queue(
    row: Mapping[str, Any], name: str, policies: Iterable[_Policy], exchanges: Exchanges, remark: Remark
) -> Table | None:
    arguments = row["arguments"] if isinstance(row.get("arguments"), dict) else {}
    of_queue = {str(key).removeprefix("x-"): value for key, value in arguments.items()}
    queue_type = str(of_queue.get("queue-type", row.get("type", "classic")))
    if not name or queue_type not in QUEUE_TYPES:
        remark(
            f"queue {name or '(without a name)'}: type {queue_type}: only queues are taken (classic, quorum)"
        )
        return None
    policy = next((each for each in policies if each.matches(name, queue_type)), None)
    keys = _merged(of_queue, {} if policy is None else policy.definition)
    made: Table = {"name": name, **_numbers(name, keys, remark)}
    if keys.get("single-active-consumer") is True:
        made["access"] = ACCESS_EXCLUSIVE
    if row.get("durable") is False:
        made |= {"persistent": False, "allow_persistent_downgrade": True}
        remark(f"queue {name}: durable false: its messages are not stored, but the queue itself stays")
    if row.get("auto_delete") is True:
        remark(f"queue {name}: auto_delete: {_WITHOUT_MEANING['expires']}")
    dead = exchanges.dead_letter_queue(name, keys)
    if dead:
        made["dead_letter_queue"] = dead
    _remark_on(name, keys, remark)
    return made


def _merged(arguments: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, Any]:
    found = {**policy, **arguments}
    for key in _SMALLER:
        if _is_number(arguments.get(key)) and _is_number(policy.get(key)):
            both = (arguments[key], policy[key])
            found[key] = max(both) if min(both) < 0 else min(both)  # −1: no limit
    return found


def _numbers(name: str, keys: Mapping[str, Any], remark: Remark) -> Table:
    found: Table = {}
    for key, setting in _NUMBERS.items():
        if key not in keys:
            continue
        if _is_number(keys[key]) and -1 <= keys[key] <= MAX_NUMBER:
            found[setting] = keys[key]
        else:
            remark(f"queue {name}: {key} is {keys[key]!r:.100}: must be a whole number of 0 or more")
    if ("max_messages" in found or "max_bytes" in found) and keys.get("overflow", "drop-head") == "drop-head":
        remark(f"queue {name}: overflow drop-head: {_WITHOUT_MEANING['overflow']}")
    return found


def _remark_on(name: str, keys: Mapping[str, Any], remark: Remark) -> None:
    for key, value in sorted(keys.items()):
        if key in _NUMBERS or value in _AS_HERE.get(key, ()) or (key, value) == ("overflow", "drop-head"):
            continue
        if key == "queue-type" and value in QUEUE_TYPES:
            continue
        if key == "max-priority" and _is_number(value) and value > MAX_PRIORITY:
            remark(f"queue {name}: max-priority {value}: every queue has priorities 0 to {MAX_PRIORITY}")
        elif key not in _HANDLED:
            why = _WITHOUT_MEANING.get(key, "has no meaning here")
            remark(f"queue {name}: {key} {value!r:.100}: {why}")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Users.


def _user(row: Mapping[str, Any], remark: Remark) -> Table:
    name = str(row.get("name", ""))
    remark(f"user {name}: password: hashes of RabbitMQ prove nothing here; `postroom user password {name}`")
    tags = row.get("tags", [])
    named = tags if isinstance(tags, list) else str(tags).split(",")
    for tag in filter(None, named):
        remark(f"user {name}: tag {tag}: give it a role instead")
    return {"name": name}
