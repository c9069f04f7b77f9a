"""Defining and ending channels, and what people and partners say to those that don't run: resynchronise,
resolve, reset."""

import json
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.channels import batches
from postroom.manager.channels.channel import Batch, Channel, ChannelSync, Partner, channels_of
from postroom.manager.channels.triggering import inhibit
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.errors import (
    ChannelExists,
    ChannelInUse,
    ChannelNotFound,
    ChannelNotInDoubt,
    ChannelSequenceError,
    DefinitionInvalid,
    LimitExceeded,
    NotAllowed,
)
from postroom.model import numbers as n
from postroom.model.channel import ChannelDefinition, ChannelInvalid
from postroom.model.settings import restored

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import Recovered

_DEFINED: Final = int(RecordType.CHANNEL_DEFINED)
_DELETED: Final = int(RecordType.CHANNEL_DELETED)
_STATE: Final = int(RecordType.CHANNEL_STATE)

_LASTING: Final = ("type", "protocol")
"""What a channel is from its beginning."""


# --- definitions ----------------------------------------------------------------------------------


def find(core: Core, name: str) -> Channel:
    """The channel of that name; raises ChannelNotFound."""
    channel = channels_of(core).by_name.get(name)
    if channel is None:
        raise ChannelNotFound(f"there is no channel {name!r}")
    return channel


def define(core: Core, definition: ChannelDefinition) -> Channel:
    """Make a channel; the same definition again returns the one that is there."""
    channels = channels_of(core)
    existing = channels.by_name.get(definition.name)
    if existing is not None:
        if existing.definition == definition:
            return existing
        raise ChannelExists(f"channel {definition.name!r} exists with another definition: alter it")
    _check(definition)
    if len(channels.by_name) >= core.options.max_channels:
        raise LimitExceeded(
            f"channel {definition.name!r} can't be defined: {core.options.max_channels} channels are the "
            "limit (max_channels)"
        )
    channel = Channel(core.holders.ids.take(), definition)
    channels.by_name[definition.name] = channel
    _write(core, channel)
    return channel


def alter(core: Core, definition: ChannelDefinition) -> Channel:
    """Give the channel of that name another definition, which counts from its next start on. Raises
    ChannelNotFound, DefinitionInvalid, ChannelInUse."""
    channel = find(core, definition.name)
    _check(definition)
    before = channel.definition
    for key in _LASTING:
        if getattr(definition, key) != getattr(before, key):
            raise DefinitionInvalid(
                f"channel {definition.name!r}: {key} is {getattr(before, key)!r} and can't change: delete "
                "the channel and define it anew",
                key,
            )
    if definition.transmission_queue != before.transmission_queue:
        _check_at_rest(channel, "its transmission queue can't change")
    if definition != before:
        channel.definition = definition
        _write(core, channel)
        for name in (before.transmission_queue, definition.transmission_queue):
            inhibit(core, name)
    return channel


def delete(core: Core, name: str) -> None:
    """Forget a channel. Raises ChannelNotFound, ChannelInUse."""
    channel = find(core, name)
    _check_at_rest(channel, "it can't be deleted")
    for partner in channel.partners.values():
        core.ledger.record(_DELETED, 0, 0, partner.id, 0, 0, b"")
    core.ledger.record(_DELETED, 0, 0, channel.id, 0, 0, b"")
    del channels_of(core).by_name[name]
    inhibit(core, channel.definition.transmission_queue)


def _check(definition: ChannelDefinition) -> None:
    try:
        definition.check()
    except ChannelInvalid as error:
        raise DefinitionInvalid(error.description, error.key) from error


def _check_at_rest(channel: Channel, what: str) -> None:
    if channel.running:
        raise ChannelInUse(f"channel {channel.name!r} is running: {what} now; stop it first")
    if channel.batches:
        raise ChannelInUse(
            f"channel {channel.name!r} has a batch in doubt: {what}; start the channel, or resolve it"
        )


def _write(core: Core, channel: Channel) -> None:
    detail = json.dumps(channel.definition.to_ledger(), ensure_ascii=False).encode()
    core.ledger.record(_DEFINED, 0, 0, channel.id, 0, 0, detail)


# --- states ---------------------------------------------------------------------------------------


def set_status(core: Core, name: str, status: dict[str, object]) -> None:
    """What must survive of a channel's state. Raises ChannelNotFound."""
    channel = find(core, name)
    if status != channel.status:
        channel.status = dict(status)
        write_state(core, channel)
        inhibit(core, channel.definition.transmission_queue)


def write_state(core: Core, channel: Channel) -> None:
    core.ledger.record(_STATE, 0, 0, channel.id, 0, 0, channel.detail())


def write_partner(core: Core, channel: Channel, partner: Partner) -> i64:
    return core.ledger.record(_STATE, 0, 0, partner.id, 0, 0, partner.detail(channel.name))


def sync_of(core: Core, name: str, ledger: str) -> ChannelSync:
    """How far a channel has come; of a receiving one with the partner of that ledger, or "" the one that was
    added last. Raises ChannelNotFound."""
    channel = find(core, name)
    if channel.definition.sending:
        batch = in_doubt(channel)
        reset_to = int(channel.reset_sequence) if batch is None else 0
        return ChannelSync(channel.luwid, int(channel.sequence), batch, reset_to)
    partner = channel.partners.get(ledger)
    if partner is None and not ledger and channel.partners:
        partner = list(channel.partners.values())[-1]
    if partner is None:
        return ChannelSync(b"", int(channel.sequence), None, 0)
    return ChannelSync(partner.luwid, int(partner.sequence), None, 0)


def in_doubt(channel: Channel) -> Batch | None:
    """The oldest batch that may have arrived."""
    if channel.sending is not None:
        return channel.sending.oldest_in_doubt
    return channel.batches[0] if channel.batches else None


# --- after a failure ------------------------------------------------------------------------------


def resynchronise(core: Core, name: str, partner_luwid: bytes, partner_sequence: i64) -> None:
    """The partner has told what it has: every batch up to the one that it names has arrived, what is behind
    it goes back."""
    channel = _at_rest_sender(core, name)
    arrived = 0
    for at, batch in enumerate(channel.batches):
        if batch.luwid == partner_luwid:
            arrived = at + 1
    if arrived:
        channel.luwid, channel.sequence = partner_luwid, partner_sequence
        channel.reset_sequence = 0
        write_state(core, channel)
    _decide(core, channel, arrived)
    if partner_sequence != channel.sequence:
        raise ChannelSequenceError(
            f"channel {name!r}: the last message sent has number {channel.sequence}, the last one that the "
            f"partner has {partner_sequence}: find out why, then reset the channel"
        )


def _decide(core: Core, channel: Channel, arrived: int) -> None:
    """The first so many of its batches have arrived, the others have not."""
    decided = channel.batches
    channel.batches = []
    for batch in decided[:arrived]:
        batches.forward(core, batch)
    for batch in reversed(decided[arrived:]):
        batches.back_out(core, batch)


def resolve(core: Core, name: str, commit: bool) -> None:
    """Decide by hand about what is in doubt: it has arrived (``commit``), or goes back. Raises
    ChannelNotFound, ChannelInUse, NotAllowed, ChannelNotInDoubt."""
    channel = _at_rest_sender(core, name)
    if not channel.batches:
        raise ChannelNotInDoubt(f"channel {name!r} has no batch in doubt: there is nothing to resolve")
    if commit:
        for batch in channel.batches:
            channel.luwid = batch.luwid
            channel.sequence = batch.last_sequence or _after(channel, batch.count)
    _decide(core, channel, len(channel.batches) if commit else 0)
    write_state(core, channel)


def _after(channel: Channel, count: i64) -> i64:
    """The number of the last of ``count`` messages more: after a restart it is known by counting what is
    left, which leaves out what was not persistent."""
    wrap: i64 = channel.definition.sequence_wrap
    return channel.sequence if count == 0 else (channel.sequence + count - 1) % wrap + 1


def reset(core: Core, name: str, next_sequence: i64, ledger: str) -> None:
    """The next message has number ``next_sequence``. A sending end tells its partner at the next start; of a
    receiving one it counts for the partner of that ledger, "" all of them."""
    channel = find(core, name)
    check_sequence(channel, next_sequence)
    if channel.definition.sending:
        _check_at_rest(channel, "its sequence can't be reset")
        channel.sequence = next_sequence - 1
        channel.reset_sequence = next_sequence
        write_state(core, channel)
        return
    chosen = [one for one in channel.partners.values() if ledger in ("", one.ledger)]
    for partner in chosen:
        if partner.end is not None:
            raise ChannelInUse(f"channel {name!r} is running: its sequence can't be reset now; stop it first")
    for partner in chosen:
        partner.sequence = next_sequence - 1
        write_partner(core, channel, partner)
    if not ledger:
        channel.sequence = next_sequence - 1
        write_state(core, channel)


def check_sequence(channel: Channel, sequence: i64) -> None:
    """Raise DefinitionInvalid unless a message can have this number."""
    wrap = channel.definition.sequence_wrap
    if not 1 <= sequence <= wrap:
        raise DefinitionInvalid(
            f"channel {channel.name!r}: sequence number {sequence} must be 1 to {wrap} (sequence_wrap)",
            "sequence",
        )


def _at_rest_sender(core: Core, name: str) -> Channel:
    channel = find(core, name)
    if not channel.definition.sending:
        raise NotAllowed(f"channel {name!r} is a {channel.definition.type}: the sending end decides")
    if channel.sending is not None:
        raise ChannelInUse(f"channel {name!r} is running: stop it first")
    return channel


# --- restarts -------------------------------------------------------------------------------------


def restore(core: Core, recovered: "Recovered") -> dict[int, Batch]:
    """The channels from before the start, and their batches by their ids as holders."""
    channels = channels_of(core)
    for id, record in recovered.channels:
        definition = restored(ChannelDefinition, record)
        channels.by_name[definition.name] = Channel(id, definition)
    by_id = {int(channel.id): channel for channel in channels.by_name.values()}
    for id, state in recovered.channel_states:
        own = by_id.get(id)
        if own is not None:
            own.luwid = bytes.fromhex(state["luwid"])
            own.sequence = state["sequence"]
            own.reset_sequence = state.get("reset_sequence", 0)
            own.status = state.get("status", {})
        else:
            _restore_partner(core, id, state)
    for channel in channels.by_name.values():
        inhibit(core, channel.definition.transmission_queue)
    return _restore_batches(core, recovered)


def _restore_partner(core: Core, id: int, state: dict[str, Any]) -> None:
    channel = channels_of(core).by_name.get(state["channel"])
    if channel is not None:
        partner = Partner(id, state["queue_manager"], state["ledger"])
        partner.luwid = bytes.fromhex(state["luwid"])
        partner.sequence = state["sequence"]
        channel.partners[partner.ledger] = partner


def _restore_batches(core: Core, recovered: "Recovered") -> dict[int, Batch]:
    """Empty ones at first: `batches.restore_held` gives them what they held. One that had nothing but
    messages that a restart loses stays empty, and in doubt: it may have arrived, with its numbers."""
    found: dict[int, Batch] = {}
    for row in recovered.holders:
        if row.holder_kind == n.CHANNEL_BATCH:
            batch = Batch(row.holder, bytes.fromhex(row.detail["luwid"]))
            batch.recorded = True
            found[row.holder] = batch
            channels_of(core).by_name[str(row.detail["channel"])].batches.append(batch)
    return found
