"""What requests say, as types of JSON, where it is no setting."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from postroom.server.http.api.settings import Named
from postroom.server.http.tokens import Right

MAX_SERIAL: Final = (1 << 63) - 1

Number = Annotated[int, Meta(ge=0, le=MAX_SERIAL)]
Serial = Annotated[int, Meta(ge=1, le=MAX_SERIAL)]
Switch = Literal["production", "insertion", "consumption"]
IdType = Literal["string", "binary", "uuid", "ulong"]


class Arguments(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request, or its query."""


class PageOf(Arguments, kw_only=True):
    """Which of many: the query of every list."""

    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    prefix: str = ""
    """Only names that begin so."""
    contains: str = ""
    """Only names that have this in them, in whatever case."""
    state: str = ""
    """Only what is in this `state`, of things that have one."""
    sort: str = ""
    """An attribute; with `-` in front the largest first. "": the oldest first."""


class Paused(Arguments, kw_only=True):
    """What to pause."""

    switch: Switch
    durable: bool = False
    """Beyond a restart."""


class Resumed(Arguments, kw_only=True):
    """What to resume."""

    switch: Switch


class QueueDeletion(Arguments, kw_only=True):
    """On which conditions."""

    if_empty: bool = False
    if_unused: bool = False
    force: bool = False
    """Even where transactions, channels or Spark hold messages of it."""


class TopicDeletion(Arguments, kw_only=True):
    """On which conditions."""

    if_unused: bool = False
    force: bool = False


class SubscriptionDeletion(Arguments, kw_only=True):
    """On which conditions."""

    force: bool = False


class ChannelStop(Arguments, kw_only=True):
    """How to stop."""

    mode: Literal["quiesce", "force", "terminate"] = "quiesce"
    status: Literal["stopped", "inactive"] = "stopped"


class ChannelReset(Arguments, kw_only=True):
    """The number of the next message."""

    sequence: Number = 1


class ChannelResolution(Arguments, kw_only=True):
    """What becomes of the batch in doubt."""

    action: Literal["commit", "backout"]


class LeaseSettings(Arguments, kw_only=True):
    """What is renewed."""

    position: Number | UnsetType = UNSET
    duration_s: Number | UnsetType = UNSET
    max_bytes: Number | UnsetType = UNSET


class NewLease(Named, kw_only=True):
    """A lease on the ledger's history."""

    owner: str | UnsetType = UNSET
    position: Number | UnsetType = UNSET
    bodies: bool | UnsetType = UNSET
    duration_s: Number | UnsetType = UNSET
    max_bytes: Number | UnsetType = UNSET
    queues: list[str] | UnsetType = UNSET


class SparkSubscriptionSettings(Arguments, kw_only=True):
    """What can be changed."""

    window: Number | UnsetType = UNSET
    window_bytes: Number | UnsetType = UNSET
    lease_s: Number | UnsetType = UNSET


class NewSparkSubscription(Named, kw_only=True):
    """A Spark subscription."""

    queue: str
    window: Number | UnsetType = UNSET
    window_bytes: Number | UnsetType = UNSET
    lease_s: Number | UnsetType = UNSET
    selector: str | UnsetType = UNSET


class UserSettings(Arguments, kw_only=True):
    """What can be changed of a user."""

    password: str | UnsetType = UNSET
    """In place of `verifiers`: what is kept of it is made here."""
    verifiers: list[str] | UnsetType = UNSET
    """As `postroom user hash` prints them."""
    roles: list[str] | UnsetType = UNSET
    grants: list[str] | UnsetType = UNSET
    locked: bool | UnsetType = UNSET
    description: str | UnsetType = UNSET


class NewUser(UserSettings, kw_only=True):
    """A user."""

    name: Annotated[str, Meta(min_length=1)]


class RoleSettings(Arguments, kw_only=True):
    """What can be changed of a role."""

    roles: list[str] | UnsetType = UNSET
    grants: list[str] | UnsetType = UNSET
    description: str | UnsetType = UNSET


class NewRole(RoleSettings, kw_only=True):
    """A role."""

    name: Annotated[str, Meta(min_length=1)]


class Granted(Arguments, kw_only=True):
    """Rights, or `["all"]`, and what they are on: a pattern of names, or `queue manager`."""

    rights: list[str]
    on: str


class LedgerSearch(Arguments, kw_only=True):
    """Which message: by one of its id and its serial."""

    message_id: str = ""
    message_id_type: IdType = "string"
    """How the id is given: text, base64, a UUID, or a number."""
    serial: Number = 0
    first: Number = 0
    """The position to begin at; 0: the oldest there is."""


class FollowFrom(Arguments, kw_only=True):
    """Where to begin."""

    first: Number = 0
    skip: Number = 0


class Followed(FollowFrom, kw_only=True):
    """Which messages."""

    serials: Annotated[list[Serial], Meta(min_length=1, max_length=10_000)]


class ActsFrom(Arguments, kw_only=True):
    """Which part of the record."""

    first: Number = 0
    """The position to begin at."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class TokenSettings(Arguments, kw_only=True):
    """A token of the broker's file of tokens."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    rights: Annotated[list[Right], Meta(min_length=1)]
    user: str = ""
    duration_s: Number = 0
    """0: it doesn't end by itself."""


class Credentials(Arguments, kw_only=True):
    """A user's name and password."""

    user: Annotated[str, Meta(min_length=1)]
    password: str


class EventsOf(Arguments, kw_only=True):
    """Which queues' figures are streamed."""

    queue: list[str] = field(default_factory=list)
    """Each of these, up to 20; none: the ten that hold most."""


Anything = dict[str, Any]
