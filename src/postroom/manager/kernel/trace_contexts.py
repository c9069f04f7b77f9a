"""Trace contexts of messages, noted as they arrive for whoever makes spans of their lives.

The ledger tells the whole life of a message, but its context lies in its body, which the ledger doesn't have
of a non-persistent one, and which nobody wants to read of the others. So it is noted here, of those alone
whose sender records the trace and that the ratio chooses. Whoever follows the ledger takes the notes, in a
thread of its own.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.trace_context import TraceContext, trace_context_of

MAX_OPENING_BYTES: Final = 4 << 10
"""A context that begins behind so much of a message isn't looked for."""

_NAME: Final = b"traceparent"
_NAME_BYTES: Final = 11
_STRING8: Final = 0xA1
_TEXT_BYTES: Final = 55
"""A context as text, directly behind its name: a string's constructor, its length."""
_NINE: Final = 0x39
"""The last character that is a decimal digit: of those the even ones have even codes, of a to f odd ones."""
_LAST_FLAG: Final = 54
_DESCRIBED: Final = 0
_SMALL_ULONG: Final = 0x53
_FIRST_OF_BODY: Final = 0x75
"""Code of a data section; those before the body have lower ones."""
_LIST8: Final = 0xC0
_MAP8: Final = 0xC1
_LIST32: Final = 0xD0
_MAP32: Final = 0xD1
"""Constructors of what a section before the body may be."""
_HEAD_BYTES: Final = 8
"""Of a section: its descriptor, constructor and size, at most."""
_BITS: Final = 56


@final
class TraceContexts:
    """The notes that nobody has taken yet: (serial, context)."""

    def __init__(self, ratio: float, max_noted: int) -> None:
        """``ratio``: how many of the sampled traces are noted, 0 to 1. More notes than ``max_noted`` are
        dropped."""
        self._max_noted: Final = max_noted
        self._least: Final[int] = round((1.0 - ratio) * (1 << _BITS))
        self._noted: Final[deque[tuple[int, TraceContext]]] = deque()
        self.dropped: i64 = 0
        """Sampled messages that weren't noted, for want of room."""

    def note(self, serial: i64, opening: bytes) -> None:
        """A message has arrived that begins with these bytes."""
        end = _body_at(opening)
        at: i64 = opening.find(_NAME, 0, end)
        if at < 0 or _is_plainly_unsampled(opening, at, end):
            return
        context = context_of(opening)
        if context is None or not self.chooses(context):
            return
        if len(self._noted) >= self._max_noted:
            self.dropped += 1
            return
        self._noted.append((int(serial), context))

    def chooses(self, context: TraceContext) -> bool:
        """Whether its sender records the trace and the ratio chooses it: by the last 56 bits of its id, so
        that all who follow OpenTelemetry's consistent sampling choose the same."""
        return context.is_sampled() and int.from_bytes(context.trace_id[9:], "big") >= self._least

    def take(self) -> list[tuple[int, TraceContext]]:
        """The notes, which are here no more; in any one thread."""
        return [self._noted.popleft() for _ in range(len(self._noted))]


def context_of(opening: bytes) -> TraceContext | None:
    """The context of the message that begins with these bytes, which have every section before its body."""
    try:
        return trace_context_of(MessageFields(0, False, 0, opening, None))
    except AmqpError:
        return None


def _body_at(opening: bytes) -> i64:
    """Where the sections before the body end, so that no body is searched; `MAX_OPENING_BYTES` at most, or
    where that isn't plain."""
    at: i64 = 0
    last: i64 = len(opening) - _HEAD_BYTES
    while at <= last and at < MAX_OPENING_BYTES:
        if opening[at] != _DESCRIBED or opening[at + 1] != _SMALL_ULONG:
            return MAX_OPENING_BYTES
        code: i64 = opening[at + 2]
        if code >= _FIRST_OF_BODY:
            return at
        kind: i64 = opening[at + 3]
        if kind in (_LIST8, _MAP8):
            at += 5 + opening[at + 4]
        elif kind in (_LIST32, _MAP32):
            size: i64 = opening[at + 4] << 24 | opening[at + 5] << 16 | opening[at + 6] << 8 | opening[at + 7]
            at += 8 + size
        else:
            return MAX_OPENING_BYTES
    return MAX_OPENING_BYTES


def _is_plainly_unsampled(opening: bytes, at: i64, end: i64) -> bool:
    """Whether the name, which begins at ``at``, stands there once before ``end``, with a text that says so:
    where all are traced and few are sampled, the maps of most needn't be decoded."""
    behind = at + _NAME_BYTES
    last = behind + 2 + _LAST_FLAG
    if last >= len(opening) or opening[behind] != _STRING8 or opening[behind + 1] != _TEXT_BYTES:
        return False
    digit: i64 = opening[last]
    is_even = digit & 1 == (0 if digit <= _NINE else 1)
    return is_even and opening.find(_NAME, behind, end) < 0
