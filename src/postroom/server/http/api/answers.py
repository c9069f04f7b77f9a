"""What answers have, as types of JSON: of each kind of thing its settings, its state and its counters.

A test compares them with what the management node shows. Times are µs since 1970, 0 never, unless their names
say otherwise. Whole numbers may have 63 bits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from postroom.manager.destinations.switches import SWITCH_ATTRIBUTES
from postroom.manager.kernel.options import IDENTITY_FIELDS, QUEUE_DEFAULTS, QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll, Statistics
from postroom.model.settings import types_of
from postroom.server.http.api.settings import CHANNEL, QUEUE, QUOTA, REMOTE_QUEUE
from postroom.server.management.entities.dead_letter_handlers import COUNTS

Row = TypeVar("Row")

_QUEUE_TYPES: Final = types_of(QueueDefinition)
_SWITCHES: Final = {name: str if name.endswith("_state") else bool for name in SWITCH_ATTRIBUTES}
_COUNTERS: Final = dict.fromkeys(Statistics(HeldByAll()).snapshot(), int)


def _numbers(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, int)


def _texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, str)


def _flags(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, bool)


def _lists(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, list[str])


def _types(settings: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: kind for name, (kind, _) in settings.items()}


def _row(name: str, parts: Iterable[Mapping[str, Any]]) -> type[Struct]:
    found: dict[str, Any] = {"name": str}
    for part in parts:
        found.update(part)
    return msgspec.defstruct(name, list(found.items()), kw_only=True, module=__name__)


class Alarm(Struct):
    """Something is wrong now."""

    name: str
    since_us: int
    what: str
    cure: str
    """What to do."""


class SinkBranch(Struct):
    """An open branch of a Spark sink."""

    name: str
    run_id: str
    batch_id: int
    partition: int
    attempt: int
    sealed: bool
    messages: int
    bytes: int
    since_us: int
    until_us: int
    user: str
    container: str


_IDENTITY: Final = {
    each.name: _QUEUE_TYPES[each.name]
    for each in fields(QueueDefinition)
    if each.name in IDENTITY_FIELDS and each.name != "name"
}
Queue: Final = _row(
    "Queue",
    [
        _flags("dynamic", "configured"),
        _lists("unlike_configuration"),
        _types(QUEUE),
        _IDENTITY,
        _SWITCHES,
        _COUNTERS,
    ],
)
Subscription: Final = _row(
    "Subscription", [_flags("durable"), _types(QUEUE), _IDENTITY, _SWITCHES, _COUNTERS]
)
Topic: Final = _row(
    "Topic",
    [
        _types(QUEUE),
        _flags("auto_created", "temporary", "dynamic"),
        _texts("durably_paused"),
        _numbers("messages_unrouted", "subscriptions", "consumers"),
        _SWITCHES,
        _numbers("messages_received", "bytes_received", "counting_since_us"),
        _numbers("messages_current", "messages_pending", "bytes_current", "bytes_pending"),
        _numbers("messages_consumed", "messages_expired", "messages_dead_lettered"),
    ],
)
Counters: Final = msgspec.defstruct("Counters", list(_COUNTERS.items()), kw_only=True, module=__name__)
Quota: Final = _row(
    "Quota", [_types(QUOTA), _numbers("destinations", "messages_used", "bytes_used", "blocked_sends")]
)
RemoteQueue: Final = _row(
    "RemoteQueue", [_types(REMOTE_QUEUE), _flags("alias"), _texts("leads_to", "waits_on", "problem")]
)
Channel: Final = _row(
    "Channel",
    [
        _types(CHANNEL),
        _texts("state", "reason", "partner", "address", "current_luwid", "in_doubt_luwid", "last_luwid"),
        _numbers("since_us", "started_us", "last_message_us", "messages", "bytes", "batches", "retry_us"),
        _numbers("current_messages", "current_sequence", "in_doubt_messages", "last_sequence"),
        _numbers("reset_sequence", "short_retries_left", "long_retries_left"),
        _flags("in_doubt"),
    ],
)
DeadLetterHandler: Final = _row(
    "DeadLetterHandler",
    [
        _texts("identity", "queue", "rules_file", "state", "error"),
        _numbers("rules", "retry_interval_s", "at_hand", *COUNTS),
    ],
)
Connection: Final = _row(
    "Connection",
    [
        _texts("container_id", "user"),
        _numbers(
            "opened_us", "links", "transactions", "messages_in", "messages_out", "bytes_in", "bytes_out"
        ),
        _numbers("unsettled", "blocked_sends"),
        _flags("throttled", "outgoing"),
    ],
)
_BROKER_COUNTERS: Final = {
    name: kind
    for name, kind in _COUNTERS.items()
    if name not in ("consumers_high", "blocked_sends", "duplicates_dropped")
}
Broker: Final = _row(
    "Broker",
    [
        _texts("version", "container_id", "dead_letter_queue"),
        {
            "queue_defaults": msgspec.defstruct(
                "QueueDefaults", [(name, _QUEUE_TYPES[name]) for name in QUEUE_DEFAULTS], module=__name__
            ),
            "alarms": list[Alarm],
        },
        _numbers("queues", "connections", "connections_high", "connections_total", "kept_links"),
        _numbers("durable_through", "next_position", "unsynced_bytes"),
        _flags("space_low"),
        _numbers("blocked_sends", "blocked_bytes", "reports_made", "reports_unmade", "quota_messages_used"),
        _numbers("quota_bytes_used", "leases", "leases_broken"),
        _BROKER_COUNTERS,
    ],
)
Lease: Final = _row(
    "Lease",
    [
        {"state": Literal["in force", "broken"]},
        _texts("owner", "reason"),
        _flags("bodies"),
        _lists("queues"),
        _numbers(
            "position", "duration_s", "max_bytes", "held_bytes", "granted_us", "expires_us", "broken_us"
        ),
        _numbers("broken_position", "missing_first", "missing_last"),
    ],
)
Member: Final = _row(
    "Member",
    [
        _texts("state", "version"),
        _lists("urls"),
        _numbers("sequence", "position", "time_us", "behind", "behind_bytes", "behind_s"),
    ],
)
SparkSubscription: Final = _row(
    "SparkSubscription",
    [
        _texts("queue", "selector", "state", "registered", "user", "reason", "ledger_id", "epoch_id"),
        _numbers("window", "window_bytes", "lease_s", "assigned_through", "held", "held_bytes", "confirmed"),
        _numbers("renewed_us", "until_us", "ended_us", "lost_first", "lost_last", "epoch", "last_position"),
        _numbers("oldest_waiting"),
        _flags("is_filling", "is_full"),
    ],
)
Transaction: Final = _row(
    "Transaction",
    [
        {"state": Literal["active", "rollback-only", "timed-out"]},
        _texts("container_id", "user", "connection"),
        _numbers("since_us", "puts", "receipts", "blocked_sends"),
    ],
)
XaBranch: Final = _row(
    "XaBranch",
    [
        _texts("state", "container_id", "user", "decided_by"),
        _numbers("since_us", "active_us", "puts", "receipts"),
    ],
)
_SINK: Final[tuple[Mapping[str, Any], ...]] = (
    _texts("query_id", "run_id", "offsets", "user", "digest"),
    {"position": int | None, "batch_id": int | None},
    _numbers("since_us", "decided_us", "branches", "messages", "bytes"),
)
Sink: Final = _row("Sink", [*_SINK])
SinkShown: Final = _row("SinkWithBranches", [*_SINK, {"open_branches": list[SinkBranch]}])
StoreHolder: Final = _row(
    "StoreHolder",
    [
        {"kind": Literal["confirm-id", "browse-lock"]},
        _texts("queue", "user"),
        _numbers("confirm_id", "lock_id", "since_us", "until_us", "messages", "messages_got"),
    ],
)
_PRINCIPAL: Final[tuple[Mapping[str, Any], ...]] = (
    _lists("roles", "every_role", "grants"),
    _flags("configured"),
    _texts("description"),
)
User: Final = _row(
    "User", [*_PRINCIPAL, _lists("every_grant", "signs_in_by"), _flags("locked"), _numbers("connections")]
)
Role: Final = _row("Role", [*_PRINCIPAL, _lists("members")])


class Page(Struct, Generic[Row], kw_only=True):
    """Some of many."""

    items: list[Row]
    total: int
    """Of all that the filters let through and that may be seen."""
    offset: int
    limit: int
    next: str | None = None
    """Where the next page is, a path with a query; null: this is the last."""


class Switches(Struct):
    """What is paused of a destination: `running`, `paused`, or on the way there."""

    production_paused: bool
    production_state: str
    insertion_paused: bool
    insertion_state: str
    consumption_paused: bool
    consumption_state: str
    durably_paused: str
    """What stays paused beyond a restart."""


class Purged(Struct):
    """How many messages were deleted."""

    purged: int


class Published(Struct):
    """To how many subscriptions a message has gone."""

    subscriptions: int


class TopicDeleted(Struct):
    """How many subscriptions have gone with it."""

    subscriptions: int


class Holder(Struct, omit_defaults=True):
    """Who holds messages; what says nothing of this kind of holder is left out."""

    held_by: str
    messages: int
    holder: int | None = None
    name: str | None = None
    container_id: str | None = None
    user: str | None = None
    since_us: int | None = None
    confirm_id: int | None = None
    lock_id: int | None = None


class QueueProducer(Struct):
    """A link that puts to a queue, or whose sends wait there."""

    name: str
    container_id: str
    user: str
    connection: str
    """The remote address."""
    blocked_sends: int
    blocked_bytes: int
    blocked_since_us: int


class Holders(Struct):
    """Who uses a queue."""

    holders: list[Holder]
    more: bool
    """There are others."""
    producers: list[QueueProducer]
    """At most 1,000."""


class Pong(Struct):
    """A channel's partner has answered."""

    partner: str
    took_us: int


class Decided(Struct):
    """Branches that were decided, and why others were not."""

    xids: list[str]
    refused: list[str]


class Count(Struct):
    """How many messages."""

    count: int


class Alarms(Struct):
    """What is wrong now, the oldest first."""

    alarms: list[Alarm]


class Found(Struct, omit_defaults=True):
    """The serials of messages of an id, as far as the ledger was looked at."""

    serials: list[int]
    next: int
    """The position to go on at; 0: that was all."""
    first_position: int
    durable_through: int


class Life(Struct, omit_defaults=True):
    """What happened to messages."""

    lines: list[dict[str, Any]]
    """One object for each event, as `postroom trace --json` prints it."""
    serials: list[int]
    next: int
    """The position to go on at, with `skip`; 0: that was all."""
    skip: int
    first_position: int
    durable_through: int


class RecordedAct(Struct, omit_defaults=True):
    """An act of an administrator, or something that was refused."""

    position: int
    time_us: int
    operation: str = ""
    type: str = ""
    name: str = ""
    status: int = 0
    user: str = ""
    remote: str = ""
    container: str = ""
    description: str = ""
    arguments: str = ""
    """JSON."""
    count: int = 1


class Acts(Struct):
    """Some of the record, the oldest first."""

    acts: list[RecordedAct]
    next: int
    """The position to go on at; 0: that was all."""


class TokenShown(Struct):
    """A token, without its secret."""

    name: str
    id: str
    rights: list[str]
    user: str
    created_us: int
    expires_us: int


class Tokens(Struct):
    """All tokens."""

    tokens: list[TokenShown]


class NewToken(Struct):
    """A token that was just made."""

    token: str
    """What is shown as `Authorization: Bearer`; it is told nowhere else."""


class SessionShown(Struct):
    """Who has signed in."""

    user: str
    csrf_token: str
    """To be shown by unsafe requests of the session, as header `X-CSRF-Token`; "" with a bearer token."""
    is_open: bool = False
    """Nobody needs to sign in: there are no users, and the broker serves this machine alone."""


class Problem(Struct, omit_defaults=True):
    """Why a request was refused (RFC 9457)."""

    type: str
    """`urn:postroom:problem:` and a word for programs."""
    title: str
    status: int
    detail: str
    instance: str
    """The path of the request."""
    condition: str = ""
    """The AMQP error condition."""
    right: str = ""
    """The right that is missing."""
    on: str = ""
    """What it is missing on: a destination, or `queue manager`."""
    info: dict[str, Any] = field(default_factory=dict)
    """More of some refusals."""


Limit = Annotated[int, Meta(ge=1, le=1000)]
