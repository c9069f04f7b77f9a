"""The kinds of things that definitions hold: each is a table of the file, as in the configuration file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.manager.kernel.name_rules import SUBSCRIPTION_MARK
from postroom.manager.kernel.options import (
    KIND_QUEUE,
    KIND_TOPIC,
    QUEUE_SETTINGS,
    USAGE_NORMAL,
    ManagerOptions,
    QueueDefinition,
)
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.model import entity_types as t
from postroom.model.channel import ChannelDefinition
from postroom.model.settings import types_of

_QUEUE: Final = {name: types_of(QueueDefinition)[name] for name in QUEUE_SETTINGS}
SUBSCRIBED: Final[Mapping[str, Any]] = {
    "topic": "",
    "client": "",
    "shared": False,
    "selector": "",
    "no_local": False,
}
"""What a subscription is from its beginning, beside its name, and what each is by default."""
PRINCIPAL: Final[Mapping[str, Any]] = {"grants": [], "description": "", "roles": []}


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of things."""

    table: str
    """Of the file: ``[[table]]``."""
    entity_type: str
    """Of the management node."""
    keys: Mapping[str, type]
    """Of the table beside ``name``, and the type of each."""
    fixed: tuple[str, ...] = ()
    """Those that are as they are from the beginning."""
    has_name: bool = True


QUOTA: Final = Kind("quota", t.QUOTA_TYPE, types_of(QuotaDefinition))
QUEUE: Final = Kind("queue", t.QUEUE_TYPE, _QUEUE)
TOPIC: Final = Kind("topic", t.TOPIC_TYPE, _QUEUE)
SUBSCRIPTION: Final = Kind(
    "subscription",
    t.SUBSCRIPTION_TYPE,
    {**{key: type(value) for key, value in SUBSCRIBED.items()}, **_QUEUE},
    fixed=tuple(SUBSCRIBED),
)
REMOTE_QUEUE: Final = Kind("remote_queue", t.REMOTE_QUEUE_TYPE, types_of(RemoteQueueDefinition))
CHANNEL: Final = Kind("channel", t.CHANNEL_TYPE, types_of(ChannelDefinition), fixed=("type",))
HANDLER: Final = Kind(
    "dead_letter_handler", t.DEAD_LETTER_HANDLER_TYPE, {"rules": str, "queue": str}, has_name=False
)
ROLE: Final = Kind("role", t.ROLE_TYPE, {"members": list, "grants": list, "description": str})
USER: Final = Kind("user", t.USER_TYPE, {"grants": list, "locked": bool, "description": str})

KINDS: Final = (QUOTA, QUEUE, TOPIC, SUBSCRIPTION, REMOTE_QUEUE, CHANNEL, HANDLER, ROLE, USER)
"""In the order in which they are made: each needs only what stands before it. Rights come last, since they
may take from whoever applies the file what that takes."""
BY_TABLE: Final = {kind.table: kind for kind in KINDS}


@dataclass(frozen=True)
class Thing:
    """One thing, as it is or as it is to be."""

    kind: Kind
    name: str
    """As the management node has it: of a subscription TOPIC::CLIENT/NAME."""
    settings: Mapping[str, Any]
    """All that it has, by the keys of the file; of users and roles ``roles`` in the place of members."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """What the management node says of it."""

    @property
    def claim(self) -> tuple[str, ...]:
        """See `claim_of`."""
        return claim_of(self.kind, self.name, self.settings.get("client", ""))


class Defaults:
    """What things of one broker are like where nobody says more."""

    def __init__(self, dead_letter_queue: str, queue_defaults: Mapping[str, Any]) -> None:
        """As the management node says it of the broker."""
        self._options: Final = ManagerOptions(
            dead_letter_queue=dead_letter_queue,
            queue_defaults=QueueDefinition(name="default", **queue_defaults),
        )
        self.topics: Final[dict[str, Mapping[str, Any]]] = {}
        """The settings of topics that are there or will be: those of their subscriptions."""

    def of(self, kind: Kind, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a thing that is given only these, without these."""
        if kind in (QUEUE, TOPIC):
            manager_kind = KIND_QUEUE if kind is QUEUE else KIND_TOPIC
            usage = str(given.get("usage", USAGE_NORMAL))
            made = self._options.new_queue(name, manager_kind, usage).to_record()
            return {**{key: made[key] for key in QUEUE_SETTINGS}, "usage": USAGE_NORMAL}
        if kind is SUBSCRIPTION:
            topic = str(given.get("topic", ""))
            settings = self.topics.get(topic) or self.of(TOPIC, topic, {})
            return {**SUBSCRIBED, **settings, "duplicate_window": 0}
        if kind is ROLE or kind is USER:
            return {**PRINCIPAL, **({"locked": False} if kind is USER else {})}
        if kind is HANDLER:
            return {"rules": "", "queue": ""}
        classes: Mapping[str, Any] = {
            QUOTA.table: QuotaDefinition,
            REMOTE_QUEUE.table: RemoteQueueDefinition,
            CHANNEL.table: ChannelDefinition,
        }
        usual = classes[kind.table](name=name)
        return {key: getattr(usual, key) for key in kind.keys}


def subscription_name(topic: str, client: str, name: str) -> str:
    """As the management node has it."""
    return f"{topic}{SUBSCRIPTION_MARK}{f'{client}/' if client else ''}{name}"


def claim_of(kind: Kind, name: str, client: str) -> tuple[str, ...]:
    """What only one thing may have: queues, topics and remote queues share their names, so do users and
    roles; a subscription has its name among those of its client, whatever its topic."""
    if kind in (QUEUE, TOPIC, REMOTE_QUEUE):
        return ("destination", name)
    if kind in (ROLE, USER):
        return ("principal", name)
    if kind is SUBSCRIPTION:
        return ("subscription", client, name.partition(SUBSCRIPTION_MARK)[2])
    return (kind.table, name)
