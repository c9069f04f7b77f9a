"""What a receiving channel does with a message that can't be put: its steps, in IBM MQ's order.

1. **Message retry.** Where a retry exit is named it is asked after every failed attempt, whatever the reason,
   and says how long to wait or to stop. Without one the channel tries again only for reasons that may pass
   (`model.mq.is_transient`), as often and as far apart as its definition says. Nothing else is taken
   meanwhile, so that nothing is overtaken.
2. **Exception report**, if the message asks for one.
3. **The message itself.** One that asks to be discarded is discarded; any other goes to the dead-letter
   queue. A message that asks for an exception report with all its data, to be discarded, and says where to
   reply is *returned to its sender*: its report is the message coming back. If it can't be returned it goes
   to the dead-letter queue like one that never asked.
4. **No dead-letter queue** (none is defined, it can't take the message, or USEDLQ(NO)): what travelled in the
   batch stays with the sender: the batch is backed out and the sending end retries. A non-persistent message
   of a fast channel is in no batch; it is dropped, and the ledger says so.

`NEXT` has these steps as a table of everything that they depend on. `UndeliveredHandler` walks it for one
message at a time; who holds the receiving end (the message channel agent) carries the steps out.

Sources: seed "what happens when a message cannot be delivered"; IBM MQ, "Undelivered messages", "Channel
message-retry exit".
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, final

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.channels.undelivered import Action, OnFailure, ReceivedMessage
from postroom.model import mq
from postroom.model.channel import MAX_RETRIES, ChannelDefinition
from postroom.model.mq import Undelivered

MAX_EXIT_COMPLAINT_CHARS: Final = 1024
"""Of what is said about an exit that fails; what its error says beyond that is cut off."""


class Stage(IntEnum):
    """What has just happened to the message, once no attempt to put it is left."""

    PUT_FAILED = 0
    REPORT_PUT = 1
    """Its exception report is on its way; where that returns the message, the message is."""
    REPORT_FAILED = 2
    """It could be put nowhere."""
    DEAD_LETTER_PUT = 3
    DEAD_LETTER_FAILED = 4
    ENDED = 5
    """It was discarded, returned or dropped, and the ledger says so."""


def _last_resort(dead_letters: bool, fast: bool) -> Action:
    if dead_letters:
        return Action.DEAD_LETTER
    return Action.DROP if fast else Action.BACK_OUT


def _row(requested: OnFailure, dead_letters: bool, fast: bool) -> dict[Stage, Action]:
    resort = _last_resort(dead_letters, fast)
    first = {
        OnFailure.NOTHING: resort,
        OnFailure.DISCARD: Action.DISCARD,
        OnFailure.REPORT: Action.PUT_REPORT,
        OnFailure.REPORT_AND_DISCARD: Action.PUT_REPORT,
        OnFailure.RETURN: Action.PUT_REPORT,
    }
    then = {
        OnFailure.REPORT: resort,
        OnFailure.REPORT_AND_DISCARD: Action.DISCARD,
        OnFailure.RETURN: Action.RETURN_TO_SENDER,
    }
    return {
        Stage.PUT_FAILED: first[requested],
        Stage.REPORT_PUT: then.get(requested, resort),
        Stage.REPORT_FAILED: resort,
        Stage.DEAD_LETTER_PUT: Action.DONE,
        Stage.DEAD_LETTER_FAILED: _last_resort(False, fast),
        Stage.ENDED: Action.DONE,
    }


NEXT: Final = {
    (stage, requested, dead_letters, fast): action
    for requested in OnFailure
    for dead_letters in (False, True)
    for fast in (False, True)
    for stage, action in _row(requested, dead_letters, fast).items()
}
"""(stage, what the message asks for, whether the dead-letter queue may be used, whether it is in no batch) →
what to do."""

_PUT_BY: Final = {
    Action.PUT_REPORT: (Stage.REPORT_PUT, Stage.REPORT_FAILED),
    Action.DEAD_LETTER: (Stage.DEAD_LETTER_PUT, Stage.DEAD_LETTER_FAILED),
}


@final
class RetryRequest:
    """What a retry exit is given."""

    __slots__ = ("attempt", "channel", "data", "header", "undelivered", "wait_ms")

    def __init__(
        self,
        channel: str,
        undelivered: Undelivered,
        header: MessageFields,
        attempt: int,
        data: str,
        wait_ms: int,
    ) -> None:
        self.channel = channel
        self.undelivered = undelivered
        """Why, where to: ``reason`` (MQRC_), ``queue``, ``queue_manager``, ``description``."""
        self.header = header
        """The message's: ``value("JMSMessageID")`` and so on, ``application_property(name)``,
        ``annotation(name)``."""
        self.attempt = attempt
        """How often it has been put: 1 after the first time."""
        self.data = data
        """``message_retry_data`` of the channel."""
        self.wait_ms = wait_ms
        """``message_retry_interval_ms`` of the channel."""


@final
class Wait:
    """An answer of a retry exit: put it again in ``wait_ms``; outside of 0 to 999,999,999 means the
    channel's own interval."""

    def __init__(self, wait_ms: int = -1) -> None:
        self.wait_ms = wait_ms


@final
class Stop:
    """An answer of a retry exit: no more attempts."""


RetryExit = Callable[[RetryRequest], object]
"""Answers `Wait` or `Stop`; what it raises, and anything else that it answers, means stop."""


@final
class Step:
    """What to do now. ``wait_ms`` belongs to WAIT; ``complaint`` is for the log: the exit misbehaved."""

    __slots__ = ("action", "complaint", "wait_ms")

    def __init__(self, action: Action, wait_ms: int = 0, complaint: str = "") -> None:
        self.action = action
        self.wait_ms = wait_ms
        self.complaint = complaint


@final
class UndeliveredHandler:
    """Takes what can't be put through its steps, for one receiving end and one message at a time.

    Carry out what `begin` says and tell `next` how it went, until the action is DONE or BACK_OUT.
    """

    def __init__(self, definition: ChannelDefinition, retry_exit: RetryExit | None) -> None:
        self._definition = definition
        self._exit = retry_exit
        self._message: ReceivedMessage | None = None
        self._action = Action.DONE
        self._attempts = 0
        self.undelivered: Undelivered | None = None
        """Why the message could not be put, the last time."""

    def begin(self, undelivered: Undelivered, message: ReceivedMessage) -> Step:
        """``message`` could not be put, for the first time."""
        self._message = message
        self._attempts = 0
        return self._failed(undelivered)

    def next(self, failure: Undelivered | None) -> Step:
        """The last step was carried out; ``failure`` says that what it was to put (WAIT: the message again)
        could not be put."""
        if self._action is Action.WAIT:
            return self._failed(failure) if failure is not None else self._step(Action.DONE)
        put, failed = _PUT_BY.get(self._action, (Stage.ENDED, Stage.ENDED))
        return self._step(self._then(put if failure is None else failed))

    def _failed(self, undelivered: Undelivered) -> Step:
        self.undelivered = undelivered
        self._attempts += 1
        wait_ms, complaint = self._retry(undelivered)
        if wait_ms >= 0:
            return self._step(Action.WAIT, wait_ms, complaint)
        return self._step(self._then(Stage.PUT_FAILED), 0, complaint)

    def _then(self, stage: Stage) -> Action:
        assert self._message is not None
        message = self._message
        return NEXT[stage, message.requested, self._definition.use_dead_letter_queue, message.fast]

    def _step(self, action: Action, wait_ms: int = 0, complaint: str = "") -> Step:
        self._action = action
        if action in (Action.DONE, Action.BACK_OUT):
            self._message = None
        return Step(action, wait_ms, complaint)

    # Message retry.

    def _retry(self, undelivered: Undelivered) -> tuple[int, str]:
        """How long to wait for another attempt, −1 for none; and a complaint about the exit."""
        definition = self._definition
        if definition.message_retry_exit:
            return self._call_exit(undelivered)
        if mq.is_transient(undelivered.reason) and self._attempts <= definition.message_retry_count:
            return definition.message_retry_interval_ms, ""
        return -1, ""

    def _call_exit(self, undelivered: Undelivered) -> tuple[int, str]:
        definition, message = self._definition, self._message
        if self._exit is None:
            return -1, f"retry exit {definition.message_retry_exit!r} is not loaded"
        assert message is not None
        wait_ms = definition.message_retry_interval_ms
        request = RetryRequest(
            definition.name,
            undelivered,
            message.fields(),
            self._attempts,
            definition.message_retry_data,
            wait_ms,
        )
        try:
            answer = self._exit(request)
        except Exception as error:
            return -1, self._complaint(f"failed with {type(error).__name__}: {error}")
        return self._understood(answer, wait_ms)

    def _understood(self, answer: object, own_ms: int) -> tuple[int, str]:
        if isinstance(answer, Stop):
            return -1, ""
        if not isinstance(answer, Wait):
            return -1, self._complaint(f"answered {answer!r}; it is to answer Wait or Stop")
        wait_ms = answer.wait_ms
        if not isinstance(wait_ms, int) or not 0 <= wait_ms <= MAX_RETRIES:
            wait_ms = own_ms
        return wait_ms, ""

    def _complaint(self, what: str) -> str:
        definition = self._definition
        text = f"channel {definition.name}: retry exit {definition.message_retry_exit!r} {what}"
        return text[:MAX_EXIT_COMPLAINT_CHARS]
