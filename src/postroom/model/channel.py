"""Message channels between queue managers: what one is.

A channel moves the messages of one transmission queue to one other queue manager. Each end defines it, by the
same name:

- a **sender** calls its partner, a receiver, and sends; a **receiver** waits to be called;
- a **server** sends, too: it calls if it knows where (``connection``), or waits for a requester;
- a **requester** calls a server, or a sender that calls back, and receives.

The settings are those of IBM MQ's DEFINE CHANNEL, whose keyword stands in brackets; defaults are MQ's, too.
"""

import re
from dataclasses import dataclass
from typing import Final

from postroom.model.settings import bounds_of, setting, unusual_of

SENDER: Final = "sender"
RECEIVER: Final = "receiver"
SERVER: Final = "server"
REQUESTER: Final = "requester"
CHANNEL_TYPES: Final = (SENDER, RECEIVER, SERVER, REQUESTER)
SENDING_TYPES: Final = (SENDER, SERVER)
"""Those that take from a transmission queue."""

PROTOCOL_POSTROOM: Final = "postroom"
PROTOCOL_AMQP: Final = "amqp"
PROTOCOLS: Final = (PROTOCOL_POSTROOM, PROTOCOL_AMQP)

SPEED_FAST: Final = "fast"
SPEED_NORMAL: Final = "normal"
SPEEDS: Final = (SPEED_FAST, SPEED_NORMAL)

AUTHORITY_DEFAULT: Final = "default"
AUTHORITY_CONTEXT: Final = "context"
AUTHORITIES: Final = (AUTHORITY_DEFAULT, AUTHORITY_CONTEXT)

MAX_CHANNEL_NAME_CHARS: Final = 20
MAX_DESCRIPTION_CHARS: Final = 256
MAX_RETRIES: Final = 999_999_999
"""Of every count and every time of a channel, as in MQ."""
MAX_BATCH_MESSAGES: Final = 9999
MIN_SEQUENCE_WRAP: Final = 100
LUWID_BYTES: Final = 16
"""Of the name of one batch (logical unit of work id)."""

_NAME_MARKS: Final = frozenset("._/%")
MAX_PORT: Final = 65535
_SCHEMES: Final = ("amqp://", "amqps://")
_USER_INFO: Final = re.compile("://.*@", re.DOTALL)


class ChannelInvalid(ValueError):
    """A definition that can't be; ``key`` names the setting, ``description`` says what is wrong and what
    would do."""

    def __init__(self, description: str, key: str) -> None:
        super().__init__(description)
        self.description = description
        self.key = key


@dataclass(frozen=True)
class ChannelDefinition:
    """What a channel is, as it is written to the ledger."""

    name: str
    """At most 20 letters, digits and `.` `/` `_` `%` [CHANNEL]."""
    type: str = setting(SENDER, choices=CHANNEL_TYPES)
    """What this end does, as above [CHLTYPE]."""
    protocol: str = setting(PROTOCOL_POSTROOM, choices=PROTOCOLS)
    """`postroom`: exactly once, with another Postroom; `amqp`: a foreign broker at the other end, at least
    once; senders and receivers only, and this end calls."""
    connection: str = ""
    """Where the partner listens: `amqp://host:port` or `amqps://host:port` (TLS). Several with commas between
    them are the members of a replicated queue manager: one after the other is tried, beginning behind the one
    that failed last [CONNAME]."""
    credentials: str = ""
    """Name of a table [`[credentials.NAME]`](configuration.md): user, certificates. Secrets are never in the
    ledger."""
    transmission_queue: str = ""
    """Of a sender or server: the queue that it empties [XMITQ]."""
    batch_size: int = setting(50, least=1, most=MAX_BATCH_MESSAGES)
    """Messages of a batch at most; the smaller of both ends counts [BATCHSZ]."""
    batch_limit_kb: int = setting(5000, least=0, most=MAX_RETRIES)
    """A batch ends with the message that makes it so large; 0: no limit [BATCHLIM]."""
    batch_interval_ms: int = setting(0, least=0, most=MAX_RETRIES)
    """So long a batch stays open for more while its queue is empty [BATCHINT]."""
    batch_heartbeat_ms: int = setting(0, least=0, most=MAX_RETRIES)
    """Before a batch is confirmed, a partner that was silent for longer is asked whether it is there; 0:
    never [BATCHHB]."""
    heartbeat_interval_s: int = setting(300, least=0, most=MAX_RETRIES)
    """Silence after which the calling end gives its connection up; heartbeats are sent twice as often. 0:
    never. The called end goes by `limits.idle_timeout_ms` [HBINT]."""
    disconnect_interval_s: int = setting(6000, least=0, most=MAX_RETRIES)
    """A sending channel with nothing to send for so long ends, to be triggered again; 0: never [DISCINT]."""
    short_retry_count: int = setting(10, least=0, most=MAX_RETRIES)
    """Attempts to start again after a failure: [retries](channels.md#retries) [SHORTRTY] …"""
    short_retry_interval_s: int = setting(60, least=0, most=MAX_RETRIES)
    """… so far apart; 0 is taken as 0.1 s [SHORTTMR]."""
    long_retry_count: int = setting(MAX_RETRIES, least=0, most=MAX_RETRIES)
    """Attempts when those are used up; after the last one the channel is stopped [LONGRTY]."""
    long_retry_interval_s: int = setting(1200, least=0, most=MAX_RETRIES)
    """Likewise so far apart [LONGTMR]."""
    sequence_wrap: int = setting(MAX_RETRIES, least=MIN_SEQUENCE_WRAP, most=MAX_RETRIES)
    """The highest sequence number, followed by 1; the same at both ends [SEQWRAP]."""
    max_message_bytes: int = setting(4_194_304, least=1, most=MAX_RETRIES)
    """The smaller of both ends counts; larger messages are dead letters of the sending end [MAXMSGL]."""
    nonpersistent_speed: str = setting(SPEED_FAST, choices=SPEEDS)
    """`fast` at both ends: non-persistent messages travel outside batches, may overtake persistent ones, and
    are [lost if the line breaks](channels.md#fast-messages). Else as persistent ones do [NPMSPEED]."""
    message_retry_count: int = setting(10, least=0, most=MAX_RETRIES)
    """Of a receiving end: so many more attempts to put where the reason may pass ([undelivered
    messages](undelivered.md)) [MRRTY], …"""
    message_retry_interval_ms: int = setting(1000, least=0, most=MAX_RETRIES)
    """… so far apart [MRTMR]."""
    message_retry_exit: str = ""
    """`package.module:callable` that decides about attempts instead; in the configuration file only, since it
    names code [MREXIT]."""
    message_retry_data: str = ""
    """What the exit is given [MRDATA]."""
    use_dead_letter_queue: bool = True
    """Whether what can't be put may go to the queue manager's dead-letter queue [USEDLQ]."""
    put_authority: str = setting(AUTHORITY_DEFAULT, choices=AUTHORITIES)
    """In whose name a receiving end puts: `default`: `user`'s; `context`: that of the message's `user-id`,
    where it has one. Who lacks the right `put` there has it [undelivered](undelivered.md) with
    MQRC_NOT_AUTHORIZED [PUTAUT]."""
    user: str = ""
    """In whose name a receiving end puts; empty: that of the partner who has called; where this end calls,
    the queue manager's, which may put everywhere [MCAUSER]."""
    triggered: bool = True
    """Started by a message on its transmission queue. A receiver of protocol `amqp`, which has none: started
    when it is defined and when the broker starts."""
    remote_address: str = ""
    """Protocol `amqp`: the address there."""
    local_queue: str = ""
    """Protocol `amqp`, receiver: the queue here."""
    description: str = ""
    """At most 256 characters, for people [DESCR]."""

    @property
    def sending(self) -> bool:
        """Whether this end sends."""
        return self.type in SENDING_TYPES

    def check(self) -> None:
        """Raise ChannelInvalid."""
        check_channel_name(self.name)
        for key, allowed in CHANNEL_BOUNDS.items():
            fault = allowed.fault(getattr(self, key))
            self._demand(not fault, key, fault)
        self._demand(
            len(self.description) <= MAX_DESCRIPTION_CHARS,
            "description",
            f"must have {MAX_DESCRIPTION_CHARS} characters or less",
        )
        if self.connection:
            check_connection(self.name, self.connection)
        self._check_ends()

    def _check_ends(self) -> None:
        foreign = self.protocol == PROTOCOL_AMQP
        if self.sending:
            self._demand(self.transmission_queue != "", "transmission_queue", f"a {self.type} needs one")
        else:
            self._demand(self.transmission_queue == "", "transmission_queue", f"a {self.type} has none")
        if foreign:
            self._demand(
                self.type in (SENDER, RECEIVER),
                "type",
                "with protocol amqp there are senders and receivers only",
            )
            self._demand(self.remote_address != "", "remote_address", "protocol amqp needs one")
        if self.type in (SENDER, REQUESTER) or foreign:
            self._demand(
                self.connection != "", "connection", f"a {self.protocol} {self.type} calls: say where"
            )
        elif self.type == RECEIVER:
            self._demand(self.connection == "", "connection", "a receiver waits to be called: leave it out")
        if foreign and not self.sending:
            self._demand(self.local_queue != "", "local_queue", "a receiver of protocol amqp needs one")

    def _demand(self, fulfilled: bool, key: str, what: str) -> None:
        if not fulfilled:
            raise ChannelInvalid(f"channel {self.name!r}: {key} is {getattr(self, key)!r}: {what}", key)

    def to_ledger(self) -> dict[str, object]:
        """As JSON-able fields, without what is as it is by default; name and type are always there."""
        return unusual_of(self, "type")


CHANNEL_BOUNDS: Final = bounds_of(ChannelDefinition)


def check_channel_name(name: str) -> None:
    """Raise ChannelInvalid unless a channel can have this name: MQ's characters, and at most 20 of them."""
    if not name:
        raise ChannelInvalid("a channel must have a name", "name")
    if len(name) > MAX_CHANNEL_NAME_CHARS:
        raise ChannelInvalid(
            f"channel {name[:40]!r}: a name has at most {MAX_CHANNEL_NAME_CHARS} characters", "name"
        )
    for character in name:
        if not (character.isascii() and character.isalnum()) and character not in _NAME_MARKS:
            raise ChannelInvalid(
                f"channel {name!r}: {character!r} can't be in a name; letters, digits and . / _ % can", "name"
            )


def addresses_of(connection: str) -> tuple[str, ...]:
    """The addresses that a connection names, in its order."""
    return tuple(address.strip() for address in connection.split(","))


def check_connection(channel: str, connection: str) -> None:
    """Raise ChannelInvalid unless ``connection`` is amqp[s]://host:port, without user and password, or
    several of one scheme with commas between them.
    """
    addresses = addresses_of(connection)
    schemes = {address.partition("://")[0] for address in addresses}
    if all(map(_is_address, addresses)) and len(schemes) == 1:
        return
    raise ChannelInvalid(
        f"channel {channel!r}: connection is {_hidden(connection)!r}: must be amqp://host:port or "
        "amqps://host:port, or several of one scheme with commas between them; user and password are the "
        "configuration file's ([credentials.NAME])",
        "connection",
    )


def _is_address(text: str) -> bool:
    scheme, mark, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT
    return scheme + mark in _SCHEMES and host != "" and is_port and not any(each in host for each in "/?# @")


def _hidden(connection: str) -> str:
    """Without what may be passwords."""
    return _USER_INFO.sub("://…@", connection)


def next_sequence(sequence: int, wrap: int) -> int:
    """The sequence number after ``sequence``: 1 after ``wrap``."""
    return 1 if sequence >= wrap else sequence + 1
