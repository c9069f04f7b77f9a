"""The channels of one queue manager, and both their ends, for those who run them.

What a channel is, `model.channel` says; how its batches survive whatever fails, `manager.channel`. Whoever
runs one (a message channel agent) opens an end here, and carries what comes from one end to the other.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.channels import receiving_end, sending_end, undelivered
from postroom.manager.channels import registry as channels
from postroom.manager.channels.channel import (
    NOBODY_ELSE,
    Batch,
    Caller,
    Channel,
    ChannelSync,
    ReceivingEnd,
    SendingEnd,
    channels_of,
)
from postroom.manager.channels.undelivered import Action, ReceivedMessage
from postroom.manager.headers.transmission_header import TransmissionHeader
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker, Sink
from postroom.manager.kernel.entry import Entry
from postroom.manager.turn import Command
from postroom.model.channel import ChannelDefinition
from postroom.model.message import MessageHead
from postroom.model.mq import Undelivered


@final
class ChannelService:
    """Channels by name, and their ends."""

    def __init__(self, core: Core) -> None:
        self._core: Final = core
        self.by_name: Final = channels_of(core).by_name

    # -- definitions and states

    def define(self, definition: ChannelDefinition, now_us: i64) -> Channel:
        """Make a channel; the same definition again returns the one that is there. Raises ChannelExists,
        DefinitionInvalid, LimitExceeded."""
        self._core.begin(now_us)
        return channels.define(self._core, definition)

    def alter(self, definition: ChannelDefinition, now_us: i64) -> Channel:
        """Give the channel of that name another definition; a running one goes by it from its next start on.
        Raises ChannelNotFound, DefinitionInvalid, ChannelInUse."""
        with Command(self._core, now_us):
            return channels.alter(self._core, definition)

    def delete(self, name: str, now_us: i64) -> None:
        """Forget a channel that neither runs nor has a batch in doubt. Raises ChannelNotFound,
        ChannelInUse."""
        with Command(self._core, now_us):
            channels.delete(self._core, name)

    def set_status(self, name: str, status: dict[str, object], now_us: i64) -> None:
        """What must survive of a channel's state, as JSON-able values; it is `Channel.status`.

        While ``status["state"]`` is "stopped", the transmission queue of a sending channel gives nothing
        out. Raises ChannelNotFound.
        """
        with Command(self._core, now_us):
            channels.set_status(self._core, name, status)

    def sync(self, name: str, ledger: str = "") -> ChannelSync:
        """How far a channel has come; of a receiving one with the partner of that ledger, "" the one that
        was added last. Raises ChannelNotFound."""
        return channels.sync_of(self._core, name, ledger)

    # -- after a failure

    def resynchronise(self, name: str, partner_luwid: bytes, partner_sequence: i64, now_us: i64) -> None:
        """Before a channel sends: the partner has told its last LUWID and sequence number. Every batch up to
        the one that it names has arrived, what is behind it goes back.

        Raises ChannelSequenceError if the numbers differ all the same; ChannelNotFound, ChannelInUse,
        NotAllowed.
        """
        with Command(self._core, now_us):
            channels.resynchronise(self._core, name, partner_luwid, partner_sequence)

    def resolve(self, name: str, commit: bool, now_us: i64) -> None:
        """Decide by hand about what is in doubt: it has arrived (``commit``), or goes back. Raises
        ChannelNotFound, ChannelInUse, NotAllowed, ChannelNotInDoubt."""
        with Command(self._core, now_us):
            channels.resolve(self._core, name, commit)

    def reset(self, name: str, next_sequence: i64, now_us: i64, ledger: str = "") -> None:
        """Have the next message be number ``next_sequence``; the partner hears of it from a sending end. Of a
        receiving one: for the partner of that ledger, "" for all. Raises ChannelNotFound, ChannelInUse,
        DefinitionInvalid."""
        with Command(self._core, now_us):
            channels.reset(self._core, name, next_sequence, ledger)

    # -- sending

    def open_sending(self, name: str, sink: Sink, now_us: i64) -> SendingEnd:
        """Bind a channel to its transmission queue. Deliveries come by effect, with ``delivery.consumer`` the
        end's. Raises ChannelNotFound, NotAllowed, ChannelInUse, QueueNotFound, AccessRefused."""
        with Command(self._core, now_us):
            return sending_end.open_sending(self._core, name, sink)

    def set_sending_credit(self, end: SendingEnd, count: i64, now_us: i64) -> None:
        """It can take ``count`` messages now. Raises LimitExceeded where a batch would be too large."""
        with Command(self._core, now_us):
            sending_end.set_credit(self._core, end, count)

    def is_empty(self, end: SendingEnd) -> bool:
        """Whether its transmission queue has nothing for it now."""
        return sending_end.is_empty(end)

    def end_batch(self, end: SendingEnd, last_sequence: i64, now_us: i64) -> Batch:
        """The oldest batch that isn't ended is whole, and its last message has that number: its confirmation
        is about to be asked.

        Unless ``end.batch_size`` has begun another one since, what is taken from now on belongs to the next;
        every delivery that was taken (``end.consumer.assigned``) must have come then. Several batches may be
        in doubt; they are confirmed in their order.
        """
        self._core.begin(now_us)
        return sending_end.end_batch(self._core, end, last_sequence)

    def confirm_batch(self, end: SendingEnd, batch: Batch, now_us: i64) -> None:
        """The partner has the batch. Raises NotAllowed if it is not the oldest in doubt."""
        with Command(self._core, now_us):
            sending_end.confirm(self._core, end, batch)

    def forward_outside(self, end: SendingEnd, entries: list[Entry], now_us: i64) -> None:
        """The partner has taken these messages, which are in no batch; or nobody will ever know. Raises
        NotAllowed."""
        with Command(self._core, now_us):
            sending_end.forward_outside(self._core, end, entries)

    def refuse_sending(
        self,
        end: SendingEnd,
        action: Action,
        entry: Entry,
        message: ReceivedMessage,
        why: Undelivered,
        now_us: i64,
    ) -> Undelivered | None:
        """``entry``, in one of the end's batches or outside of them, can't travel for the reason ``why``: do
        ``action``, as `put_undelivered` does at a receiving end. Raises NotAllowed."""
        with Command(self._core, now_us):
            return undelivered.refuse(self._core, end, action, entry, message, why)

    def close_sending(self, end: SendingEnd, now_us: i64, refused: bool = False) -> None:
        """It sends no more: the batch of which no confirmation was asked goes back, and what is held outside
        of batches; those in doubt are kept, unless the partner has said that it has none of them
        (``refused``)."""
        with Command(self._core, now_us):
            sending_end.close(self._core, end, refused)

    def close_partly(self, end: SendingEnd, arrived: set[Entry], last_sequence: i64, now_us: i64) -> None:
        """It sends no more, to a foreign partner: what has arrived of its batches is forwarded, the last one
        having that number, and everything else goes back."""
        with Command(self._core, now_us):
            sending_end.close_partly(self._core, end, arrived, last_sequence)

    # -- receiving

    def open_receiving(
        self,
        name: str,
        queue_manager: str,
        ledger: str,
        now_us: i64,
        reset_sequence: i64 = 0,
        caller: Caller = NOBODY_ELSE,
    ) -> ReceivingEnd:
        """A partner, known by its ledger's id in hex, sends by this channel from now on; ``last_luwid`` and
        ``last_sequence`` of the end are what it is told. ``reset_sequence``: it says that the next message
        has this number; 0 nothing. Puts are in the name of ``caller``, unless the definition says another.

        Raises ChannelNotFound, NotAllowed, ChannelInUse, LimitExceeded, DefinitionInvalid.
        """
        self._core.begin(now_us)
        return receiving_end.open_receiving(self._core, name, queue_manager, ledger, reset_sequence, caller)

    def receive(
        self,
        end: ReceivingEnd,
        head: MessageHead,
        body: bytes,
        sequence: i64,
        origin_serial: i64,
        fast: bool,
        now_us: i64,
        header: TransmissionHeader | None = None,
    ) -> Undelivered | None:
        """A message has come: ``body`` as for `put`, with its transmission header. It is put in the batch, or
        (``fast``: non-persistent, outside of batches, without number) at once; never does it wait. Returns
        why it couldn't be put. ``header``: where it is to go instead, of a partner that sends none. Raises
        NotAllowed, LimitExceeded."""
        with Command(self._core, now_us):
            return receiving_end.receive(self._core, end, head, body, sequence, origin_serial, fast, header)

    def put_undelivered(
        self, end: ReceivingEnd, action: Action, message: ReceivedMessage, why: Undelivered, now_us: i64
    ) -> Undelivered | None:
        """Do what is to be done about a message that `receive` could not put, in its batch (fast: at once);
        why the report or dead letter that this is could not be put either. Raises NotAllowed,
        LimitExceeded."""
        with Command(self._core, now_us):
            return undelivered.put_undelivered(self._core, end, action, message, why)

    def commit_received(
        self, end: ReceivingEnd, luwid: bytes, sequence: i64, target: Asker, now_us: i64
    ) -> None:
        """The batch of that LUWID is whole, its last number is ``sequence``: ``target`` gets the LUWID as
        the answer when that is durable. Raises TransactionRolledBack, the batch rolled back."""
        with Command(self._core, now_us):
            receiving_end.commit(self._core, end, luwid, sequence, target)

    def roll_back_received(self, end: ReceivingEnd, now_us: i64) -> None:
        """Nothing of the batch that is being received has arrived."""
        with Command(self._core, now_us):
            receiving_end.roll_back(self._core, end)

    def close_receiving(self, end: ReceivingEnd, now_us: i64) -> None:
        """The partner is gone, and with it what it had not had committed."""
        with Command(self._core, now_us):
            receiving_end.close(self._core, end)
