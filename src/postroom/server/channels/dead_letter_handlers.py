"""Dead-letter queue handlers inside the broker.

Each notices what comes to its queue, asks its rules, and has the queue manager carry out what they say: a
message goes from its queue to another in one block of the ledger, whose event says which rule it was. What a
rule leaves alone stays on the queue, for whoever takes it.

A handler that can't be begun is told in the log and by the management node; nobody else is harmed.
"""

import json
import logging
from collections import Counter
from typing import Final, cast

from postroom.channel.rules.handler import Attempt, Handler, Left, Why
from postroom.channel.rules.letter_fields import letter_of
from postroom.channel.rules.table import Action, Authority, RulesTable
from postroom.manager.administration.dead_letter_handlers import (
    RECHECK_US,
    Discard,
    Noticed,
    NoticeNew,
    Passed,
    Relay,
)
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError, NoMatchingMessage
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.queues.entry_lookup import serials_on
from postroom.manager.queues.queue import Queue
from postroom.model.names import full_address
from postroom.server.configuration.dead_letter_handlers import Loaded
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.logs import log

CONDITION: Final = "postroom:dead-letter-rule"
"""In the detail of the event that ends a message by a rule."""
MAX_AT_HAND: Final = 1000
"""Messages of one queue that wait for another try, or for their first; more are noticed later."""
MAX_UNDER_WAY: Final = 64
"""Attempts that the ledger has not answered yet."""
WAIT_US: Final = RECHECK_US
"""How long the queue manager is asked to wait for news; then it is asked again."""
AGAIN_US: Final = 10 * 1_000_000
"""When to ask again where the queue isn't there, or too many requests are waiting."""
MIN_KNOWN: Final = 1024
DONE: Final = {Action.DISCARD: "discarded", Action.RETRY: "retried", Action.FWD: "forwarded"}


class DeadLetterHandlers:
    """All of one broker."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self.refused: list[Loaded] = []
        """Those that couldn't be begun."""
        self.running: list[QueueHandler] = []

    def begin(self, handlers: list[Loaded], now_us: int) -> None:
        """Begin those that have a table."""
        for each in handlers:
            if each.table is None:
                self.refused.append(each)
            else:
                self.running.append(QueueHandler(self._broker, each.queue, each.rules, each.table, now_us))
        for handler in self.running:
            handler.on_time(now_us)

    def on_time(self, now_us: int) -> None:
        """Carry out what is due."""
        for handler in self.running:
            if 0 < handler.next_deadline_us() <= now_us:
                handler.on_time(now_us)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return min((due for each in self.running if (due := each.next_deadline_us())), default=0)


class QueueHandler(Asker):
    """The handler of one queue; as an asker it is told what is new there."""

    def __init__(self, broker: BrokerState, queue: str, rules: str, table: RulesTable, now_us: int) -> None:
        super().__init__()
        self.queue: Final = queue
        self.rules: Final = rules
        """The file."""
        self.table: Final = table
        self.counts: Final[Counter[str]] = Counter()
        """What was done since the start: retried, forwarded, discarded, failed (attempts), left,
        without_header."""
        self._broker = broker
        self._handler = Handler(table, now_us)
        self._known: set[int] = set()
        """Serials of what is at hand or was left alone."""
        self._passed = Passed()
        self._is_requested = False
        self._request_us = now_us
        """When to ask for news, while nobody is asked."""
        self._under_way = 0

    @property
    def at_hand_count(self) -> int:
        """Messages that something is still to be done with."""
        return self._handler.held_count

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        attempt_us = self._handler.next_due_us() if self._under_way < MAX_UNDER_WAY else 0
        request_us = self._request_us if self._may_request() else 0
        return min((due for due in (attempt_us, request_us) if due), default=0)

    def on_time(self, now_us: int) -> None:
        """Carry out what is due."""
        while self._under_way < MAX_UNDER_WAY:
            attempt = self._handler.attempt(now_us)
            if attempt is None:
                break
            self._carry_out(attempt, now_us)
        if self._may_request() and self._request_us <= now_us:
            self._request(now_us)

    # What is new.

    def _may_request(self) -> bool:
        return not self._is_requested and self._handler.held_count < MAX_AT_HAND

    def _request(self, now_us: int) -> None:
        queue = self._input()
        if queue is None:
            self._request_us = now_us + AGAIN_US
            return
        self._prune(queue)
        request = NoticeNew(queue, self, self._known, self._passed)
        request.until_us = now_us + WAIT_US
        self._is_requested = self._begin(request, now_us)

    def _input(self) -> Queue | None:
        """The queue, if it is there and may be taken from."""
        queue = self._broker.manager.queues.get(self.queue)
        if queue is None:
            log(logging.WARNING, "dead-letter-queue-missing", queue=self.queue, rules=self.rules)
            return None
        return None if queue.switches.consumption_paused else queue

    def _begin(self, request: StoreRequest, now_us: int) -> bool:
        try:
            self._broker.manager.submit_request(request, now_us)
        except ManagerError as refused:
            log(logging.WARNING, "dead-letter-handler-waits", queue=self.queue, reason=refused.description)
            self._request_us = now_us + AGAIN_US
            return False
        return True

    def _prune(self, queue: Queue) -> None:
        """Forget what others have taken meanwhile."""
        if len(self._known) > max(2 * int(queue.statistics.depth), MIN_KNOWN):
            self._known &= set(serials_on(queue).tolist())

    def answered(self, payload: object, now_us: int) -> None:
        """What is new on the queue."""
        self._is_requested = False
        self._request_us = now_us
        if isinstance(payload, ManagerError):
            if not isinstance(payload, NoMatchingMessage):
                self._request_us = now_us + AGAIN_US
        elif isinstance(payload, list):
            for noticed in payload:
                self._take_in(noticed, now_us)
        self.on_time(now_us)

    def _take_in(self, noticed: Noticed, now_us: int) -> None:
        serial = int(noticed.serial)
        self._known.add(serial)
        letter = letter_of(noticed.fields, self._broker.config.container_id)
        self._leave(self._handler.found(serial, letter, now_us))

    def _leave(self, left: Left | None) -> None:
        if left is None:
            return
        self.counts["left"] += 1
        level = logging.INFO
        if left.why is Why.NO_HEADER:
            self.counts["without_header"] += 1
            level = logging.WARNING
        line = left.rule.line if left.rule else None
        log(level, "dead-letter-left", queue=self.queue, message=left.key, rule=line, reason=left.why.value)

    # What is done.

    def _carry_out(self, attempt: Attempt, now_us: int) -> None:
        queue = self._input()
        if queue is None:
            self._known.discard(attempt.key)
            self._handler.done(attempt.key, now_us)
            return
        asker = _Attempted(self, attempt)
        self._under_way += 1
        if attempt.rule.action is Action.DISCARD:
            request: StoreRequest = Discard(queue, asker, attempt.key, _detail(self.queue, attempt, ""))
        else:
            detail = _detail(self.queue, attempt, full_address(*attempt.destination))
            request = Relay(queue, asker, attempt.key, attempt.destination, attempt.keeps_header, detail)
        if not self._begin(request, now_us):
            self.attempted(attempt, NoMatchingMessage("the queue manager is busy"), now_us)

    def attempted(self, attempt: Attempt, answer: object, now_us: int) -> None:
        """How it went."""
        self._under_way -= 1
        serial, line = attempt.key, attempt.rule.line
        if isinstance(answer, NoMatchingMessage):  # somebody has it: if it comes back, it is new
            self._known.discard(serial)
            self._handler.done(serial, now_us)
        elif isinstance(answer, ManagerError):
            self.counts["failed"] += 1
            log(
                logging.INFO,
                "dead-letter-attempt-failed",
                queue=self.queue,
                message=serial,
                rule=line,
                attempt=f"{attempt.number} of {attempt.rule.retry_count}",
                reason=answer.description,
            )
            self._leave(self._handler.failed(serial, now_us))
        else:
            done = DONE[attempt.rule.action]
            self.counts[done] += 1
            self._known.discard(serial)
            self._handler.done(serial, now_us)
            to = answer if isinstance(answer, str) else None
            log(logging.INFO, "dead-letter-" + done, queue=self.queue, message=serial, rule=line, to=to)


class _Attempted(Asker):
    """Told how one attempt went."""

    def __init__(self, handler: QueueHandler, attempt: Attempt) -> None:
        super().__init__()
        self._handler = handler
        self._attempt = attempt

    def answered(self, payload: object, now_us: int) -> None:
        self._handler.attempted(self._attempt, payload, now_us)
        self._handler.on_time(now_us)


def _detail(queue: str, attempt: Attempt, to: str) -> bytes:
    """What the ledger is told with the message's end."""
    rule = attempt.rule
    detail: dict[str, object] = {
        "condition": CONDITION,
        "handler": queue,
        "rule": rule.line,
        "action": rule.action.value,
        "attempt": attempt.number,
        "reason": attempt.letter.reason,
    }
    if to:
        detail["to"] = to
    if rule.authority is Authority.CTX:
        detail["user"] = attempt.letter.user_id
    return json.dumps(detail, ensure_ascii=False).encode("utf-8", "replace")


def dead_letter_handlers_of(broker: BrokerState) -> DeadLetterHandlers:
    """Those of a broker."""
    return cast(DeadLetterHandlers, broker.state(DeadLetterHandlers))
