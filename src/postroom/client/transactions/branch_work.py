"""The branch that an XA session works on: what is sent and received in it, from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar

from postroom.amqp.encoding.types import Int, UInt
from postroom.amqp.extensions import DISTRIBUTED_TRANSACTIONS, XA_PROPERTY
from postroom.amqp.frames.outcomes import ACCEPTED, TransactionalState
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.connection.sender_link import Outcome, Sending
from postroom.client.connection.transport import within
from postroom.client.exceptions import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    XAException,
)
from postroom.client.sessions.completions import raise_unless_accepted
from postroom.client.transactions.coordinator import Coordinator
from postroom.model.xa import XaCode, XaFlag, Xid


class BranchWork:
    """What the producers and consumers of an XA session do their work in: its branch, while it has one."""

    consumer_properties: ClassVar[dict[object, object]] = {XA_PROPERTY: True}

    def __init__(
        self, channel: Channel, receivings: Callable[[], Iterable[Receiving]], timeout_s: float | None
    ) -> None:
        """``receivings``: the links of the session's consumers; ``timeout_s``: for requests."""
        self._coordinator = Coordinator(channel, [DISTRIBUTED_TRANSACTIONS])
        self._coordinator.on_break = self._on_break
        self._receivings = receivings
        self._timeout_s = timeout_s
        self.branch_timeout_s = 0
        """Within what those branches are to be prepared that are started from now on; 0: the default."""
        self.xid: Xid | None = None
        """The branch that was started and not ended."""
        self._txn_id: bytes | None = None
        """By what the broker knows it on this connection; None, too, when a break has ended it there."""
        self._outcomes: set[Outcome] = set()
        """Of sends in it, not known yet."""
        self._refusal: JMSException | None = None
        """Why a send isn't in it."""

    async def attach(self) -> None:
        """Attach the control link; raises as the broker refuses."""
        await self._coordinator.attach(self._timeout_s)

    async def start(self, xid: Xid, flags: XaFlag) -> None:
        """Work on ``xid``; raises as the broker refuses."""
        global_id: list[object] = [Int(xid.format_id), xid.gtrid, xid.bqual]
        if flags or self.branch_timeout_s:
            global_id += [UInt(flags), UInt(self.branch_timeout_s)]
        self._txn_id = await self._coordinator.declare(self._timeout_s, global_id)
        self.xid = xid
        self._outcomes.clear()
        self._refusal = None

    def leave(self) -> None:
        """Work on no branch."""
        self.xid = self._txn_id = None

    def _on_break(self) -> None:
        """The broker rolls back what wasn't prepared."""
        self._txn_id = None

    async def close(self) -> None:
        """Close the control link."""
        await self._coordinator.detach(self._timeout_s)

    # --- work

    async def send(self, sending: Sending, payload: bytes, settled: bool, timeout_s: float | None) -> None:
        """Send in the branch; outside of one at once, as an ordinary message."""
        if self.xid is None:
            outcome = await sending.send(payload, settled, timeout_s)
            if outcome is not None:
                raise_unless_accepted(await within(outcome, timeout_s, f"send to {sending.what}"))
            return
        outcome = await sending.send(payload, settled, timeout_s, TransactionalState(self._known()))
        if outcome is not None:
            self._outcomes.add(outcome)
            outcome.add_done_callback(self._on_outcome)

    def _on_outcome(self, outcome: Outcome) -> None:
        if outcome not in self._outcomes:
            return  # of a branch before
        self._outcomes.discard(outcome)
        if outcome.cancelled() or outcome.exception() is not None:
            return  # the break is known by other ways
        try:
            raise_unless_accepted(outcome.result())
        except JMSException as refusal:
            self._refusal = self._refusal or refusal

    def check_listen(self) -> None:
        """Raises IllegalStateException: nobody knows whether a message would come in a branch."""
        raise IllegalStateException("an XA session has no message listeners: receive in the branch")

    def check_receive(self) -> None:
        """Raises IllegalStateException: an XA session receives in a branch only."""
        if self.xid is None:
            raise IllegalStateException(
                "an XA session receives in a transaction branch only: between start and end"
            )

    async def acknowledge(self, receiving: Receiving, incoming: Incoming) -> bool:
        """Receive in the branch; False where it came before a break, and comes again."""
        if self.xid is None:
            receiving.put_back([incoming])
            self.check_receive()
        txn_id = self._known()
        if not receiving.is_current(incoming):
            return False
        receiving.settle(incoming, TransactionalState(txn_id, ACCEPTED))
        return True

    def _known(self) -> bytes:
        if self._txn_id is None:
            raise TransactionRolledBackException(
                f"the connection broke: the broker has rolled branch {self.xid} back"
            )
        return self._txn_id

    # --- end

    async def complete(self, flags: XaFlag) -> bool:
        """Before the branch is ended: whether it may end as ``flags`` say, for every send is in it.

        Raises XAException where a break has ended it.
        """
        if self._txn_id is None:
            self.leave()
            raise XAException(
                "the connection broke: the broker has rolled the branch back", XaCode.XA_RBCOMMFAIL
            )
        if flags != XaFlag.TMFAIL and self._outcomes:
            waiting = asyncio.ensure_future(asyncio.wait(list(self._outcomes)))
            await within(waiting, self._timeout_s, "outcomes of the sends of a branch")
        for receiving in self._open():
            receiving.before_flush()  # acknowledgements that are still to be written belong before the end
        return flags == XaFlag.TMFAIL or self._refusal is None

    def refused(self) -> XAException:
        """Why the branch was ended in failure."""
        why = "" if self._refusal is None else self._refusal.description
        return XAException(f"a send of the branch was refused: {why}", XaCode.XA_RBOTHER)

    def pause(self) -> None:
        """Before a rollback: what the broker has sent ahead shall not come before what is rolled back."""
        for receiving in self._open():
            receiving.pause()

    def resume(self) -> None:
        """After it: what was sent ahead goes back, and comes again."""
        for receiving in self._open():
            receiving.resume_anew()

    def _open(self) -> list[Receiving]:
        return [each for each in self._receivings() if each.failure is None]
