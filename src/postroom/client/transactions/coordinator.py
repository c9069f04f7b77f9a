"""The control link of transactions: declare and discharge (AMQP part 4, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from postroom.amqp.encoding import descriptors
from postroom.amqp.encoding.types import Described, ULong
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.extensions import REJECTED_OUTCOME
from postroom.amqp.frames.outcomes import ACCEPTED, Declare, Declared, DeliveryState, Discharge, Rejected
from postroom.amqp.frames.termini import Coordinator as CoordinatorTarget
from postroom.amqp.frames.termini import Source
from postroom.amqp.frames.transfers import SND_UNSETTLED
from postroom.amqp.message.sections import Message, Value
from postroom.client.connection.provider import Channel
from postroom.client.connection.sender_link import Sending
from postroom.client.connection.transport import within
from postroom.client.destinations import link_name
from postroom.client.exceptions import JMSException, TransactionRolledBackException, from_error

ACCEPTED_OUTCOME: Final = "amqp:accepted:list"


class Coordinator(Sending):
    """A control link: what it declared and did not discharge is rolled back when it ends.

    A request under way when the connection breaks raises ConnectionLostException, and what was declared
    before the break is gone.
    """

    def __init__(self, channel: Channel, capabilities: list[str]) -> None:
        """``capabilities``: what transactions are to be capable of."""
        name, target = link_name("coordinator"), CoordinatorTarget(capabilities=capabilities)

        def attach(engine: EngineSession) -> SenderLink:
            # A refusal may come as the outcome rejected; else the link would end with it.
            source = Source(outcomes=[ACCEPTED_OUTCOME, REJECTED_OUTCOME])
            return engine.attach_sender(name, source, target, snd_settle_mode=SND_UNSETTLED)

        super().__init__(channel, attach, "the transaction coordinator", sends_again=False)
        self.on_break: Callable[[], None] = lambda: None
        """Called when the connection breaks, before other links of the session hear of it, and when the link
        ends.
        """

    def interrupted(self, failure: JMSException) -> None:
        self.on_break()
        super().interrupted(failure)

    def wake(self, failure: JMSException) -> None:
        self.on_break()
        super().wake(failure)

    async def declare(self, timeout_s: float | None, global_id: object = None) -> bytes:
        """Begin a transaction, a branch of ``global_id`` where one is given; returns its txn-id.

        Raises what the broker's refusal means.
        """
        state = await self._request(Declare(global_id), "declare", timeout_s)
        if isinstance(state, Declared):
            return bytes(state.txn_id)
        raise self._refusal(state, "declare")

    async def discharge(self, txn_id: bytes, fail: bool, timeout_s: float | None) -> None:
        """End a transaction: commit, or (``fail``) roll back.

        Raises TransactionRolledBackException where the broker rolled back instead of committing.
        """
        state = await self._request(Discharge(txn_id, fail), "rollback" if fail else "commit", timeout_s)
        if state == ACCEPTED:
            return
        refusal = self._refusal(state, "rollback" if fail else "commit")
        if isinstance(state, Rejected) and not fail:
            raise TransactionRolledBackException(refusal.description, refusal.condition)
        raise refusal

    async def _request(
        self, request: Declare | Discharge, what: str, timeout_s: float | None
    ) -> DeliveryState | None:
        outcome = await self.send(value(request), False, timeout_s)
        assert outcome is not None
        return await within(outcome, timeout_s, f"{what} of a transaction")

    def _refusal(self, state: DeliveryState | None, what: str) -> JMSException:
        if isinstance(state, Rejected):
            return from_error(state.error, f"{what} of a transaction was refused")
        return JMSException(f"{what} of a transaction was answered with {state}")


def value(request: Declare | Discharge) -> bytes:
    """The request as the message that it travels in."""
    if isinstance(request, Declare):
        fields = [] if request.global_id is None else [request.global_id]
        described = Described(ULong(descriptors.DECLARE), fields)
    else:
        described = Described(ULong(descriptors.DISCHARGE), [request.txn_id, request.fail])
    return Message(body=Value(described)).encode()
