"""Message channels between queue managers: what one is.

A channel moves the messages of one transmission queue to one other queue manager. Each end defines it, by the
same name:

- a **sender** calls its partner, a receiver, and sends; a **receiver** waits to be called;
- a **server** sends, too: it calls if it knows where (``connection``), or waits for a requester;
- a **requester** calls a server, or a sender that calls back, and receives.

The settings are those of IBM MQ's DEFINE CHANNEL, whose keyword stands in brackets; defaults are MQ's, too.
"""

from dataclasses import dataclass, fields, replace
from typing import Final

from postroom.model.settings import bounds_of, setting

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
_SCHEMES: Final = ("amqp://", "amqps://")


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
    type: str = setting(SENDER, choices=CHANNEL_TYPES)
    """"sender", "receiver", "server" or "requester" [CHLTYPE]."""
    protocol: str = setting(PROTOCOL_POSTROOM, choices=PROTOCOLS)
    """"postroom": exactly once, with another Postroom; "amqp": any broker of AMQP 1.0, at least once."""
    connection: str = ""
    """Where the partner listens: ``amqp://host:port`` or ``amqps://host:port`` [CONNAME]."""
    credentials: str = ""
    """The name of a table ``[credentials.NAME]`` of the configuration file; secrets stay there."""
    transmission_queue: str = ""
    """Of a sender or server: the queue that it empties [XMITQ]."""
    batch_size: int = setting(50, least=1, most=MAX_BATCH_MESSAGES)
    """Messages of a batch at most; of two partners the smaller counts [BATCHSZ]."""
    batch_limit_kb: int = setting(5000, least=0, most=MAX_RETRIES)
    """A batch ends, too, when it has so many kilobytes; 0 no limit [BATCHLIM]."""
    batch_interval_ms: int = setting(0, least=0, most=MAX_RETRIES)
    """A batch stays open so long for more while its queue is empty [BATCHINT]."""
    batch_heartbeat_ms: int = setting(0, least=0, most=MAX_RETRIES)
    """A partner that was silent for longer is asked before a batch is confirmed; 0 never [BATCHHB]."""
    heartbeat_interval_s: int = setting(300, least=0, most=MAX_RETRIES)
    """Silence that both ends bear: the connection's idle time-out; 0 any [HBINT]."""
    disconnect_interval_s: int = setting(6000, least=0, most=MAX_RETRIES)
    """A channel whose queue has been empty for so long ends, to be triggered again; 0 never [DISCINT]."""
    short_retry_count: int = setting(10, least=0, most=MAX_RETRIES)
    """Attempts to start again after a failure, [SHORTRTY] …"""
    short_retry_interval_s: int = setting(60, least=0, most=MAX_RETRIES)
    """… so far apart [SHORTTMR]."""
    long_retry_count: int = setting(MAX_RETRIES, least=0, most=MAX_RETRIES)
    """Attempts when those are used up [LONGRTY]; after the last one the channel is stopped."""
    long_retry_interval_s: int = setting(1200, least=0, most=MAX_RETRIES)
    """[LONGTMR]."""
    sequence_wrap: int = setting(MAX_RETRIES, least=MIN_SEQUENCE_WRAP, most=MAX_RETRIES)
    """The highest sequence number, followed by 1; the same at both ends [SEQWRAP]."""
    max_message_bytes: int = setting(4_194_304, least=1, most=MAX_RETRIES)
    """Of two partners the smaller counts [MAXMSGL]."""
    nonpersistent_speed: str = setting(SPEED_FAST, choices=SPEEDS)
    """"fast": non-persistent messages travel outside batches, may overtake persistent ones, and are lost
    with the link; "normal": as persistent ones do. Fast only if both say so [NPMSPEED]."""
    message_retry_count: int = setting(10, least=0, most=MAX_RETRIES)
    """Of a receiving end: so many more attempts to put where the reason may pass [MRRTY], …"""
    message_retry_interval_ms: int = setting(1000, least=0, most=MAX_RETRIES)
    """… so far apart [MRTMR]."""
    message_retry_exit: str = ""
    """``package.module:callable`` that decides about attempts instead; only from the configuration file
    [MREXIT]."""
    message_retry_data: str = ""
    """What the exit is given [MRDATA]."""
    use_dead_letter_queue: bool = True
    """Whether what can't be put may go to the queue manager's dead-letter queue [USEDLQ]."""
    put_authority: str = setting(AUTHORITY_DEFAULT, choices=AUTHORITIES)
    """In whose name a receiving end puts: "default", the channel's; "context", the message's user id
    [PUTAUT]."""
    triggered: bool = True
    """Of a sender or server: whether a message on its transmission queue starts it [TRIGGER]."""
    remote_address: str = ""
    """Protocol "amqp": the address at the partner to send to or receive from."""
    local_queue: str = ""
    """Protocol "amqp", receiver: the queue here that messages are put to."""
    description: str = ""
    """For people [DESCR]."""

    @property
    def sending(self) -> bool:
        """Whether this end sends."""
        return self.type in SENDING_TYPES

    @property
    def calling(self) -> bool:
        """Whether this end makes the connection."""
        return self.connection != ""

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

    def to_record(self) -> dict[str, object]:
        """As JSON-able fields."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def to_ledger(self) -> dict[str, object]:
        """As `to_record`, without what is as it is by default; name and type are always there."""
        usual = {each.name: each.default for each in fields(self) if each.name not in ("name", "type")}
        return {
            key: value for key, value in self.to_record().items() if key not in usual or value != usual[key]
        }

    @staticmethod
    def from_record(record: dict[str, object]) -> "ChannelDefinition":
        """The definition that `to_ledger` wrote."""
        definition = ChannelDefinition(name=str(record["name"]))
        known = {each.name for each in fields(ChannelDefinition)}
        return replace(definition, **{k: v for k, v in record.items() if k in known})  # type: ignore[arg-type]


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


def check_connection(channel: str, connection: str) -> None:
    """Raise ChannelInvalid unless ``connection`` is amqp[s]://host:port, without user and password."""
    for scheme in _SCHEMES:
        if connection.startswith(scheme):
            host, colon, port = connection[len(scheme) :].rpartition(":")
            if host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
                if "@" in host:
                    break
                if not any(mark in host for mark in "/?# ,"):
                    return
    raise ChannelInvalid(
        f"channel {channel!r}: connection is {_hidden(connection)!r}: must be amqp://host:port or "
        "amqps://host:port; user and password are the configuration file's ([credentials.NAME])",
        "connection",
    )


def _hidden(connection: str) -> str:
    """Without what may be a password."""
    before, at, after = connection.rpartition("@")
    scheme, mark, _ = before.partition("://")
    return f"{scheme}{mark}…@{after}" if at else connection


def next_sequence(sequence: int, wrap: int) -> int:
    """The sequence number after ``sequence``: 1 after ``wrap``."""
    return 1 if sequence >= wrap else sequence + 1
