"""The links of the management node: requests come in on one, answers go out on another, or to a queue."""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import LINK_MESSAGE_SIZE_EXCEEDED, NOT_IMPLEMENTED, AmqpError
from postroom.amqp.extensions import MANAGEMENT_ADDRESS
from postroom.amqp.frames.outcomes import ACCEPTED, DeliveryState, Rejected, TransactionalState
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import Target
from postroom.amqp.frames.transfers import RCV_SECOND, SND_SETTLED
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Message, Value, decode_message
from postroom.manager.kernel.effects import PRESETTLED, Sink
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.security.acts import TRANSFER
from postroom.model.rights import Right
from postroom.server.access.access import access_of
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.links.requests import write_response
from postroom.server.links.sink_context import SinkContext
from postroom.server.links.xa_context import xa_context
from postroom.server.logs import log
from postroom.server.management import Later, Request, Response
from postroom.server.management.node import management_of
from postroom.server.management.request import Requester

if TYPE_CHECKING:
    from postroom.amqp.engine.delivery import Delivery as WireDelivery

REQUEST_CREDIT: Final = 100
MAX_REQUEST_BYTES: Final = 1 << 20
MAX_UNANSWERED: Final = 1000
"""Requests of one link that wait for an answer; at that its sender gets no more credit."""
MAX_WAITING_REPLIES: Final = 1000
"""Answers that wait for credit on one link; the oldest goes when there is one more."""
TAG_BYTES: Final = 8
LOGGED: Final = ("CREATE", "UPDATE", "DELETE", "PURGE", "HEURISTIC-COMMIT", "HEURISTIC-ROLLBACK")
"""What an administrator has changed is in the log."""


class RequestLink(BoundLink):
    """A client sends requests to the management node."""

    def __init__(self, binding: ConnectionState, link: ReceiverLink) -> None:
        super().__init__(binding, link)
        self.link: Final = link
        self.address = MANAGEMENT_ADDRESS
        self._producer = binding.broker.manager.open_producer(link.name, binding.container_id, binding.user)
        self._answers_settled: Final = link.rcv_settle_mode != RCV_SECOND
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._later: set[Later] = set()
        """Answers that have not come yet."""
        self._postponed: list[Callable[[int], None]] = []
        """What waits until sends of a transaction have found room."""

    def confirmed(self, now_us: int) -> None:
        self.link.flow(REQUEST_CREDIT)

    def transfer(self, event: TransferReceived, now_us: int) -> None:
        self._size_bytes += len(event.payload)
        if self._size_bytes <= MAX_REQUEST_BYTES:
            self._parts.append(event.payload)
        if event.more:
            return
        payload, self._parts = b"".join(self._parts), []
        too_large, self._size_bytes = self._size_bytes > MAX_REQUEST_BYTES, 0
        if event.aborted:
            return
        state: DeliveryState = ACCEPTED
        try:
            if too_large:
                what = f"a management request is at most {MAX_REQUEST_BYTES} bytes"
                raise AmqpError(LINK_MESSAGE_SIZE_EXCEEDED, what)
            if isinstance(event.state, TransactionalState):
                raise AmqpError(
                    NOT_IMPLEMENTED, "a management request is carried out at once, in no transaction"
                )
            self._perform(decode_message(payload), now_us)
        except AmqpError as error:
            state = Rejected(Error(error.condition, error.description))
        if not event.settled:
            delivery_id = event.delivery_id
            self.binding.broker.after_durable(self.binding, lambda _: self._answer(delivery_id, state))

    def _answer(self, delivery_id: int, state: DeliveryState) -> None:
        self.link.settle(delivery_id, delivery_id, state, self._answers_settled)
        self._grant()
        self.binding.touch()

    def _grant(self) -> None:
        """More requests may come, unless very many have no answer yet."""
        wanted = self.link.attached and self.link.credit * 2 <= REQUEST_CREDIT
        if wanted and len(self._later) < MAX_UNANSWERED:
            self.link.flow(REQUEST_CREDIT)

    def _perform(self, message: Message, now_us: int) -> None:
        body = message.body.value if isinstance(message.body, Value) else None
        binding, session = self.binding, self.link.session
        request = Request(
            message.application_properties,
            body,
            Requester(binding.user, binding.remote, binding.container_id, binding.roles),
            lambda: xa_context(binding, session),
            self._postpone,
            SinkContext(binding),
        )
        response = management_of(self.binding.broker).perform(request, now_us)
        if isinstance(response, Later):
            self._expect(message, request, response)
            return
        now = response
        self.binding.broker.after_durable(
            self.binding, lambda later_us: self._respond(message, request, now, later_us)
        )

    def _postpone(self, action: Callable[[int], None]) -> Sink:
        self._postponed.append(action)
        return self

    def unblocked(self, now_us: int) -> None:
        postponed, self._postponed = self._postponed, []
        for action in postponed:
            action(now_us)

    def _expect(self, message: Message, request: Request, later: Later) -> None:
        """The answer will come; nobody wants it any more once this link is gone."""

        def answered(response: Response, now_us: int) -> None:
            self._later.discard(later)
            self._respond(message, request, response, now_us)
            self._grant()
            self.binding.touch()

        self._later.add(later)
        later.then(answered)

    def _respond(self, message: Message, request: Request, response: Response, now_us: int) -> None:
        """Send the answer: what it tells of is durable."""
        log(
            logging.INFO if request.operation in LOGGED else logging.DEBUG,
            "management",
            user=self.binding.user,
            operation=request.operation,
            type=request.type,
            name=request.name,
            status=response.status,
            description=response.description,
        )
        properties: dict[str, object] = {
            "statusCode": response.status,
            "statusDescription": response.description,
        }
        if response.condition:
            properties["errorCondition"] = response.condition
        if response.count >= 0:
            properties["count"] = response.count
        payload = write_response(message, properties, response.body)
        reply_to = (message.properties.reply_to if message.properties is not None else None) or ""
        self._reply(reply_to, payload, now_us)

    def _reply(self, reply_to: str, payload: bytes, now_us: int) -> None:
        """Over the requester's own link for ``reply_to``, else to the queue of that name, wherever it is."""
        link = self._reply_link(reply_to)
        if link is not None:
            link.send(payload)
            return
        manager, access = self.binding.broker.manager, access_of(self.binding.broker)
        try:
            access.require(self.binding, Right.PUT, reply_to, TRANSFER)
            destination = manager.names.taker(reply_to)
        except (AmqpError, ManagerError) as error:
            log(
                logging.WARNING,
                "management-reply-undeliverable",
                reply_to=reply_to,
                remote=self.binding.remote,
                reason=error.description,
            )
            return
        sections = manager.names.sent_to(destination, payload)
        manager.put(self._producer, destination.queue, scan_head(payload), sections, self, PRESETTLED, now_us)

    def _reply_link(self, reply_to: str) -> "ReplyLink | None":
        links = [bound for bound in self.binding.links.values() if isinstance(bound, ReplyLink)]
        for link in links:
            if link.reply_address == reply_to:
                return link
        return links[0] if links and reply_to in ("", MANAGEMENT_ADDRESS) else None

    def close(self, lost: bool, now_us: int) -> None:
        self._postponed.clear()
        for later in list(self._later):
            later.cancel()
        self.binding.broker.manager.close_producer(self._producer, now_us)


class ReplyLink(BoundLink):
    """A client receives the answers of the management node; its target's address is the reply-to it uses."""

    def __init__(self, binding: ConnectionState, link: SenderLink, attach: Attach) -> None:
        super().__init__(binding, link)
        self.link: Final = link
        self.address = MANAGEMENT_ADDRESS
        target = attach.target
        self.reply_address: Final = (target.address or "") if isinstance(target, Target) else ""
        self._settled: Final = link.snd_settle_mode == SND_SETTLED
        self._waiting: Final[deque[bytes]] = deque(maxlen=MAX_WAITING_REPLIES)
        self._next_tag = 0

    def send(self, payload: bytes) -> None:
        """Send an answer, now or when there is credit."""
        self._waiting.append(payload)
        self.credit_changed(0)

    def credit_changed(self, now_us: int) -> None:
        while self._waiting and self.link.usable_credit() > 0:
            tag = self._next_tag.to_bytes(TAG_BYTES, "big")
            self._next_tag += 1
            self.link.send(self._waiting.popleft(), tag, self._settled)
        if self.link.drain:
            self.link.drained()
        self.binding.touch()

    def disposed(
        self, deliveries: "list[WireDelivery]", state: DeliveryState | None, settled: bool, now_us: int
    ) -> None:
        """Whatever the client says of an answer, it is done with."""
        self.agree(self.link, deliveries, state, settled)

    def close(self, lost: bool, now_us: int) -> None:
        self._waiting.clear()
