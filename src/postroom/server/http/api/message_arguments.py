"""What requests about messages say, as types of JSON."""

from typing import Annotated, Any

from msgspec import Meta, field

from postroom.server.http.api.arguments import Arguments, IdType, Number
from postroom.server.http.api.messages import Id, NewMessage

MAX_IMPORTED = 1000


class Browse(Arguments, kw_only=True):
    """Which messages, and which page of them."""

    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    selector: str = ""
    states: list[str] = field(default_factory=list)
    """Any of these; none: all."""
    message_id: str = ""
    message_id_type: IdType = "string"
    serial: Number = 0
    bodies: bool = False
    """With headers, properties and bodies."""


class WithBody(Arguments, kw_only=True):
    """How much of a message."""

    bodies: bool = True


class Meant(Arguments, kw_only=True):
    """Which messages: all that is said must hold; nothing said means all."""

    selector: str = ""
    states: list[str] = field(default_factory=list)
    message_id: Id | None = None
    serial: Number = 0
    if_paused: bool = False
    """Only while consumption is paused."""


class Moved(Meant, kw_only=True):
    """Which messages, and where to."""

    to: str
    in_pieces: bool = False
    """Some of very many; the answer says whether there are more."""


class Replayed(Meant, kw_only=True):
    """Which messages; without `to` each goes where it was before."""

    to: str = ""
    in_pieces: bool = False


class Imported(NewMessage, kw_only=True):
    """A message with absolute times."""

    expires_us: Number = 0
    due_us: Number = 0


class Import(Arguments, kw_only=True):
    """Messages to be created; one whose message id is there already takes that one's place."""

    messages: Annotated[list[Imported], Meta(min_length=1, max_length=MAX_IMPORTED)]
    overrides: bool = False
    """Those of the queue apply, as to messages that are sent."""


class JobAction(Arguments, kw_only=True):
    """What is done with messages that are named one by one, in columns."""

    action: str
    to: str = ""
    reason: str = ""
    serials: list[int]
    positions: list[int]
    delivery_counts: list[int]
    ordinals: list[int] | None = None


class Job(Arguments, kw_only=True):
    """Actions on messages of this ledger."""

    ledger_id: str
    actions: list[JobAction]


class CursorOpening(Meant, kw_only=True):
    """Which messages, and how long the cursor may lie idle."""

    timeout_s: Number = 300


class CursorPage(Arguments, kw_only=True):
    """A page of a cursor."""

    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    bodies: bool = False


class StoreFilter(Arguments, kw_only=True):
    """Which messages of the message store: by unique id (`origin` and `time`), or whatever is said."""

    origin: str | None = None
    time: Number | None = None
    message_id: Id | None = None
    correlation_id: Id | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    lock_id: Number = 0
    properties: dict[str, Any] | None = None


class StorePut(Arguments, kw_only=True):
    """A message; under a confirm id it waits for a confirmation."""

    message: NewMessage
    confirm_id: Number = 0
    resend: bool = False
    origin: str | None = None
    time: Number | None = None


class StoreGet(StoreFilter, kw_only=True):
    """Which message to get; under a confirm id it is held until a confirmation."""

    confirm_id: Number = 0


class StoreWait(StoreGet, kw_only=True):
    """As a get, and how long to wait for one."""

    timeout_ms: Number = 0


class StoreBrowse(StoreFilter, kw_only=True):
    """Which messages, and a page of them."""

    just_uid: bool = False
    count: Number = 0
    after: list[int] | None = None


class StoreLock(StoreFilter, kw_only=True):
    """Which messages to lock."""

    just_uid: bool = False
    confirm_id: Number = 0
    lease_ms: Number = 0


class StoreListen(StoreFilter, kw_only=True):
    """For which messages to wait, and where to go on."""

    position: Number | None = None
    timeout_ms: Number = 0


class ConfirmId(Arguments, kw_only=True):
    """A confirm id."""

    confirm_id: Number
