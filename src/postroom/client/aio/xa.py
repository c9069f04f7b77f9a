"""XA sessions, and the broker as a resource manager: the asyncio face.

A transaction manager drives the :class:`XAResource`; what the session sends and receives between ``start``
and ``end`` belongs to the branch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from postroom.amqp.encoding.types import UInt
from postroom.amqp.extensions import XA_CODE
from postroom.client.aio.management_client import ManagementClient, requests_in
from postroom.client.aio.session import Session
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Receiving
from postroom.client.exceptions import JMSException, TransactionInProgressException, XAException
from postroom.client.messages.management_answers import ManagementReply
from postroom.client.sessions.connection_state import SharedState
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.transactions.branch_work import BranchWork
from postroom.model.entity_types import BRANCH_TYPE
from postroom.model.xa import MAX_TIMEOUT_S, XaCode, XaFlag, Xid, is_rolled_back

__all__ = ["XAResource", "XASession"]

WHOLE_SCAN: Final = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN


class OfBroker(Protocol):
    """What says which broker it belongs to."""

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker."""


class XAResource:
    """The broker as a resource manager: the verbs of X/Open XA, for one session. Made by
    :meth:`Connection.create_xa_session`.

    Every verb raises XAException. XAER_RMFAIL is for a broker that can't be reached: of a commit nobody knows
    then whether it has happened, and :meth:`recover`, from any session, tells.
    """

    def __init__(self, work: BranchWork, requests: ManagementClient, broker: Callable[[], str]) -> None:
        self._work = work
        self._requests = requests
        self._broker = broker

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker: what tells it from other resource managers."""
        return self._broker()

    async def resource_name(self) -> str:
        """What the decision log of a transaction manager calls the broker."""
        return f"amqp:{self._broker()}"

    async def is_same_rm(self, other: OfBroker) -> bool:
        """Whether the other is a resource of the same broker."""
        return self._broker() == other.broker_container_id

    async def set_transaction_timeout(self, seconds: int) -> bool:
        """Have each branch that is started from now on, over this resource, rolled back unless it is
        prepared within so many seconds (XA_RBTIMEOUT at the next verb); 0: the default again, the broker's
        ``branch_idle_timeout_ms``. Always True. Raises XAException (XAER_INVAL) for what is no number of
        seconds.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= MAX_TIMEOUT_S:
            what = f"a transaction timeout is 0 (the default) to {MAX_TIMEOUT_S} s, not {seconds!r:.100}"
            raise XAException(what, XaCode.XAER_INVAL)
        self._work.branch_timeout_s = seconds
        return True

    async def get_transaction_timeout(self) -> int:
        """The seconds that were set last; 0: the broker's default."""
        return self._work.branch_timeout_s

    async def start(self, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS) -> None:
        """What the session sends and receives from now on belongs to branch ``xid``.

        TMNOFLAGS: a new branch; TMJOIN: one that another session works on, or has ended; TMRESUME: one that
        was suspended. A session works on one branch at a time (XAER_PROTO).
        """
        if self._work.xid is not None:
            raise XAException(f"the session works on branch {self._work.xid}", XaCode.XAER_PROTO)
        try:
            await self._work.start(xid, flags)
        except JMSException as error:
            raise unreachable(error, "start") from error

    async def end(self, xid: Xid, flags: XaFlag = XaFlag.TMSUCCESS) -> None:
        """The session works on the branch no longer.

        TMSUCCESS: it may be prepared; TMFAIL: it is rolled back; TMSUSPEND: to be resumed. A branch in which
        a send was refused, or that the broker has rolled back, ends with XA_RB*: call :meth:`rollback`.
        """
        if xid != self._work.xid:
            await self._request("END", xid, flags, assign=False)
            return
        try:
            whole = await self._work.complete(flags)
        except XAException:
            raise
        except JMSException as error:
            with suppress(XAException):  # so that the session is free for another branch
                await self._end(xid, XaFlag.TMFAIL)
            raise unreachable(error, "end") from error
        await self._end(xid, flags if whole else XaFlag.TMFAIL)
        if not whole:
            raise self._work.refused()

    async def _end(self, xid: Xid, flags: XaFlag) -> None:
        try:
            if flags == XaFlag.TMFAIL:
                await self._undo("END", xid, flags, assign=False)
            else:
                await self._request("END", xid, flags, assign=False)
        except XAException as error:
            if is_rolled_back(error.error_code) or error.error_code in (XaCode.XAER_RMFAIL, XaCode.XAER_NOTA):
                self._work.leave()
            raise
        self._work.leave()

    async def prepare(self, xid: Xid) -> XaCode:
        """The branch is on the broker's disk and waits for the decision: XA_OK; or XA_RDONLY, it did nothing
        and is gone.
        """
        reply = await self._request("PREPARE", xid)
        return XaCode.XA_RDONLY if reply.attributes().get(XA_CODE) == XaCode.XA_RDONLY else XaCode.XA_OK

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch; ``one_phase``: one that was ended and not prepared."""
        await self._request("COMMIT", xid, XaFlag.TMONEPHASE if one_phase else XaFlag.TMNOFLAGS)

    async def rollback(self, xid: Xid) -> None:
        """What was sent in the branch is gone, what was received in it is back."""
        await self._undo("ROLLBACK", xid)

    async def recover(self, flags: XaFlag = WHOLE_SCAN) -> list[Xid]:
        """The branches that are prepared, or were decided by an administrator; all with TMSTARTRSCAN."""
        reply = await self._request("RECOVER", None, flags)
        found = reply.attributes().get("xids")
        return [Xid.parse(str(text)) for text in found] if isinstance(found, list) else []

    async def forget(self, xid: Xid) -> None:
        """The administrator's decision about the branch has been noted."""
        await self._request("FORGET", xid)

    async def _undo(self, verb: str, xid: Xid, flags: XaFlag = XaFlag.TMNOFLAGS, **more: object) -> None:
        """What gives messages back: those that were sent ahead shall not come before them."""
        self._work.pause()
        try:
            await self._request(verb, xid, flags, **more)
        finally:
            self._work.resume()

    async def _request(
        self, verb: str, xid: Xid | None, flags: XaFlag = XaFlag.TMNOFLAGS, **more: object
    ) -> ManagementReply:
        properties: dict[str, object] = {"flags": UInt(flags), **more}
        if xid is not None:
            properties["xid"] = str(xid)
        try:
            return await self._requests.request(verb, kind=BRANCH_TYPE, properties=properties)
        except XAException:
            raise
        except JMSException as error:
            raise unreachable(error, verb) from error


class XASession(Session):
    """A session whose work belongs to branches of global transactions. Made by
    :meth:`Connection.create_xa_session`.

    Consumers receive in a branch only; producers send in it while there is one, and as any other producer
    outside. ``Message.acknowledge`` has no effect.
    """

    def __init__(self, channel: Channel, shared: SharedState) -> None:
        super().__init__(channel, AcknowledgeMode.SESSION_TRANSACTED, shared)
        self._plain = Session(channel, AcknowledgeMode.AUTO, shared)
        """For the verbs, which are requests on the same AMQP session: their answers are in no branch."""
        self._work = BranchWork(channel, self._receivings, shared.request_timeout_s)
        self._state.transaction = self._work
        self._resource: XAResource | None = None
        self._requests: ManagementClient | None = None

    def _receivings(self) -> list[Receiving]:
        """The links of its consumers, those to come included."""
        return [each.receiving for each in self._consumers]

    async def _attach(self) -> None:
        """Attach what the verbs need; raises as the broker refuses."""
        await self._work.attach()
        self._requests = await requests_in(self._plain, self._request_timeout_s)
        self._resource = XAResource(self._work, self._requests, self._broker)

    def _broker(self) -> str:
        return self._provider.broker.container_id if self._provider.broker is not None else ""

    @property
    def xa_resource(self) -> XAResource:
        """What a transaction manager drives."""
        assert self._resource is not None
        return self._resource

    async def commit(self) -> None:
        """TransactionInProgressException: the transaction manager commits."""
        raise TransactionInProgressException("an XA session is committed by its transaction manager")

    async def rollback(self) -> None:
        """TransactionInProgressException: the transaction manager rolls back."""
        raise TransactionInProgressException("an XA session is rolled back by its transaction manager")

    async def close(self) -> None:
        """Close the session with its producers and consumers. A branch that was not ended stays suspended;
        what is prepared waits for its decision.
        """
        if not self.is_closed and self._requests is not None:
            await self._requests.close()
            await self._work.close()
        await super().close()


def unreachable(error: JMSException, verb: str) -> XAException:
    """What a transaction manager is told when the broker gives no answer of XA."""
    if isinstance(error, XAException):
        return error
    unknown = ": whether it has happened, recover tells" if verb == "COMMIT" else ""
    return XAException(f"no answer of the broker to {verb}{unknown}: {error.description}", XaCode.XAER_RMFAIL)
