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
from postroom.amqp.errors import TRANSACTION_UNKNOWN_ID, AmqpError
from postroom.amqp.extensions import EXCLUSIVE_PROPERTY, REDELIVERY_DELAY, XA_PROPERTY
from postroom.amqp.frames.outcomes import (
    RELEASED,
    Accepted,
    DeliveryState,
    Modified,
    Received,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Source
from postroom.amqp.frames.transfers import SND_SETTLED, SND_UNSETTLED
from postroom.manager.kernel.consumer import Consumer, QueueReader
from postroom.manager.kernel.effects import PRESETTLED, Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.options import ConsumerOptions
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.queue import Queue, Subscription
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.acquisition import Acquisition
from postroom.server.links.delivery_headers import changed_sections, first_sections
from postroom.server.links.dynamic_nodes import dynamic_nodes_of
from postroom.server.links.held_answers import HeldAnswers
from postroom.server.links.kept_deliveries import KeptDeliveries, Resumed
from postroom.server.links.outcomes import apply_outcome, check_outcome
from postroom.server.links.terminus import ms_property, read_filters, wants_branches
from postroom.server.logs import log

AHEAD_BYTES: Final = 4 << 20
"""Messages given to one link and not yet sent, at about their size."""
FIRST_AVERAGE_BYTES: Final = 64 << 10
"""Taken as the size of a message before the first has been seen."""
TAG_BYTES: Final = 4
TAG_MASK: Final = 0xFFFF_FFFF


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
        self._acquisition: Final = Acquisition(self, link)
        self._when_sent: list[BoundLink] = []
        """Who wants to discharge a transaction that acquires as soon as all of it has been sent."""
        self._held_answers: Final = HeldAnswers(self)
        self._suspended = False
        self._kept: Final = KeptDeliveries()
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
        self.for_branches = wants_branches(attach, self.browse, self.presettled)
        if self.for_branches:
            self.properties = {XA_PROPERTY: True}
        options = ConsumerOptions(
            exclusive=(attach.properties or {}).get(EXCLUSIVE_PROPERTY) is True,
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
        if self.link.txn_id is not None or self._acquisition.transaction is not None:
            self._acquisition.take_transaction()
        if self._kept.send(self.link):
            self.binding.touch()
        self.update_credit(now_us)

    def set_writable(self, now_us: int) -> None:
        self.update_credit(now_us)

    def refill(self, now_us: int) -> None:
        reader = self.reader
        if reader is None:
            return
        most = min(self._limit_ahead(), self.link.usable_credit())
        if reader.credit * 2 < most or reader.credit > most:
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
        head = first_sections(delivery, now_us)
        sections = changed_sections(delivery.body, delivery.annotations)
        size_bytes = len(head) + len(sections)
        self._average_bytes += (size_bytes - self._average_bytes) // 4
        if link.credit <= 0 or 0 < link.max_message_size_bytes < size_bytes:
            self._give_back(delivery, link.credit > 0, now_us)
            return
        acquiring = self._acquisition.transaction
        if acquiring is not None and self._stands_still():
            self.update_credit(now_us)
            self._give_back(delivery, False, now_us)
            return
        tag = self._next_tag.to_bytes(TAG_BYTES, "big")
        self._next_tag = (self._next_tag + 1) & TAG_MASK
        if acquiring is None:
            link.send_behind(head, sections, tag, self.presettled, None if delivery.copied else entry)
        elif self.consumer is not None:
            self._acquisition.send(self.consumer, head + sections, tag, entry)
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

    def _stands_still(self) -> bool:
        """Whether its transaction can take nothing more, or is to be discharged when all is sent."""
        return bool(self._when_sent) or self._acquisition.is_closed()

    def end_acquisition(self, transaction: Transaction, now_us: int) -> None:
        if self._acquisition.transaction is transaction:
            self._acquisition.end()
            self.update_credit(now_us)

    def waits_to_send(self) -> bool:
        return self.link.pieces_waiting > 0

    def notify_when_sent(self, discharger: BoundLink) -> None:
        self._when_sent.append(discharger)
        self.link.notifies_when_sent = True
        self.update_credit(self._manager.core.now_us)

    def acquisition_decided(self, deliveries: list[WireDelivery], committed: bool) -> None:
        self._acquisition.decided(deliveries, not committed and self.consumer is not None)

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
        if consumer is None:  # a browser's outcomes change nothing
            self.agree(self.link, deliveries, state, settled)
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
        outcome = state or self._default_outcome
        acknowledges = self.for_branches and transaction is None and isinstance(outcome, Accepted)
        for delivery in self._acquisition.given_inside(deliveries, transaction, now_us):
            entry = delivery.context
            if isinstance(entry, Entry):
                owner = entry.owner
                if acknowledges:
                    self._acknowledge(delivery, entry, settled)
                elif isinstance(owner, Transaction):
                    self._held_answers.dispose_again(int(delivery.id), owner, settled, transaction, now_us)
                else:
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
            self._held_answers.drop(int(delivery.id))
            token = PRESETTLED if settled else int(delivery.id)
            self._apply(consumer, state, entry, now_us, token, transaction)
            return
        self._apply(consumer, state, entry, now_us, int(delivery.id), transaction)
        if entry.owner is transaction:
            self._held_answers.hold(int(delivery.id), transaction)

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

    def settled(self, first: int, last: int) -> None:
        if self.answers_elsewhere:
            return
        self._held_answers.settle(self.link, first, last)
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

    def decided(self, delivery_ids: list[int], committed: bool) -> None:
        self._held_answers.decided(delivery_ids)
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
            self._kept.keep(unsettled)
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
        self._held_answers.resume()
        self._acquisition.resume(link)
        self.move_to(binding, link)
        self.link = link
        self._take_modes(granted)
        self._kept.theirs = theirs

    def unsettled_map(self) -> dict[bytes, DeliveryState | None] | None:
        return self._kept.unsettled_map() if self._suspended else None

    def _take_up(self, now_us: int) -> None:
        """Deliveries that the client doesn't know, or has no outcome for, go back; outcomes that it has
        reached are applied (part 2, section 2.6.13).
        """
        consumer = self.consumer
        self._suspended = self.answers_elsewhere = False
        resuming, sent = self._kept.compared()
        if consumer is None:
            return
        held = self._manager.resume_consumer(consumer, self, now_us)
        self._sent = consumer.assigned
        for resumed in resuming:
            if resumed.outcome is not None and isinstance(resumed.entry, Entry):
                self._settle_safely(resumed.outcome, resumed.entry, now_us)
        for entry in held:
            if entry.owner is consumer:
                outcome = Modified(delivery_failed=True) if entry in sent else RELEASED
                self._settle_safely(outcome, entry, now_us)
        link = self.link
        self.binding.broker.after_durable(
            self.binding, lambda later_us: self._speak_of(link, resuming, later_us)
        )

    def _speak_of(self, link: SenderLink, resuming: list[Resumed], now_us: int) -> None:
        if self.link is link and not self._suspended:
            self._kept.speak_of(resuming)
            self.credit_changed(now_us)

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
