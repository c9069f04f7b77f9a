"""`postroom dlq handle`: the dead-letter queue handler as a client of a broker.

It takes the messages of the queue as they come and decides each by the rules. What it forwards goes off the
queue and onto the other in one transaction, and so does what it discards: killed at any moment it has lost
nothing and made nothing twice. What waits for another try, it keeps unsettled; what it leaves alone stays on
the queue, for others, and doesn't come to it again while it runs.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.channel.rules.handler import Attempt, Handler, Left, Why
from postroom.channel.rules.letter_fields import letter_of
from postroom.channel.rules.table import Action, RulesTable
from postroom.cli.common.message_selection import id_text
from postroom.client import InvalidDestinationException, JMSException, TlsOptions
from postroom.client.aio import Connection, ConnectionFactory, ManagementClient
from postroom.client.aio.relay import MAX_TARGETS, ComesAgain, Relay, sent_on
from postroom.client.connection.receiver_link import Incoming
from postroom.manager.administration.dead_letter_handlers import without_header
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE, QUEUE_TYPE, REMOTE_QUEUE_TYPE
from postroom.model.names import full_address

MAX_AT_HAND: Final = 1000
"""Messages that wait for another try, or for their first; more stay with the broker meanwhile."""
MAX_UNDER_WAY: Final = 32
"""Transactions at a time."""
US_A_SECOND: Final = 1_000_000
CHECK_AGAIN_US: Final = US_A_SECOND
"""So long a queue that was safe to forward to is taken to be."""

DONE: Final = {Action.DISCARD: "discarded", Action.RETRY: "retried", Action.FWD: "forwarded"}

Report = Callable[[dict[str, Any]], None]
"""Told of everything that is done with a message, or isn't."""


class UnsafeTarget(Exception):
    """Forwarding there could lose the message."""


class NoTarget(Exception):
    """There is nothing of that name, and nothing is to be created by forwarding there."""


class Agent:
    """One run of the handler over one queue of one broker."""

    def __init__(
        self,
        connection: Connection,
        management: ManagementClient,
        relay: Relay,
        table: RulesTable,
        report: Report,
    ) -> None:
        self._connection = connection
        self._management = management
        self._relay = relay
        self._report = report
        self._handler = Handler(table, _now_us())
        self._at_hand: dict[int, tuple[Incoming, MessageFields]] = {}
        self._count = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._checked: dict[str, int] = {}
        """When a queue was last seen to be safe."""
        self.counts: Counter[str] = Counter()
        """Messages, by what became of them."""

    async def run(self) -> None:
        """Go on until there is nothing left to do, as the table's WAIT says. Raises what ends the
        connection."""
        while True:
            while (incoming := self._relay.at_once()) is not None:
                self._take_in(incoming)
            if len(self._under_way) < MAX_UNDER_WAY:
                attempt = self._handler.attempt(_now_us())
                if attempt is not None:
                    await self._begin(attempt)
                    continue
            if self._under_way:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                self._reap()
            elif await self._wait():
                return

    async def finish(self) -> None:
        """Let what is under way come to its end."""
        if self._under_way:
            await asyncio.wait(self._under_way)
            with contextlib.suppress(JMSException):  # what ended the connection is told already
                self._reap()

    def _reap(self) -> None:
        for task in [task for task in self._under_way if task.done()]:
            self._under_way.remove(task)
            task.result()

    async def _wait(self) -> bool:
        """Until a message comes or something is due; whether the time is up."""
        ends_us = self._handler.ends_us()
        if 0 < ends_us <= _now_us():
            incoming = await self._relay.next_now()
            if incoming is None:
                return True
        else:
            incoming = await self._relay.next(self._patience_s(ends_us))
        if incoming is not None:
            self._take_in(incoming)
        return False

    def _patience_s(self, ends_us: int) -> float | None:
        """How long to wait for a message: until an attempt is due or the time is up."""
        moments = [due_us for due_us in (ends_us, self._handler.next_due_us()) if due_us]
        return max(min(moments) - _now_us(), 0) / US_A_SECOND if moments else None

    def _take_in(self, incoming: Incoming) -> None:
        head = scan_head(incoming.payload)
        sections = incoming.payload[int(head.bare_offset) :]
        fields = MessageFields(head.priority, head.durable, head.delivery_count, sections, None)
        self._count += 1
        self._at_hand[self._count] = incoming, fields
        letter = letter_of(fields, self._connection.broker_container_id)
        self._leave(self._handler.found(self._count, letter, _now_us()))

    def _leave(self, left: Left | None) -> None:
        if left is None:
            return
        incoming, fields = self._at_hand.pop(left.key)
        self._relay.leave(incoming)
        self._log("left", fields, left.rule.line if left.rule else 0, why=left.why.value)
        if left.why is Why.NO_HEADER:
            self.counts["without_header"] += 1

    async def _begin(self, attempt: Attempt) -> None:
        """See that it can go where it is to go, and begin; what goes there goes in this order."""
        incoming, _ = self._at_hand[attempt.key]
        if not self._relay.is_here(incoming):  # the connection broke: it comes again
            self._forget(attempt)
            return
        address = ""
        try:
            if attempt.rule.action is not Action.DISCARD:
                address = self._address(attempt)
                await self._check_target(address, attempt.destination[1])
                await self._relay.open_target(address)
        except (JMSException, UnsafeTarget, NoTarget) as refusal:
            self._failed(attempt, refusal)
        else:
            self._under_way.add(asyncio.ensure_future(self._carry_out(attempt, incoming, address)))

    async def _carry_out(self, attempt: Attempt, incoming: Incoming, address: str) -> None:
        _, fields = self._at_hand[attempt.key]
        try:
            if attempt.rule.action is Action.DISCARD:
                await self._relay.discard(incoming)
            else:
                header, sections = sent_on(incoming.payload)
                body = sections if attempt.keeps_header else without_header(sections)
                await self._relay.forward(incoming, address, header + body)
        except ComesAgain:
            self._forget(attempt)
        except JMSException as refusal:
            self._failed(attempt, refusal)
        else:
            self._forget(attempt)
            self._log(DONE[attempt.rule.action], fields, attempt.rule.line, to=address)

    def _failed(self, attempt: Attempt, refusal: Exception) -> None:
        if self._connection.is_closed:
            raise refusal
        incoming, fields = self._at_hand[attempt.key]
        if not self._relay.is_here(incoming):
            self._forget(attempt)
            return
        self._log("failed", fields, attempt.rule.line, attempt=attempt, why=str(refusal))
        self._leave(self._handler.failed(attempt.key, _now_us()))

    def _forget(self, attempt: Attempt) -> None:
        self._handler.done(attempt.key, _now_us())
        del self._at_hand[attempt.key]

    def _address(self, attempt: Attempt) -> str:
        queue, manager = attempt.destination
        if not queue.strip():
            raise UnsafeTarget("the message names no queue to put it to")
        return full_address(queue, "" if manager == self._connection.broker_container_id else manager)

    async def _check_target(self, address: str, manager: str) -> None:
        """Raise UnsafeTarget for a queue that remembers message ids: it may know this one's from before, and
        would accept and drop it; NoTarget for one of this queue manager that isn't there: a link to it would
        create it."""
        if _now_us() < self._checked.get(address, 0) + CHECK_AGAIN_US:
            return
        found = await self._read(QUEUE_TYPE, address)
        here = manager in ("", self._connection.broker_container_id)
        if found is None and here and await self._read(REMOTE_QUEUE_TYPE, address) is None:
            own = self._connection.broker_container_id
            raise NoTarget(f"there is no queue {address!r} at queue manager {own!r}")
        if found is not None and found.get("duplicate_window"):
            raise UnsafeTarget(
                f"queue {address!r} drops messages whose ids it remembers (duplicate_window), as it may this "
                "one's: use `postroom dlq replay`, or a handler inside the broker"
            )
        if len(self._checked) >= MAX_TARGETS:
            self._checked.clear()
        self._checked[address] = _now_us()

    async def _read(self, kind: str, name: str) -> dict[str, Any] | None:
        """The attributes of a queue or definition; None: there is none of that name."""
        try:
            return await self._management.read(kind, name)
        except InvalidDestinationException:
            return None

    def _log(
        self,
        event: str,
        fields: MessageFields,
        line: int,
        *,
        attempt: Attempt | None = None,
        why: str = "",
        to: str = "",
    ) -> None:
        self.counts[event] += 1
        message_id = fields.value("amqp.message_id")
        record: dict[str, Any] = {"event": event, "line": line}
        if message_id is not None:
            record["message_id"] = id_text(message_id)
        if attempt is not None:
            record |= {"attempt": attempt.number, "of": attempt.rule.retry_count}
        self._report({key: value for key, value in (record | {"why": why, "to": to}).items() if value})


async def handle(
    url: str,
    table: RulesTable,
    input_queue: str,
    input_manager: str,
    report: Report,
    tls: TlsOptions | None = None,
) -> dict[str, int]:
    """Handle the dead letters of a queue by ``table``: counts of messages by what became of them.

    ``input_queue`` and ``input_manager`` ("" as the table says) are those of the command line. Raises
    JMSException, ValueError.
    """
    async with await ConnectionFactory(url, tls=tls).create_connection() as connection:
        management = await connection.create_management()
        queue = await _input_queue(connection, management, table, input_queue, input_manager)
        report({"event": "started", "queue": queue, "rules": len(table.rules)})
        relay = await Relay.open(connection, queue, MAX_AT_HAND)
        agent = Agent(connection, management, relay, table, report)
        try:
            await agent.run()
        finally:
            await agent.finish()
            if not connection.is_closed:
                await relay.close()
        return dict(agent.counts)


async def _input_queue(
    connection: Connection,
    management: ManagementClient,
    table: RulesTable,
    input_queue: str,
    input_manager: str,
) -> str:
    """The queue that is meant. Raises ValueError if it can't be known, or is not at this broker."""
    wanted = input_manager.strip() or table.control.input_queue_manager
    if wanted and wanted != connection.broker_container_id:
        raise ValueError(
            f"the rules are for queue manager {wanted!r} (INPUTQM), and this is "
            f"{connection.broker_container_id!r}: give its --url, or another --inputqm"
        )
    queue = input_queue.strip() or table.control.input_queue
    if not queue:
        queue = str((await management.read(BROKER_TYPE, BROKER_NAME)).get("dead_letter_queue") or "")
    if not queue:
        raise ValueError(
            "queue manager has no dead-letter queue (dead_letter_queue in [queue_manager]): "
            "name one with --inputq or INPUTQ"
        )
    return queue


def _now_us() -> int:
    return time.monotonic_ns() // 1000
