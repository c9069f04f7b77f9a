"""What two message channel agents agree on before the first message: each offers, both find the same terms.

Of batch size and message size the smaller counts; messages travel fast only if both say so; the numbers at
which sequence numbers wrap must be the same. Names differ, or a queue manager would talk to itself.
"""

from dataclasses import dataclass, replace
from typing import Final

from postroom.amqp.encoding.types import Symbol, UInt, ULong
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, NOT_IMPLEMENTED, AmqpError
from postroom.channel import wire
from postroom.model.channel import (
    LUWID_BYTES,
    MAX_BATCH_MESSAGES,
    MAX_RETRIES,
    MIN_SEQUENCE_WRAP,
    SPEED_FAST,
    SPEED_NORMAL,
    ChannelDefinition,
)

MAX_NAME_CHARS: Final = 256
"""Of the partner's queue manager and of its ledger's id."""
NO_LUWID: Final = b""


@dataclass(frozen=True)
class Offer:
    """What one end says of itself in its attach."""

    channel: str
    queue_manager: str
    ledger: str
    """The id of its ledger, hexadecimal: serial numbers of messages mean something there."""
    batch_size: int
    sequence_wrap: int
    fast: bool
    """NPMSPEED(FAST)."""
    max_message_bytes: int
    last_sequence: int = -1
    """Of a receiving end: the number of the last message that it has confirmed, 0 none; −1: a sender's offer
    has none."""
    last_luwid: bytes = NO_LUWID
    """Of a receiving end: the name of the last batch that it has confirmed, empty where there was none."""
    reset_sequence: int = 0
    """Of a sending end that was reset: the number that its next message will have; 0 it wasn't."""

    def properties(self) -> dict[object, object]:
        """As link properties."""
        offered: dict[object, object] = {
            Symbol(wire.CHANNEL): self.channel,
            Symbol(wire.QUEUE_MANAGER): self.queue_manager,
            Symbol(wire.LEDGER): self.ledger,
            Symbol(wire.PROTOCOL_VERSION): UInt(wire.PROTOCOL),
            Symbol(wire.BATCH_SIZE): UInt(self.batch_size),
            Symbol(wire.SEQUENCE_WRAP): UInt(self.sequence_wrap),
            Symbol(wire.NONPERSISTENT_SPEED): Symbol(SPEED_FAST if self.fast else SPEED_NORMAL),
            Symbol(wire.MAX_MESSAGE_BYTES): ULong(self.max_message_bytes),
        }
        if self.last_sequence >= 0:
            offered[Symbol(wire.LAST_SEQUENCE)] = ULong(self.last_sequence)
            offered[Symbol(wire.LAST_LUWID)] = self.last_luwid
        if self.reset_sequence > 0:
            offered[Symbol(wire.RESET_SEQUENCE)] = ULong(self.reset_sequence)
        return offered


@dataclass(frozen=True)
class Terms:
    """What both ends keep to while the link lasts."""

    partner_queue_manager: str
    partner_ledger: str
    batch_size: int
    sequence_wrap: int
    fast: bool
    max_message_bytes: int


def sending_offer(
    definition: ChannelDefinition, queue_manager: str, ledger: str, reset_sequence: int
) -> Offer:
    """What a sending end offers."""
    return replace(_offer(definition, queue_manager, ledger), reset_sequence=reset_sequence)


def receiving_offer(
    definition: ChannelDefinition, queue_manager: str, ledger: str, last_sequence: int, last_luwid: bytes
) -> Offer:
    """What a receiving end offers: how far it has come, too."""
    offer = _offer(definition, queue_manager, ledger)
    return replace(offer, last_sequence=last_sequence, last_luwid=last_luwid)


def _offer(definition: ChannelDefinition, queue_manager: str, ledger: str) -> Offer:
    return Offer(
        channel=definition.name,
        queue_manager=queue_manager,
        ledger=ledger,
        batch_size=definition.batch_size,
        sequence_wrap=definition.sequence_wrap,
        fast=definition.nonpersistent_speed == SPEED_FAST,
        max_message_bytes=definition.max_message_bytes,
    )


def read_offer(properties: dict[object, object] | None, receiving: bool) -> Offer:
    """The partner's offer; ``receiving``: it must say how far it has come. Raises `AmqpError`."""
    fields = {str(key): value for key, value in (properties or {}).items()}
    protocol = _number(fields, wire.PROTOCOL_VERSION, 1, MAX_RETRIES)
    if protocol != wire.PROTOCOL:
        raise AmqpError(
            NOT_IMPLEMENTED, f"protocol {protocol} of channels is unknown here: {wire.PROTOCOL} is spoken"
        )
    return Offer(
        channel=_text(fields, wire.CHANNEL),
        queue_manager=_text(fields, wire.QUEUE_MANAGER),
        ledger=_text(fields, wire.LEDGER),
        batch_size=_number(fields, wire.BATCH_SIZE, 1, MAX_BATCH_MESSAGES),
        sequence_wrap=_number(fields, wire.SEQUENCE_WRAP, MIN_SEQUENCE_WRAP, MAX_RETRIES),
        fast=_is_fast(fields),
        max_message_bytes=_number(fields, wire.MAX_MESSAGE_BYTES, 1, MAX_RETRIES),
        last_sequence=_number(fields, wire.LAST_SEQUENCE, 0, MAX_RETRIES) if receiving else -1,
        last_luwid=_luwid(fields) if receiving else NO_LUWID,
        reset_sequence=_reset(fields) if not receiving else 0,
    )


def negotiate(ours: Offer, theirs: Offer) -> Terms:
    """Raises `AmqpError` where the two ends can't work together; both ends find the same."""
    if ours.channel != theirs.channel:
        raise AmqpError(
            INVALID_FIELD, f"the attach is of channel {ours.channel!r}, its answer of {theirs.channel!r}"
        )
    if ours.queue_manager == theirs.queue_manager:
        raise AmqpError(
            NOT_ALLOWED,
            f"channel {ours.channel!r}: both queue managers are called {ours.queue_manager!r}; "
            "give one of them another name (container_id)",
        )
    if ours.sequence_wrap != theirs.sequence_wrap:
        raise AmqpError(
            wire.WRAP_ERROR,
            f"channel {ours.channel!r}: sequence numbers wrap at {ours.sequence_wrap} in "
            f"{ours.queue_manager!r} and at {theirs.sequence_wrap} in {theirs.queue_manager!r}; "
            "give both the same sequence_wrap",
        )
    return Terms(
        partner_queue_manager=theirs.queue_manager,
        partner_ledger=theirs.ledger,
        batch_size=min(ours.batch_size, theirs.batch_size),
        sequence_wrap=ours.sequence_wrap,
        fast=ours.fast and theirs.fast,
        max_message_bytes=min(ours.max_message_bytes, theirs.max_message_bytes),
    )


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS:
        return str(value)
    raise _invalid(name, value, f"a string of 1 to {MAX_NAME_CHARS} characters")


def _number(fields: dict[str, object], name: str, lowest: int, highest: int) -> int:
    value = fields.get(name)
    if isinstance(value, int) and wire.is_number(value, lowest, highest):
        return int(value)
    raise _invalid(name, value, f"a number of {lowest} to {highest}")


def _is_fast(fields: dict[str, object]) -> bool:
    """A partner that doesn't say can't do it."""
    value = fields.get(wire.NONPERSISTENT_SPEED, SPEED_NORMAL)
    if value in (SPEED_FAST, SPEED_NORMAL):
        return value == SPEED_FAST
    raise _invalid(wire.NONPERSISTENT_SPEED, value, f"{SPEED_FAST} or {SPEED_NORMAL}")


def _luwid(fields: dict[str, object]) -> bytes:
    value = fields.get(wire.LAST_LUWID)
    if isinstance(value, bytes) and len(value) in (0, LUWID_BYTES):
        return value
    raise _invalid(wire.LAST_LUWID, value, f"binary of {LUWID_BYTES} bytes, or empty")


def _reset(fields: dict[str, object]) -> int:
    return _number(fields, wire.RESET_SEQUENCE, 1, MAX_RETRIES) if wire.RESET_SEQUENCE in fields else 0


def _invalid(name: str, value: object, wanted: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, f"link property {name} is {value!r:.100}: must be {wanted}")
