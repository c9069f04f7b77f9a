"""A link on which a client receives: consumer of a queue, or browser of it.

Credit: the queue manager is told what the link may take now, less what it has already given and what has
not left yet, and never more than about `AHEAD_BYTES` of messages, so that one slow reader holds no memory
to speak of.
"""

import logging
from typing import Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import INVALID_FIELD, NOT_ALLOWED, TRANSACTION_UNKNOWN_ID, AmqpError
from postroom.amqp.extensions import EXCLUSIVE_PROPERTY, REDELIVERY_DELAY, XA_PROPERTY
from postroom.amqp.frames.outcomes import (
    RELEASED,
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.performatives import SND_MIXED, SND_SETTLED, SND_UNSETTLED, Attach, Source
from postroom.manager.kernel.consumer import Consumer, QueueReader
from postroom.manager.kernel.effects import PRESETTLED, Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.options import ConsumerOptions
from postroom.manager.kernel.transaction import Receipt, Transaction
from postroom.manager.queues.queue import Queue, Subscription
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.delivery_headers import message_payload
from postroom.server.links.dynamic_nodes import dynamic_nodes_of
from postroom.server.links.outcomes import apply_outcome, check_outcome
from postroom.server.links.terminus import ms_property, read_filters
from postroom.server.logs import log

AHEAD_BYTES: Final = 4 << 20
"""Messages given to one link and not yet sent, at about their size."""
FIRST_AVERAGE_BYTES: Final = 64 << 10
"""Taken as the size of a message before the first has been seen."""
TAG_BYTES: Final = 4
TAG_MASK: Final = 0xFFFF_FFFF


class Resumed:
    """A delivery of a suspended link that the client knows of, with the outcome that it has reached, if
    any.
    """

    def __init__(self, tag: bytes, delivery: WireDelivery, state: DeliveryState | None) -> None:
        self.tag: Final = tag
        self.entry: Final = delivery.context
        self.outcome: Final = outcome_in(state)


class OutgoingLink(BoundLink):
    """Between one `SenderLink` and one consumer."""

    def __init__(self, binding: ConnectionState, link: SenderLink, browse: bool, address: str) -> None:
        super().__init__(binding, link)
        self.link = link
        self.address = address
        self.browse: Final = browse
        self._queue: Queue | None = None
        self.reader: QueueReader | None = None
        """None before it is opened and after it is closed."""
        self.consumer: Consumer | None = None
        """The same, unless it is a browser."""
        self.dynamic = ""
        """The queue that was made for this link, "" where it wasn't."""
        self.presettled = False
        self.for_branches = False
        """Whether what it receives joins XA branches."""
        self._acknowledged: dict[Entry, None] = {}
        """For branches: accepted and settled by the client, without effect."""
        self._default_outcome: DeliveryState = RELEASED
        self._acquiring: Transaction | None = None
        """In which transaction what is sent is acquired (part 4, section 4.4.3); None in none."""
        self._acquired: dict[WireDelivery, Transaction] = {}
        """What was sent so, until the transaction is discharged."""
        self._when_sent: list[BoundLink] = []
        """Who wants to discharge such a transaction as soon as all of it has been sent."""
        self._held_answers: dict[int, Receipt] = {}
        """Deliveries whose outcome is in a transaction that is open, and not settled."""
        self._suspended = False
        self._kept: dict[bytes, WireDelivery] = {}
        """Suspended: what was sent and not settled then, by delivery tag."""
        self._resuming: list[Resumed] = []
        """Resumed: deliveries that the client knows of, to be spoken of as credit comes; the last first."""
        self._theirs: dict[bytes, DeliveryState | None] = {}
        self._used_up_at = 0
        """Value of ``consumer.assigned`` at which the credit last given to the queue manager is used up."""
        self._next_tag = 0
        self._sent = 0
        self._average_bytes = FIRST_AVERAGE_BYTES
        self._most_ahead = binding.broker.config.limits.deliveries_ahead
        self._manager = binding.broker.manager

    def open(self, queue: Queue, granted: Source, attach: Attach, now_us: int, selector: str = "") -> None:
        """Open the consumer. Raises `ManagerError` where the queue refuses it.

        ``selector`` is what it wants of a queue; a subscription has got only what it wants.
        """
        self._take_modes(granted)
        properties = attach.properties or {}
        self.for_branches = self._wants_branches(properties)
        if self.for_branches:
            self.properties = {XA_PROPERTY: True}
        options = ConsumerOptions(
            exclusive=properties.get(EXCLUSIVE_PROPERTY) is True,
            presettled=self.presettled,
            name=self.link.name,
            container=self.binding.container_id,
            user=self.binding.user,
            selector=selector,
            redelivery_delay_ms=ms_property(attach, REDELIVERY_DELAY, 0),
            xa=self.for_branches,
        )
        if self.browse:
            self.reader = self._manager.open_browser(queue, self, options, now_us)
        else:
            self.reader = self.consumer = self._manager.open_consumer(queue, self, options, now_us)
        self._queue = queue

    def _wants_branches(self, properties: dict[object, object]) -> bool:
        """Raises `AmqpError` where that is no boolean, or can't be."""
        wanted = properties.get(XA_PROPERTY, False)
        if not isinstance(wanted, bool):
            raise AmqpError(INVALID_FIELD, f"{XA_PROPERTY} is a boolean, not {wanted!r:.100}")
        if wanted and (self.browse or self.presettled):
            what = "a browser takes nothing" if self.browse else "what is sent settled can't join one"
            raise AmqpError(NOT_ALLOWED, f"a link for XA branches must get its messages unsettled: {what}")
        return wanted

    def _take_modes(self, granted: Source) -> None:
        mode = self.link.snd_settle_mode
        self.presettled = mode == SND_SETTLED or (self.browse and mode != SND_UNSETTLED)
        self._default_outcome = granted.default_outcome or RELEASED
        self.expiry_policy = granted.expiry_policy
        self.timeout_s = granted.timeout

    def confirmed(self, now_us: int) -> None:
        if self._suspended:
            self._take_up(now_us)
        self.credit_changed(now_us)

    # Credit.

    def credit_changed(self, now_us: int) -> None:
        if self._when_sent and self.link.pieces_waiting == 0:
            waiting, self._when_sent = self._when_sent, []
            for discharger in waiting:
                discharger.unblocked(now_us)
        if self.link.txn_id is not None or self._acquiring is not None:
            self._take_transaction()
        while self._resuming and self.link.credit > 0:
            self._send_resumed(self._resuming.pop())
        self.update_credit(now_us)

    def set_writable(self, now_us: int) -> None:
        self.update_credit(now_us)

    def refill(self, now_us: int) -> None:
        reader = self.reader
        if reader is not None and reader.credit * 2 < min(self._limit_ahead(), self.link.credit):
            self.update_credit(now_us)

    def update_credit(self, now_us: int) -> None:
        """Tell the queue manager how many more messages this link can take."""
        reader = self.reader
        if reader is None or self._suspended:
            return
        ahead = reader.assigned - self._sent
        room = self._limit_ahead() if self.binding.writable and not self._stands_still() else 0
        credit = max(0, min(self.link.usable_credit(), room) - ahead)
        self._used_up_at = reader.assigned + credit
        self._manager.set_credit(reader, credit, self.link.drain, now_us)

    def _limit_ahead(self) -> int:
        return max(1, min(self._most_ahead, AHEAD_BYTES // self._average_bytes))

    # Deliveries.

    def deliver(self, delivery: Delivery, now_us: int) -> None:
        self._sent += 1
        link = self.link
        entry = delivery.entry
        payload = message_payload(delivery, now_us)
        size_bytes = len(payload)
        self._average_bytes += (size_bytes - self._average_bytes) // 4
        if link.credit <= 0 or 0 < link.max_message_size_bytes < size_bytes:
            self._give_back(delivery, link.credit > 0, now_us)
            return
        if self._acquiring is not None and self._stands_still():
            self.update_credit(now_us)
            self._give_back(delivery, False, now_us)
            return
        tag = self._next_tag.to_bytes(TAG_BYTES, "big")
        self._next_tag = (self._next_tag + 1) & TAG_MASK
        if self._acquiring is None:
            link.send(payload, tag, self.presettled, 0, None, None if delivery.copied else entry)
        else:
            self._send_acquired(self._acquiring, payload, tag, entry)
        self.binding.messages_out += 1
        self.binding.wrote(self)

    def _give_back(self, delivery: Delivery, too_large: bool, now_us: int) -> None:
        """The peer has taken its credit back meanwhile, or doesn't take messages so large."""
        if delivery.copied or self.consumer is None:
            return
        if too_large:
            log(
                logging.WARNING,
                "message-too-large-for-link",
                link=self.link.name,
                serial=delivery.entry.serial,
            )
        self._settle_safely(
            Modified(undeliverable_here=True) if too_large else Released(), delivery.entry, now_us
        )

    # Acquisition in transactions.

    def may_acquire(self) -> bool:
        """Not copies, nor what is settled as it is sent, nor what is for branches, which take it at their
        end."""
        return not (self.browse or self.presettled or self.for_branches)

    def _take_transaction(self) -> None:
        """What the last flow says. An id that means nothing, or a branch, ends the link."""
        txn_id = self.link.txn_id
        self._acquiring = None if txn_id is None else self.binding.transactions.get(txn_id)
        if txn_id is None or self._acquiring is not None:
            return
        if txn_id in self.binding.branches:
            what = f"{txn_id.hex()} is a branch: what is received in it is said at its end, not in a flow"
            self.binding.end_link(self, Error(NOT_ALLOWED, what))
        else:
            what = f"there is no transaction {txn_id.hex()} on this connection"
            self.binding.end_link(self, Error(TRANSACTION_UNKNOWN_ID, what))

    def _stands_still(self) -> bool:
        """Whether its transaction can take nothing more, or is to be discharged when all is sent."""
        acquiring = self._acquiring
        return bool(self._when_sent) or (
            acquiring is not None and (acquiring.decided or acquiring.failed != "")
        )

    def _send_acquired(self, acquiring: Transaction, payload: bytes, tag: bytes, entry: Entry) -> None:
        consumer, txn_id = self.consumer, self.link.txn_id
        if consumer is None or txn_id is None:
            return
        delivery = self.link.send(payload, tag, False, 0, TransactionalState(txn_id), entry)
        acquiring.acquired[entry] = consumer
        self._acquired[delivery] = acquiring
        self.binding.acquired.setdefault(acquiring, {}).setdefault(self, []).append(delivery)

    def _given_inside(
        self, deliveries: list[WireDelivery], transaction: "Transaction | None", now_us: int
    ) -> list[WireDelivery]:
        """Those of which the outcome may be applied, given in ``transaction`` or in none."""
        if not self._acquired:
            return deliveries
        return [each for each in deliveries if self._is_inside(each, transaction, now_us)]

    def _is_inside(self, delivery: WireDelivery, transaction: "Transaction | None", now_us: int) -> bool:
        """An outcome must be in the open transaction in which its delivery was acquired (part 4, section
        4.4.4). Else it isn't applied, and neither transaction can be committed. Where that was rolled back
        before its discharge, the message has gone back, and may have come again."""
        acquiring = self._acquired.get(delivery)
        if acquiring is None:
            return True
        if acquiring.decided:
            self.link.settle(delivery.id, delivery.id, RELEASED)
            self.binding.touch()
            return False
        if acquiring is transaction:
            return True
        for each in (acquiring, transaction):
            if each is not None:
                why = "the outcome of a delivery that was acquired in a transaction was not given in that one"
                self._manager.spoil(each, why, now_us)
        return False

    def end_acquisition(self, transaction: Transaction, now_us: int) -> None:
        if self._acquiring is transaction:
            self._acquiring = None
            self.link.txn_id = None
            self.update_credit(now_us)

    def waits_to_send(self) -> bool:
        return self.link.pieces_waiting > 0

    def notify_when_sent(self, discharger: BoundLink) -> None:
        self._when_sent.append(discharger)
        self.link.notifies_when_sent = True
        self.update_credit(self._manager.core.now_us)

    def acquisition_decided(self, deliveries: list[WireDelivery], committed: bool) -> None:
        """Their transaction is over. Committed, those without an outcome go on as any other delivery; else
        they have gone back, and the client hears so."""
        for delivery in deliveries:
            self._acquired.pop(delivery, None)
        if committed or self.consumer is None:
            return
        for delivery in deliveries:
            if not delivery.settled:
                self.link.settle(delivery.id, delivery.id, RELEASED)
        self.binding.touch()

    def _leave_acquisitions(self) -> None:
        """The link is resumed: what it had goes its own way from now on."""
        for delivery, transaction in self._acquired.items():
            if isinstance(delivery.context, Entry):
                transaction.acquired.pop(delivery.context, None)
        self._acquired.clear()
        self._acquiring = None
        for acquired in self.binding.acquired.values():
            acquired.pop(self, None)

    # Outcomes.

    def disposed(
        self, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool, now_us: int
    ) -> None:
        """The client says what becomes of ``deliveries``; where it hasn't settled, it is answered when
        durable.
        """
        if self.reader is None:
            self.binding.outcome_too_late(self.link, deliveries, state, settled, now_us)
            return
        if isinstance(state, Received) or (state is None and not settled) or self._is_refused(state):
            return
        consumer = self.consumer
        if consumer is None:
            self._answer_copies(deliveries, state, settled)
            return
        transaction = None
        if isinstance(state, TransactionalState):
            transaction = self.binding.transaction(state.txn_id)
            if transaction is None:
                self._unknown_transaction(state, now_us)
                return
            state = state.outcome
            if state is None and not settled:
                return  # it belongs to the transaction, and has no outcome yet
        for delivery in self._given_inside(deliveries, transaction, now_us):
            entry = delivery.context
            if isinstance(entry, Entry):
                if self.for_branches and transaction is None and _accepts(state or self._default_outcome):
                    self._acknowledge(delivery, entry, settled)
                elif isinstance(entry.owner, Transaction):
                    self._dispose_again(int(delivery.id), entry.owner, settled, transaction, now_us)
                else:
                    outcome = state or self._default_outcome
                    self._dispose(consumer, delivery, outcome, entry, settled, transaction, now_us)
            elif not settled:  # of a resumed delivery, whose outcome was applied
                self.link.settle(delivery.id, delivery.id)
                self.binding.touch()

    def _is_refused(self, state: DeliveryState | None) -> bool:
        """An outcome that is none ends the link."""
        try:
            check_outcome(state.outcome if isinstance(state, TransactionalState) else state)
            return False
        except AmqpError as error:
            self.binding.end_link(self, Error(error.condition, error.description))
            return True

    def _dispose(
        self,
        consumer: Consumer,
        delivery: WireDelivery,
        state: DeliveryState,
        entry: Entry,
        settled: bool,
        transaction: "Transaction | None",
        now_us: int,
    ) -> None:
        if settled or transaction is None:
            if self._held_answers:
                self._held_answers.pop(int(delivery.id), None)  # of a transaction that was rolled back
            token = PRESETTLED if settled else int(delivery.id)
            self._apply(consumer, state, entry, now_us, token, transaction)
            return
        self._apply(consumer, state, entry, now_us, int(delivery.id), transaction)
        if entry.owner is transaction:
            self._hold_answer(int(delivery.id), transaction)

    def _dispose_again(
        self, delivery_id: int, owner: Transaction, settled: bool, other: "Transaction | None", now_us: int
    ) -> None:
        """Its outcome is in an open transaction, and stays as it is. Settling it now says that after a
        rollback it is to go back; an outcome in another transaction spoils that one."""
        receipt = self._held_answers.get(delivery_id)
        if receipt is not None and settled:
            receipt.settled = True
        if other is not None and other is not owner:
            why = "a delivery was disposed of in it whose outcome is in another open transaction"
            self._manager.spoil(other, why, now_us)

    def _unknown_transaction(self, state: TransactionalState, now_us: int) -> None:
        self.close(False, now_us)
        self.ended(TRANSACTION_UNKNOWN_ID, f"there is no transaction {state.txn_id.hex()} on this connection")

    def _apply(
        self,
        consumer: Consumer,
        state: DeliveryState,
        entry: Entry,
        now_us: int,
        token: int,
        transaction: "Transaction | None",
    ) -> None:
        try:
            apply_outcome(self._manager, consumer, state, entry, now_us, token, transaction)
        except ManagerError as error:
            if transaction is not None:
                self._not_in(transaction, entry, error, now_us, token)
            else:
                self._too_late(error, token)

    def _not_in(
        self, transaction: Transaction, entry: Entry, error: ManagerError, now_us: int, token: int
    ) -> None:
        """The transaction doesn't take the outcome, so it can only be rolled back; with that a delivery that
        is settled goes back, if it is still here, another one stays."""
        self._manager.spoil(transaction, error.description, now_us, error.condition)
        if token == PRESETTLED and entry.owner is self.consumer:
            self._settle_safely(Modified(delivery_failed=True), entry, now_us)

    def _too_late(self, error: ManagerError, token: int) -> None:
        """The entry is not this consumer's any more (it expired, was deleted, the link was suspended)."""
        log(logging.DEBUG, "outcome-without-effect", link=self.link.name, reason=error.description)
        if token != PRESETTLED:
            self.binding.broker.after_durable(self.binding, lambda _: self.settled(token, token))

    def _settle_safely(self, state: DeliveryState, entry: Entry, now_us: int) -> None:
        if self.consumer is not None:
            self._apply(self.consumer, state, entry, now_us, PRESETTLED, None)

    def _answer_copies(
        self, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool
    ) -> None:
        """A browser's outcomes change nothing; a browser that waits for an answer gets it."""
        if not settled:
            for delivery in deliveries:
                self.link.settle(delivery.id, delivery.id, state)
            self.binding.touch()

    def settled(self, first: int, last: int) -> None:
        if self.answers_elsewhere:
            return
        if not self._held_answers:
            self.link.settle(first, last)
        else:
            for delivery_id in range(first, last + 1):
                if delivery_id not in self._held_answers:
                    self.link.settle(delivery_id, delivery_id)
        self.binding.touch()

    # XA.

    def _acknowledge(self, delivery: WireDelivery, entry: Entry, settled: bool) -> None:
        """Accepted on a link for branches: that is for the branch's commit to do."""
        if entry.owner is self.consumer:
            self._acknowledged[entry] = None
        if not settled:
            self.link.settle(delivery.id, delivery.id)
            self.binding.touch()

    def unsettled_now(self) -> list[WireDelivery]:
        """What has been sent and is not settled, in order."""
        return self.link.session.deliveries.outgoing_of(self.link)

    def received_for_branch(self) -> list[tuple[Consumer, Entry]]:
        """What has been received and not disposed of, in order."""
        consumer = self.consumer
        if consumer is None:
            return []
        self._acknowledged = {entry: None for entry in self._acknowledged if entry.owner is consumer}
        sent = [delivery.context for delivery in self.unsettled_now()]
        entries = [entry for entry in [*self._acknowledged, *sent] if isinstance(entry, Entry)]
        return [(consumer, entry) for entry in entries if entry.owner is consumer]

    def _hold_answer(self, delivery_id: int, transaction: Transaction) -> None:
        """An outcome in a transaction is answered when it is committed (part 4, section 4.4.3)."""
        self._held_answers[delivery_id] = transaction.receipts[-1]
        retired = self.binding.retired.setdefault(transaction, {})
        retired.setdefault(self, []).append(delivery_id)

    def decided(self, delivery_ids: list[int], committed: bool) -> None:
        for delivery_id in delivery_ids:
            self._held_answers.pop(delivery_id, None)
        if committed and self.consumer is not None:
            for delivery_id in delivery_ids:
                self.link.settle(delivery_id, delivery_id)
            self.binding.touch()

    # Ends.

    def _node_left(self, now_us: int) -> None:
        dynamic_nodes_of(self.binding.broker).link_closed(self.address, bool(self.dynamic), now_us)

    def drained(self) -> None:
        reader = self.reader
        if reader is not None and reader.assigned >= self._used_up_at and self.link.credit > 0:
            self.binding.wrote(self)  # it was given less credit than the link has: there may be more to send
            return
        self.link.drained()
        self.binding.touch()

    def ended(self, condition: str, description: str) -> None:
        self.reader = self.consumer = None
        self.link.detach(closed=True, error=Error(condition, description))
        self.binding.forget_link(self.link)
        self._node_left(self._manager.core.now_us)
        self.binding.touch()

    # Suspension.

    def suspend(self, unsettled: list[WireDelivery], timeout_us: int, now_us: int) -> bool:
        consumer = self.consumer
        if consumer is None or self.for_branches:
            return False
        if isinstance(consumer.queue, Subscription) and consumer.queue.durable:
            return False  # the subscription stays, with what the link held
        if not self._suspended:
            if not self._manager.suspend_consumer(consumer, timeout_us, now_us):
                return False
            self._suspended = True
            self._kept = {each.tag: each for each in unsettled if isinstance(each.context, Entry)}
        return True

    def of_topic(self) -> bool:
        """Whether the link is a subscriber's: attached to a topic, not to a subscription by its own name."""
        queue = self._queue
        return isinstance(queue, Subscription) and queue.name != self.address

    def may_resume(self, attach: Attach) -> bool:
        """Whether the client's attach takes this link up, rather than beginning anew under its name."""
        source = attach.source
        address = "" if source is None else self._manager.names.local(source.address or "")
        same = source is None or (address == self.address and not source.dynamic and self._selects_as(source))
        return self.reader is not None and attach.unsettled is not None and same

    def _selects_as(self, source: Source) -> bool:
        """Whether the selector asked for is the one that it has; that of a subscription is the subscription's
        business."""
        reader = self.reader
        if reader is None or self.of_topic():
            return True
        return read_filters(source).selector == reader.options.selector

    def resume(
        self,
        binding: ConnectionState,
        link: SenderLink,
        granted: Source,
        theirs: dict[bytes, DeliveryState | None],
    ) -> None:
        """The link is attached again, on ``link``; ``theirs`` is the client's unsettled map.

        What was held is taken up when the attach is answered: by then every effect of the time before has
        passed.
        """
        for retired in self.binding.retired.values():
            retired.pop(self, None)
        self._held_answers.clear()
        self._leave_acquisitions()
        self.move_to(binding, link)
        self.link = link
        self._take_modes(granted)
        self._theirs = theirs

    def unsettled_map(self) -> dict[bytes, DeliveryState | None] | None:
        if not self._suspended:
            return None
        return {tag: outcome_in(delivery.state) for tag, delivery in self._unsettled().items()}

    def _unsettled(self) -> dict[bytes, WireDelivery]:
        """Of what was kept: what has not been settled on the detached link meanwhile."""
        return {tag: delivery for tag, delivery in self._kept.items() if not delivery.settled}

    def _take_up(self, now_us: int) -> None:
        """Deliveries that the client doesn't know, or has no outcome for, go back; outcomes that it has
        reached are applied (part 2, section 2.6.13).
        """
        consumer = self.consumer
        self._suspended = self.answers_elsewhere = False
        kept, self._kept = self._unsettled(), {}
        if consumer is None:
            return
        held = self._manager.resume_consumer(consumer, self, now_us)
        self._sent = consumer.assigned
        resuming = [Resumed(tag, kept[tag], state) for tag, state in self._theirs.items() if tag in kept]
        sent = {delivery.context for delivery in kept.values()}
        for resumed in resuming:
            if resumed.outcome is not None and isinstance(resumed.entry, Entry):
                self._settle_safely(resumed.outcome, resumed.entry, now_us)
        for entry in held:
            self._give_up(entry, entry in sent, now_us)
        link = self.link
        self.binding.broker.after_durable(
            self.binding, lambda later_us: self._speak_of(link, resuming, later_us)
        )

    def _speak_of(self, link: SenderLink, resuming: list[Resumed], now_us: int) -> None:
        """What was taken up is durable: the client may hear of it."""
        if self.link is link and not self._suspended:
            self._resuming = resuming[::-1]
            self.credit_changed(now_us)

    def _send_resumed(self, resumed: Resumed) -> None:
        """An outcome that was applied is confirmed. Another delivery is aborted: it has gone back to its
        place in the queue, and comes again as a new one.
        """
        link = self.link
        if resumed.outcome is not None:
            settled = link.snd_settle_mode == SND_MIXED
            link.send(b"", resumed.tag, settled, 0, resumed.outcome, None, False, True)
        else:
            link.abort(link.send(b"", resumed.tag, False, 0, None, None, True, True))
        self.binding.touch()

    def _give_up(self, entry: Entry, was_sent: bool, now_us: int) -> None:
        if self.consumer is not None and entry.owner is self.consumer:
            self._settle_safely(Modified(delivery_failed=True) if was_sent else RELEASED, entry, now_us)

    def close(self, lost: bool, now_us: int) -> None:
        """The link is gone for good: what it holds goes back to the queue."""
        reader, self.reader, self.consumer = self.reader, None, None
        if reader is not None:
            self._manager.close_reader(reader, now_us, lost)
        self._node_left(now_us)

    def end_terminus(self, now_us: int) -> None:
        """The client has closed the link: a durable subscription ends, unless another consumer has it."""
        queue = self._queue
        if queue is not None and self.of_topic() and not queue.deleted:
            self._manager.forsake(queue, now_us)


def outcome_in(state: DeliveryState | None) -> DeliveryState | None:
    """The state, if it is an outcome; None for what is not decided, or not outside of a transaction."""
    return state if isinstance(state, (Accepted, Released, Rejected, Modified)) else None


def _accepts(state: DeliveryState) -> bool:
    return isinstance(state, Accepted)
