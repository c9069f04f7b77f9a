"""Branches of two-phase commits over take-overs: what is prepared is there at whoever is active, until it is
decided, and ends as decided.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

from postroom.client import JMSException, XAException
from postroom.client.aio import Connection, MessageProducer, XAResource
from postroom.model.xa import XaCode, Xid, is_rolled_back
from tests.replication.run.account import Account, Sent
from tests.replication.run.traffic import PACE_S, Client, message_of

FORMAT_ID: Final = 23
MESSAGES: Final = 2
MOST_PREPARED: Final = 5
"""Branches that wait for their decision, over take-overs."""
COMMITTED: Final = 0.6
"""Of the decisions, those to commit."""


class BreakSeen(Exception):
    """The broker can't be reached: what it said last may be done or not."""


class Branches(Client):
    """A transaction manager with one resource, from connection to connection."""

    def __init__(self, name: str, urls: list[str], account: Account, chance: random.Random) -> None:
        super().__init__(name, urls)
        self._account: Final = account
        self._chance: Final = chance
        self._number = 0
        self._preparing: dict[Xid, set[Sent]] = {}
        """Whose prepare had no answer: prepared, or gone."""
        self._prepared: dict[Xid, set[Sent]] = {}
        self._decided: dict[Xid, bool] = {}
        """Of those that are prepared: whether to commit; said to the broker, without an answer."""
        self.recovered = 0
        """Branches that were there after a connection had broken."""

    async def run(self) -> None:
        while not self.is_stopping or self._prepared or self._preparing:
            connection = await self.connect_to_one()
            if connection is None:
                continue
            with suppress(BreakSeen, JMSException):
                async with connection:
                    await self._live(connection)

    async def _live(self, connection: Connection) -> None:
        session = await connection.create_xa_session()
        resource = session.xa_resource
        producer = await session.create_producer(self._account.queue)
        await self._recover(resource)
        while not self.is_stopping:
            await self._prepare_one(resource, producer)
            if len(self._prepared) > self._chance.randrange(1, MOST_PREPARED):
                await self._check(resource)
                xid = self._chance.choice(list(self._prepared))
                await self._decide(resource, xid, self._chance.random() < COMMITTED)
            self.steps += 1
            await asyncio.sleep(PACE_S)
        for xid in list(self._prepared):
            await self._decide(resource, xid, True)

    async def _recover(self, resource: XAResource) -> None:
        """What a transaction manager does when it has its resource again."""
        found = set(await self._found(resource))
        for xid in list(self._preparing):
            sent = self._preparing.pop(xid)
            if xid in found:
                self._prepared[xid] = sent
            else:
                self._account.undone |= sent
        for xid, commit in list(self._decided.items()):
            if xid in found:
                await self._decide(resource, xid, commit)
            else:
                self._end(xid)
        self.recovered += len(self._prepared)
        await self._check(resource)

    async def _check(self, resource: XAResource) -> None:
        """What is prepared is there, and nothing else."""
        found = set(await self._found(resource))
        for xid in self._prepared.keys() - found:
            self._problem(f"{xid} was prepared and is lost")
            self._account.undone |= self._prepared.pop(xid)
        for xid in found - self._prepared.keys():
            self._problem(f"{xid} is there, and was decided or never prepared")

    async def _found(self, resource: XAResource) -> list[Xid]:
        try:
            return await resource.recover()
        except XAException as error:
            raise BreakSeen from error

    async def _prepare_one(self, resource: XAResource, producer: MessageProducer) -> None:
        self._number += 1
        xid = Xid(FORMAT_ID, self.name.encode() + b"-%d" % self._number, b"run")
        sent = {Sent(self.name, self._number * MESSAGES + at) for at in range(MESSAGES)}
        try:
            await resource.start(xid)
            for each in sorted(sent):
                await producer.send(message_of(each, self._chance))
            await resource.end(xid)
            self._preparing[xid] = sent
            code = await resource.prepare(xid)
        except (XAException, JMSException) as error:
            if xid not in self._preparing:
                self._account.undone |= sent
            elif isinstance(error, XAException) and is_rolled_back(error.error_code):
                self._account.undone |= self._preparing.pop(xid)
            raise BreakSeen from error
        if code is not XaCode.XA_OK:
            self._problem(f"{xid} has messages, and its prepare answers {code.name}")
        self._prepared[xid] = self._preparing.pop(xid)

    async def _decide(self, resource: XAResource, xid: Xid, commit: bool) -> None:
        self._decided[xid] = commit
        try:
            await (resource.commit(xid) if commit else resource.rollback(xid))
        except XAException as error:
            if error.error_code != XaCode.XAER_RMFAIL:
                self._problem(f"{xid} was prepared, and its decision is answered {error.error_code.name}")
            raise BreakSeen from error
        self._end(xid)

    def _end(self, xid: Xid) -> None:
        sent, commit = self._prepared.pop(xid), self._decided.pop(xid)
        if commit:
            self._account.accepted |= sent
        else:
            self._account.undone |= sent

    def _problem(self, text: str) -> None:
        self._account.problems.append(f"branch {text}")
