"""Decoded messages from one process to another through shared memory: a prototype, to see what it costs.

A batch is written whole, then the other process is woken. A message in it is its lengths, a token, what its
head says in one number, then its id and its body: what the queue manager needs to take it without reading
AMQP. `bench.hand_over` compiles this module with mypyc, as the broker's hot modules are, and measures it.
Bodies are copied four times: into the batch, into the ring, out of the ring, out of the batch. Nothing of the
broker uses it.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

_LENGTH_BYTES: Final = 4
"""Before each batch in its slot."""
HEAD_BYTES: Final = 32
"""Before the id of each message in a batch."""


@final
class DecodedMessage:
    """What the queue manager's put needs of one message: what reading its transfer and its head has given."""

    __slots__ = ("bare_offset", "body", "durable", "message_id", "message_id_type", "priority", "token")

    def __init__(self, token: i64, message_id: bytes, body: bytes) -> None:
        self.token: i64 = token
        self.durable: bool = True
        self.priority: i64 = 4
        self.bare_offset: i64 = 0
        self.message_id_type: i64 = 0
        self.message_id: bytes = message_id
        self.body: bytes = body


def write_message(writer: BytesWriter, message: DecodedMessage) -> None:
    """One message, at the end of the batch."""
    write_i64_le(writer, len(message.body))
    write_i64_le(writer, len(message.message_id))
    write_i64_le(writer, message.token)
    write_i64_le(writer, message.bare_offset << 16 | message.message_id_type << 8 | message.priority << 1 | 1)
    writer.write(message.message_id)
    writer.write(message.body)


def read_messages(batch: bytes) -> list[DecodedMessage]:
    """An object of each, with an id and a body of its own."""
    found: list[DecodedMessage] = []
    at: i64 = 0
    end: i64 = len(batch)
    while at < end:
        body_at: i64 = at + HEAD_BYTES + read_i64_le(batch, at + 8)
        body_end: i64 = body_at + read_i64_le(batch, at)
        rest = read_i64_le(batch, at + 24)
        id_, body = batch[at + HEAD_BYTES : body_at], batch[body_at:body_end]
        message = DecodedMessage(read_i64_le(batch, at + 16), id_, body)
        message.durable = rest & 1 == 1
        message.priority = rest >> 1 & 0x7F
        message.message_id_type = rest >> 8 & 0xFF
        message.bare_offset = rest >> 16
        found.append(message)
        at = body_end
    return found


@final
class Ring:
    """Slots in shared memory, each for one batch, filled and emptied in turn by one process each. Neither
    tests whether it may: who fills has no more batches on their way than there are slots, and learns by the
    answers that they have been read; who empties is woken once for each."""

    def __init__(self, memory: memoryview, slots: i64) -> None:
        self._memory = memory
        self._slots = slots
        self._slot_bytes: i64 = len(memory) // slots
        self._batches: i64 = 0
        """Written or read so far."""

    def write(self, batch: bytes) -> None:
        """One batch into the next slot."""
        start = self._next()
        self._memory[start : start + _LENGTH_BYTES] = len(batch).to_bytes(_LENGTH_BYTES, "little")
        start += _LENGTH_BYTES
        self._memory[start : start + len(batch)] = batch

    def read(self) -> bytes:
        """The batch of the next slot."""
        start = self._next()
        length: i64 = int.from_bytes(self._memory[start : start + _LENGTH_BYTES], "little")
        start += _LENGTH_BYTES
        return bytes(self._memory[start : start + length])

    def _next(self) -> i64:
        start = self._batches % self._slots * self._slot_bytes
        self._batches += 1
        return start
