"""A channel that receives: the batch is a transaction that is committed with the partner's LUWID in one
block.

It doesn't wait for room: what can't be put is said to be undelivered, and why.
"""

import json
from typing import Final

from mypy_extensions import i64

from postroom.amqp.message.rewrite import user_id_of
from postroom.manager.channels import registry as channels
from postroom.manager.channels.channel import Caller, Channel, Partner, ReceivingEnd, channels_of
from postroom.manager.headers.transmission_header import TransmissionHeader, take_transmission
from postroom.manager.kernel import overrides
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker, Reply
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_available
from postroom.manager.kernel.errors import ChannelInUse, LimitExceeded, NotAllowed
from postroom.manager.kernel.memory import admit
from postroom.manager.kernel.transaction import Transaction, check_open, make_room
from postroom.manager.names.name_resolution import names_of
from postroom.manager.producing import discard, report_checks
from postroom.manager.producing.put import (
    Message,
    message_of,
    new_entry,
    put_in_transaction,
    refusal_of,
    store,
)
from postroom.manager.queues import duplicate_detection as duplicates
from postroom.manager.queues.queue import Queue
from postroom.manager.security.principals import principals_of
from postroom.manager.transactions import commit as transactions
from postroom.model import numbers as n
from postroom.model.channel import AUTHORITY_CONTEXT
from postroom.model.message import MessageHead
from postroom.model.mq import Feedback, Reason, Undelivered
from postroom.model.rights import Right, Rights

DUPLICATE: Final = "postroom:duplicate"
"""Why a message was discarded whose id its queue had taken before (duplicate_window)."""

_NO_HEADER: Final = int(Feedback.XMIT_Q_MSG_ERROR)
_NOT_AUTHORIZED: Final = int(Reason.NOT_AUTHORIZED)


# --- coming and going -----------------------------------------------------------------------------


def open_receiving(
    core: Core, name: str, queue_manager: str, ledger: str, reset_sequence: i64, caller: Caller
) -> ReceivingEnd:
    """A partner, known by its ledger's id, sends by this channel from now on, with ``reset_sequence`` as its
    next number if it isn't 0; it puts as ``caller``, unless the definition says another user. Raises
    ChannelNotFound, NotAllowed, ChannelInUse, LimitExceeded, DefinitionInvalid."""
    channel = channels.find(core, name)
    if channel.definition.sending:
        raise NotAllowed(f"channel {name!r} is a {channel.definition.type}: it doesn't receive")
    if queue_manager == core.options.queue_manager:
        raise NotAllowed(f"channel {name!r}: queue manager {queue_manager!r} has this one's own name")
    partner = _partner(core, channel, queue_manager, ledger)
    if partner.end is not None:
        raise ChannelInUse(f"channel {name!r} receives from queue manager {queue_manager!r} already")
    if partner.committed > core.durability.through:
        # What the partner hears of the last batch makes it forget that.
        raise ChannelInUse(f"channel {name!r}: the last batch is still on its way to the disk: call again")
    if reset_sequence != 0:
        channels.check_sequence(channel, reset_sequence)
        partner.sequence = reset_sequence - 1
        channels.write_partner(core, channel, partner)
    in_name_of = Caller(channel.definition.user) if channel.definition.user else caller
    producer = Producer(core.holders.ids.take(), name, queue_manager, in_name_of.user, 0)
    producer.channel, producer.queue_manager, producer.ledger = name, queue_manager, ledger
    end = ReceivingEnd(channel, partner, producer, _new_transaction(core), in_name_of.roles)
    partner.end = end
    return end


def _partner(core: Core, channel: Channel, queue_manager: str, ledger: str) -> Partner:
    partner = channel.partners.get(ledger)
    if partner is None:
        limit = core.options.max_channel_partners
        if len(channel.partners) >= limit:
            raise LimitExceeded(
                f"channel {channel.name!r} knows {limit} partners, its limit (max_channel_partners): delete "
                "and define it anew to forget them"
            )
        partner = channel.partners[ledger] = Partner(core.holders.ids.take(), queue_manager, ledger)
        partner.sequence = channel.sequence
    partner.queue_manager = queue_manager
    return partner


def _new_transaction(core: Core) -> Transaction:
    limit = core.options.max_transaction_entries
    return Transaction(core.holders.ids.take(), core.now_us, n.LOCAL_TRANSACTION, limit, b"")


def close(core: Core, end: ReceivingEnd) -> None:
    """The partner is gone, and with it what it had not had committed."""
    if end.closed:
        return
    roll_back(core, end)
    end.closed = True
    end.partner.end = None
    core.holders.close_producer(end.producer)
    end.producer.closed = True


# --- messages -------------------------------------------------------------------------------------


def receive(
    core: Core,
    end: ReceivingEnd,
    head: MessageHead,
    body: bytes,
    sequence: i64,
    origin_serial: i64,
    fast: bool,
    named: TransmissionHeader | None,
) -> Undelivered | None:
    """Put a message where its transmission header, or ``named``, says: in the batch, or (``fast``) at once.
    Why not, if it can't be now. Raises as `commit.make_room`."""
    header, stored = take_transmission(body)
    if named is not None:
        header = named
    if header is None:
        why = "it has no transmission header that says where it is to go"
        return Undelivered(_NO_HEADER, "", core.options.queue_manager, why)
    found = names_of(core).resolve(header.queue, header.queue_manager)
    if isinstance(found, Undelivered):
        return found
    sections = names_of(core).onward(found, header, stored)
    if isinstance(sections, Undelivered):
        return sections
    queue = found.queue
    in_name_of = _in_name_of(end, stored)
    if in_name_of.user and not _rights_of(core, in_name_of).on(Right.PUT, header.queue):
        why = f"user {in_name_of.user!r} has no right 'put' on {header.queue!r}"
        return Undelivered(_NOT_AUTHORIZED, header.queue, header.queue_manager, why)
    head.delivery_delay_ms = 0  # it has waited for that where it was put first
    sections = _overridden(core, queue, head, sections)
    reason = refusal_of(core, queue, head, len(sections))
    if reason is not None:
        return Undelivered(reason[0], header.queue, header.queue_manager, reason[1])
    if head.report != 0:
        unfit_options = report_checks.unfit_options(queue, head, sections)
        if unfit_options is not None:
            return Undelivered(
                unfit_options.reason, header.queue, header.queue_manager, unfit_options.description
            )
    if queue.duplicates is not None and (
        duplicates.is_in(end.transaction, queue, head) or duplicates.drops(core, queue, head, None)
    ):
        _drop(core, end, queue, head, sequence, origin_serial, fast)
        return None
    put_on(core, end, queue, head, sections, sequence, origin_serial, fast)
    return None


def _in_name_of(end: ReceivingEnd, stored: bytes) -> Caller:
    """Who must have the right to put a message; of user "" nobody (PUTAUT and MCAUSER of IBM MQ)."""
    if end.channel.definition.put_authority == AUTHORITY_CONTEXT:
        user = user_id_of(stored)
        if user:
            return Caller(user)
    return Caller(end.producer.user, end.roles)


def _rights_of(core: Core, who: Caller) -> Rights:
    return principals_of(core).rights_of(who.user, who.roles)


def _drop(
    core: Core,
    end: ReceivingEnd,
    queue: Queue,
    head: MessageHead,
    sequence: i64,
    origin_serial: i64,
    fast: bool,
) -> None:
    """It has been put before: the ledger is told that it came, and that it was one too many."""
    detail = json.dumps({"condition": DUPLICATE, "queue": queue.name}, ensure_ascii=False).encode()
    aside, bare = discard.queue_for_undelivered(core), discard.bare_head(head)
    if fast:
        entry = put_aside(core, end, aside, bare, discard.NO_BODY, origin_serial)
        discard.end(core, entry, n.EVENT_DISCARD, detail)
    else:
        entry = put_in_batch(core, end, aside, bare, discard.NO_BODY, sequence, origin_serial)
        end.transaction.disposals[entry] = discard.Ending(n.EVENT_DISCARD, detail)


def _overridden(core: Core, queue: Queue, head: MessageHead, body: bytes) -> bytes:
    """The message as its destination wants it."""
    wanted = queue.overrides
    if wanted is None:
        return body
    overrides.apply(core.now_us, wanted, head)
    return overrides.with_delivery_time(core.now_us, head, body) if wanted.bears else body


def put_on(
    core: Core,
    end: ReceivingEnd,
    queue: Queue,
    head: MessageHead,
    body: bytes,
    sequence: i64,
    origin_serial: i64,
    fast: bool,
) -> None:
    """Put a received message on this very queue, whatever its limits: in the batch, or (``fast``) at once.
    Raises as `commit.make_room`."""
    if not fast:
        put_in_batch(core, end, queue, head, body, sequence, origin_serial)
        return
    producer = _of_origin(end, origin_serial, 0)
    try:
        store(core, producer, queue, message_of(core, producer, head, body))
    finally:
        producer.receives = False
    core.agenda.woken.append(queue)


def put_in_batch(
    core: Core,
    end: ReceivingEnd,
    queue: Queue,
    head: MessageHead,
    body: bytes,
    sequence: i64,
    origin_serial: i64,
) -> Entry:
    """The same in the batch: returns the entry, for ``end.transaction.disposals``."""
    first = core.ledger.next_position
    producer = _of_origin(end, origin_serial, sequence)
    try:
        make_room(core, end.transaction)
        message = message_of(core, producer, head, body)
        entry = put_in_transaction(core, end.transaction, producer, queue, message)
    finally:
        producer.receives = False
    core.durability.provisional(first)
    return entry


def put_aside(
    core: Core, end: ReceivingEnd, queue: Queue, head: MessageHead, body: bytes, origin_serial: i64
) -> Entry:
    """A fast message that is not to become available to others: it is by the books, and the object that is
    returned is in no order. The caller ends it, or has it go elsewhere, before the command is over."""
    producer = _of_origin(end, origin_serial, 0)
    try:
        entry = new_entry(core, producer, queue, Message(head, body), 0, None)
    finally:
        producer.receives = False
    begin_available(entry)
    admit(core, entry)
    return entry


def _of_origin(end: ReceivingEnd, origin_serial: i64, sequence: i64) -> Producer:
    """The end's producer, about to put the message that has this serial in its sender's ledger."""
    producer = end.producer
    producer.receives = True
    producer.origin_serial, producer.sequence = origin_serial, sequence
    return producer


# --- batches --------------------------------------------------------------------------------------


def commit(core: Core, end: ReceivingEnd, luwid: bytes, sequence: i64, target: Asker) -> None:
    """The batch is whole: one block says what has arrived, and the LUWID by which the partner asks for it.
    Answered by a `Reply` with that LUWID. Raises TransactionRolledBack, the batch rolled back."""
    transaction = end.transaction
    _check(end)
    if not transaction.failed and duplicates.has_twin(transaction):
        transaction.failed = duplicates.HAS_TWIN
    if transaction.failed:
        roll_back(core, end)
    check_open(transaction)
    transactions.decide_for(core, transaction)
    transactions.close(core, transaction)
    end.transaction = _new_transaction(core)
    end.partner.luwid, end.partner.sequence = luwid, sequence
    end.partner.committed = channels.write_partner(core, end.channel, end.partner)
    core.effects.replies.append(Reply(target, luwid))


def roll_back(core: Core, end: ReceivingEnd) -> None:
    """Nothing of the batch has arrived: the partner still has it."""
    transaction = end.transaction
    _check(end)
    transactions.decide_against(core, transaction, n.EVENT_LINK_LOST)
    transactions.close(core, transaction)
    end.transaction = _new_transaction(core)


def lose(core: Core, transaction: Transaction, why: str) -> None:
    """Of the batch that is arriving in this transaction something is taken away: the partner is refused its
    commit, and sends all of it again."""
    for channel in channels_of(core).by_name.values():
        for partner in channel.partners.values():
            end = partner.end
            if end is not None and end.transaction is transaction:
                roll_back(core, end)
                end.transaction.failed = why
                return


def _check(end: ReceivingEnd) -> None:
    if end.closed:
        raise NotAllowed(f"channel {end.channel.name!r}: this end has been closed")
