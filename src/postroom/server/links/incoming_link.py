"""A link on which a client sends: to one queue, to a name that leads to another queue manager, or (anonymous
terminus) to the queue that each message names.

Credit comes back only with the answer, so a sender is as far ahead of the disk as
`LimitsConfig.link_credit` says. While a send of the link waits for room it gets none; a sender that is slowed
down gets it at its pace. Bodies over `CHUNK_BODY_BYTES` go to the ledger while they arrive.
"""

from typing import TYPE_CHECKING, Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.errors import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_UNKNOWN_ID,
    AmqpError,
    DecodeError,
)
from postroom.amqp.frames.outcomes import ACCEPTED, DeliveryState, Rejected, TransactionalState
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import EXPIRY_CONNECTION_CLOSE, EXPIRY_NEVER, Target
from postroom.amqp.frames.transfers import RCV_SECOND
from postroom.amqp.message.message_head import scan_head
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.destinations.routing import slows_down
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import PRESETTLED
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.producing.flow_control import Pace
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.addressing import Addressing
from postroom.server.links.dynamic_nodes import dynamic_nodes_of
from postroom.server.links.flow_control import pacing_of
from postroom.server.links.incoming_message import Arriving, Unroutable
from postroom.server.links.outcomes import accepted_runs
from postroom.server.links.terminus import may_reject, send_timeout_ms

if TYPE_CHECKING:
    from postroom.manager.kernel.transaction import Transaction

MAX_HEAD_BYTES: Final = 1 << 20
"""Header, annotations, properties and application properties of a message that is streamed; more is
refused.
"""


class IncomingLink(BoundLink):
    """Between one `ReceiverLink` and the queue manager; ``queue`` None is the anonymous terminus, or
    ``remote``, a name that leads elsewhere."""

    def __init__(
        self,
        binding: ConnectionState,
        link: ReceiverLink,
        queue: Destination | None,
        attach: Attach,
        remote: str = "",
    ) -> None:
        super().__init__(binding, link)
        self.link = link
        self.queue = queue
        self.address = remote if queue is None else queue.name
        self._addressing: Final = Addressing(self, remote, queue)
        self.dynamic = ""
        """The queue that was made for this link, "" where it wasn't."""
        self._broker = binding.broker
        self._manager = binding.broker.manager
        self._producer: Producer | None = self._manager.open_producer(
            link.name, binding.container_id, binding.user, send_timeout_ms(attach), queue, self
        )
        self._pace: Pace | None = None
        """Its pace while it is slowed down."""
        self._may_reject = may_reject(attach.source)
        self._credit_limit = binding.broker.config.limits.link_credit
        self._unanswered = 0
        self._arriving: Arriving | None = None
        self._transaction_ids: dict[int, bytes] = {}
        """Delivery id → transaction of those that were sent in one and are not answered."""
        self._suspended = False
        self._tags: dict[int, bytes] = {}
        """Delivery id → tag of what is unsettled; kept only where that may be wanted after the session, or
        answers wait to be settled. Else what has come is answered in the session before its link is attached
        again."""
        self._outcomes: dict[bytes, DeliveryState | None] = {}
        """By tag: outcomes that the client hasn't settled; the unsettled map while the link is suspended."""
        self._theirs: dict[bytes, DeliveryState | None] = {}
        self._take_terminus(attach)

    @property
    def producer(self) -> Producer | None:
        """Who puts over it; None: it has ended."""
        return self._producer

    def _take_terminus(self, attach: Attach) -> None:
        self._answers_settled = self.link.rcv_settle_mode != RCV_SECOND
        target = attach.target
        if isinstance(target, Target):
            self.expiry_policy = target.expiry_policy
            self.timeout_s = target.timeout
        outlasts = self.timeout_s > 0 or self.expiry_policy in (EXPIRY_NEVER, EXPIRY_CONNECTION_CLOSE)
        self._keeps = outlasts or not self._answers_settled

    def confirmed(self, now_us: int) -> None:
        self._suspended = self.answers_elsewhere = False
        self.grant()

    # Credit.

    def grant(self) -> None:
        """Credit up to the limit, less what has no answer yet; said only when it is worth a frame."""
        if self.blocked > 0 or not self.link.attached:
            return
        if self._pace is not None or self._slowed_down():
            self._keep_pace()
            return
        credit = self._credit_limit - self._unanswered
        if credit - self.link.credit >= (self._credit_limit + 1) // 2:
            self.link.flow(credit)
            self.binding.touch()

    def unblocked(self, now_us: int) -> None:
        self.grant()

    def _take_credit_back(self) -> None:
        """A send waits for room. What is under way may still come, and waits behind it."""
        if self.link.attached and self.link.credit > 0:
            self.link.flow(0)
            self.binding.touch()

    # Flow control.

    def _slowed_down(self) -> bool:
        """Whether the last message went to somewhere that is above a threshold."""
        queue = self._addressing.last_queue
        return queue is not None and slows_down(self._manager.core, queue)

    def _keep_pace(self) -> None:
        """Slowed down: credit comes with the ticks, and what there is too much of is taken back now."""
        if self._pace is None:
            options = self._manager.options
            if not options.flow_control:
                return
            self._pace = Pace(options, self._manager.core.now_us)
            pacing_of(self._broker).begin(self, self._manager.core.now_us)
            self.tick(self._manager.core.now_us)

    def tick(self, now_us: int) -> None:
        """Some time has passed for a sender that is slowed down."""
        pace = self._pace
        if pace is None:
            return
        more = pace.advance(now_us, self._slowed_down())
        if pace.over:
            self._pace = None
            pacing_of(self._broker).end(self)
            self.grant()
        elif self.blocked == 0 and self.link.attached:
            credit = min(self.link.credit + more, pace.burst, self._credit_limit - self._unanswered)
            if credit != self.link.credit:
                self.link.flow(max(credit, 0))
                self.binding.touch()

    # Messages.

    def transfer(self, event: TransferReceived, now_us: int) -> None:
        """One transfer frame."""
        if self._keeps and not event.settled and self._resumed(event):
            return
        if event.more or not event.first or event.aborted:
            self._transfer_part(event, now_us)
        elif event.settled:
            self._receive(event, event.payload, PRESETTLED, now_us)
        else:
            self._receive(event, event.payload, event.delivery_id, now_us)
        if event.settled and self.link.credit * 2 < self._credit_limit:
            if self._broker.space_low:
                self._broker.held_back[self] = None
            else:
                self.grant()

    def _receive(self, event: TransferReceived, payload: bytes, token: int, now_us: int) -> None:
        self.binding.messages_in += 1
        if token != PRESETTLED:
            self._unanswered += 1
        producer = self._producer
        if producer is None:
            return
        transaction = None
        try:
            if event.state is not None:
                transaction = self._transaction(event.state, token)
            head = scan_head(payload)
            adjust = self._broker.adjust_head
            if adjust is not None:
                adjust(head)
            if event.message_format != 0 or self._broker.space_low:
                self._refuse_all(event)
            if head.report != 0:
                self._addressing.check_reply_to(payload, head)
            queue = self.queue or self._addressing.destination(event.tag, payload, head, now_us)
            body = self._addressing.sent_on(payload[head.bare_offset :])
            self._manager.put(producer, queue, head, body, self, token, now_us, transaction)
            if self.blocked > 0:
                self._take_credit_back()
        except (AmqpError, ManagerError) as error:
            self._refuse(token, len(payload), error, transaction, now_us)

    def _refuse_all(self, event: TransferReceived) -> None:
        """No queue takes this now; raises `AmqpError`."""
        if event.message_format != 0:
            raise AmqpError(
                NOT_IMPLEMENTED, f"message format {event.message_format} is not kept here; send format 0"
            )
        raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "the broker's disk is nearly full: send again later")

    def _transaction(self, state: DeliveryState, token: int) -> "Transaction | None":
        if not isinstance(state, TransactionalState):
            return None
        transaction = self.binding.transaction(state.txn_id)
        if transaction is None:
            raise AmqpError(
                TRANSACTION_UNKNOWN_ID, f"there is no transaction {state.txn_id.hex()} on this connection"
            )
        if token != PRESETTLED:
            self._transaction_ids[token] = state.txn_id
        return transaction

    # Messages of many frames.

    def _transfer_part(self, event: TransferReceived, now_us: int) -> None:
        if event.aborted:
            self._drop_arriving()
            return
        txn_id = event.state.txn_id if isinstance(event.state, TransactionalState) else None
        arriving = self._arriving
        if arriving is None:
            arriving = self._arriving = Arriving()
            arriving.txn_id = txn_id
            if txn_id is not None:
                self.binding.partial[self] = txn_id
        elif txn_id != arriving.txn_id:
            self._doom(arriving, AmqpError(NOT_ALLOWED, "the frames of one delivery name one transaction"))
        arriving.add(event.payload)
        if event.more:
            if arriving.size_bytes > CHUNK_BODY_BYTES:
                self._stream(event, arriving, now_us)
            return
        self._arriving = None
        self.binding.partial.pop(self, None)
        token = PRESETTLED if event.settled else event.delivery_id
        if arriving.head is None and arriving.refusal is None:
            self._receive(event, arriving.take(), token, now_us)
        else:
            self._finish(event, arriving, token, now_us)

    def _stream(self, event: TransferReceived, arriving: Arriving, now_us: int) -> None:
        """Pass on what has been collected; the first time, find the head in it."""
        data = arriving.take()
        if arriving.refusal is not None:
            return
        try:
            if arriving.head is None:
                data = self._begin_upload(event, arriving, data, now_us)
            if arriving.upload is not None and data:
                self._manager.upload_chunk(arriving.upload, data, now_us)
        except (AmqpError, ManagerError) as error:
            self._doom(arriving, error)

    def _begin_upload(self, event: TransferReceived, arriving: Arriving, data: bytes, now_us: int) -> bytes:
        """Open the upload; what is to be written of ``data``, or b"" where the head needs more frames."""
        try:
            head = scan_head(data, complete=False)
        except DecodeError:
            if len(data) > MAX_HEAD_BYTES:
                raise
            arriving.add(data)
            return b""
        if event.message_format != 0 or self._broker.space_low:
            self._refuse_all(event)
        adjust = self._broker.adjust_head
        if adjust is not None:
            adjust(head)
        if head.report != 0:
            self._addressing.check_reply_to(data, head)
        arriving.head = head
        arriving.queue = self.queue or self._addressing.destination(event.tag, data, head, now_us)
        if self._producer is not None:
            arriving.upload = self._manager.begin_upload(self._producer)
        return self._addressing.sent_on(data[head.bare_offset :])

    def _finish(self, event: TransferReceived, arriving: Arriving, token: int, now_us: int) -> None:
        """The last frame of a message that went to the ledger as it came (or was refused on the way)."""
        self.binding.messages_in += 1
        if token != PRESETTLED:
            self._unanswered += 1
        self._stream(event, arriving, now_us)
        head, queue, upload = arriving.head, arriving.queue, arriving.upload
        transaction = None
        try:
            if event.state is not None:
                transaction = self._transaction(event.state, token)
            if arriving.refusal is not None:
                raise arriving.refusal
            if head is not None and queue is not None and upload is not None:
                self._manager.finish_upload(upload, queue, head, self, token, now_us, transaction)
                if self.blocked > 0:
                    self._take_credit_back()
        except (AmqpError, ManagerError) as error:
            if upload is not None:
                self._manager.abort_upload(upload)
            self._refuse(token, arriving.came_bytes, error, transaction, now_us)
            first = None if arriving.txn_id is None else self.binding.transaction(arriving.txn_id)
            if token == PRESETTLED and first is not None and first is not transaction:
                self._spoil(first, error.condition, error.description, now_us)

    def _doom(self, arriving: Arriving, error: AmqpError | ManagerError) -> None:
        """The message will be refused when its last frame has come; the rest of it is not kept."""
        upload, arriving.upload = arriving.upload, None
        arriving.refusal = error
        if upload is not None:
            self._manager.abort_upload(upload)

    def _drop_arriving(self) -> None:
        arriving, self._arriving = self._arriving, None
        self.binding.partial.pop(self, None)
        if arriving is not None and arriving.upload is not None:
            self._manager.abort_upload(arriving.upload)

    # Answers.

    def accepted(self, first: int, last: int) -> None:
        self._unanswered -= last - first + 1
        if self._transaction_ids:
            for run_first, run_last, state in accepted_runs(self._transaction_ids, first, last):
                self._answer(run_first, run_last, state)
        else:
            self._answer(first, last, ACCEPTED)
        self.grant()

    def rejected(self, token: int, condition: str, description: str) -> None:
        if token == PRESETTLED:
            super().rejected(token, condition, description)
        else:
            self._reject(token, Error(condition, description))

    def _reject(self, token: int, error: Error) -> None:
        self._unanswered -= 1
        outcome: DeliveryState = Rejected(error)
        txn_id = self._transaction_ids.pop(token, None)
        if txn_id is not None and self.binding.is_live(txn_id):
            outcome = TransactionalState(txn_id, outcome)
        self._answer(token, token, outcome)
        self.grant()

    def _refuse(
        self,
        token: int,
        size_bytes: int,
        error: AmqpError | ManagerError,
        transaction: "Transaction | None",
        now_us: int,
    ) -> None:
        """Refused before it came to the queue manager; answered in its turn, after those before it."""
        info = error.info if isinstance(error, AmqpError) else None
        error_of_link = Error(error.condition, error.description, info)
        ends_link = isinstance(error, Unroutable) and (token == PRESETTLED or not self._may_reject)
        # Where its queue has been deleted, the link is detached before an answer.
        is_deleted = self.queue is not None and self.queue.deleted
        if token == PRESETTLED:
            super().rejected(token, error.condition, error.description)
            self._record_refusal(size_bytes, error, now_us)
        if transaction is not None and (token == PRESETTLED or ends_link or is_deleted):
            self._spoil(transaction, error.condition, error.description, now_us)
        if ends_link:
            self._broker.after_durable(self.binding, lambda _: self._detach(error_of_link))
        elif token != PRESETTLED:
            self._broker.after_durable(self.binding, lambda _: self._reject(token, error_of_link))

    def _record_refusal(self, size_bytes: int, error: AmqpError | ManagerError, now_us: int) -> None:
        producer = self._producer
        if producer is not None:
            address = error.address if isinstance(error, Unroutable) else self.address
            self._manager.refused(producer, address, size_bytes, error.condition, error.description, now_us)

    def _detach(self, error: Error) -> None:
        if self.link.attached:
            self.binding.end_link(self, error)

    def _spoil(self, transaction: "Transaction", condition: str, description: str, now_us: int) -> None:
        why = f"a message in it was refused, and its sender isn't told: {description}"
        self._manager.spoil(transaction, why, now_us, condition)

    def _answer(self, first: int, last: int, state: DeliveryState) -> None:
        if self._keeps:
            self._note_outcome(first, last, state)
        if not self.answers_elsewhere:
            self.link.settle(first, last, state, self._answers_settled)
            self.binding.touch()

    # Suspension.

    def _note_outcome(self, first: int, last: int, state: DeliveryState) -> None:
        """What is answered is settled here, unless the client has the last word or isn't there to hear it."""
        for token in range(first, last + 1):
            tag = self._tags.get(token)
            if tag is not None and (self._suspended or not self._answers_settled):
                self._outcomes[tag] = state
            elif tag is not None:
                del self._tags[token]

    def sender_settled(self, delivery_ids: list[int]) -> None:
        for delivery_id in delivery_ids:
            tag = self._tags.pop(delivery_id, None)
            if tag is not None:
                self._outcomes.pop(tag, None)

    def suspend(self, unsettled: list[WireDelivery], timeout_us: int, now_us: int) -> bool:
        if self._producer is None:
            return False
        if not self._suspended:
            self._suspended = True
            self._drop_arriving()
            for token in self._manager.withdraw_sends(self._producer, now_us):
                self._tags.pop(token, None)  # the client finds that it never came
            pacing_of(self._broker).end(self)
            self._pace = None
            self._outcomes = {tag: self._outcomes.get(tag) for tag in self._tags.values()}
        return True

    def may_resume(self, attach: Attach) -> bool:
        """Whether the client's attach takes this link up, rather than beginning anew under its name."""
        target = attach.target
        address = self._manager.names.local(target.address or "") if isinstance(target, Target) else ""
        same = isinstance(target, Target) and address == self.address and not target.dynamic
        return self._producer is not None and attach.unsettled is not None and same

    def resume(self, binding: ConnectionState, link: ReceiverLink, attach: Attach) -> None:
        """The link is attached again, on ``link``. What the client doesn't know any more is forgotten here
        too.
        """
        self.move_to(binding, link)
        self.link = link
        self._take_terminus(attach)
        self._theirs = attach.unsettled or {}

    def unsettled_map(self) -> dict[bytes, DeliveryState | None] | None:
        if not self._suspended:
            return None
        self._outcomes = {tag: state for tag, state in self._outcomes.items() if tag in self._theirs}
        self._tags.clear()
        self._unanswered = 0
        return dict(self._outcomes)

    def _resumed(self, event: TransferReceived) -> bool:
        """Note the tag of a new delivery; whether this is an old one, of which the outcome is known
        already.
        """
        if event.resume and event.tag in self._outcomes:
            if not event.more:
                state = self._outcomes.pop(event.tag) or ACCEPTED
                self.link.settle(event.delivery_id, event.delivery_id, state, True)
                self.grant()
            return True
        if event.aborted:
            self._tags.pop(event.delivery_id, None)
        elif event.first:
            self._tags[event.delivery_id] = event.tag
        return False

    # End.

    def ended(self, condition: str, description: str) -> None:
        """What it sends to has been deleted. A transaction of which a message was under way can't be
        committed: nobody is told of that message."""
        now_us = self._manager.core.now_us
        transaction = self.binding.transaction(self.binding.partial.get(self, b""))
        if transaction is not None:
            self._spoil(transaction, condition, description, now_us)
        self._detach(Error(condition, description))

    def close(self, lost: bool, now_us: int) -> None:
        self._drop_arriving()
        self._broker.held_back.pop(self, None)
        producer, self._producer = self._producer, None
        if producer is not None:
            self._manager.close_producer(producer, now_us)
            pacing_of(self._broker).end(self)
            self._pace = None
        if self.address:
            dynamic_nodes_of(self._broker).link_closed(self.address, bool(self.dynamic), now_us)
