"""The life of a message as the ledger tells it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from postroom.client.exceptions import JMSException
from postroom.client.messages.message_ids import id_of_jms
from postroom.ledger.reading.dump import Line
from postroom.ledger.reading.trace import MessageId, trace
from postroom.model.codes import IdType
from postroom.testing.errors import UnknownMessage

ULONG_BYTES = 8


@dataclass(frozen=True)
class Event:
    """One event of a message, or of one that was made of it: a dead letter, for example."""

    event: str
    """What happened, as in docs/reference/life-cycle.md."""
    queue: str
    from_state: str
    to_state: str
    outcome: str
    """How it ended by this event; "" it didn't."""
    time: datetime
    """By the broker's clock."""
    serial: int
    """Of the message; what was made of it has one of its own."""
    position: int
    """Of the record in the ledger."""
    details: Line
    """All that `postroom trace --json` tells."""

    def __str__(self) -> str:
        end = f", {self.outcome}" if self.outcome else ""
        return f"{self.queue}/{self.serial} {self.event}: {self.from_state} → {self.to_state}{end}"


def history_of(files: dict[str, bytes], message_id: str | int | bytes | UUID) -> list[Event]:
    """What the ledger with these files tells, oldest first. Raises UnknownMessage, ValueError,
    ``TooManyMessages``."""
    with TemporaryDirectory(prefix="postroom-testing-") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        events = [_event(line) for line in trace(Path(folder), _ledger_id(message_id), True)]
    if not events:
        raise UnknownMessage(message_id)
    return events


def _ledger_id(value: str | int | bytes | UUID) -> MessageId:
    try:
        value = id_of_jms(value) or "" if isinstance(value, str) else value
        if isinstance(value, UUID):
            return MessageId(value.bytes, IdType.UUID)
        if isinstance(value, bytes):
            return MessageId(value, IdType.BINARY)
        if isinstance(value, str):
            return MessageId(value.encode(), IdType.STRING)
        if isinstance(value, int) and not isinstance(value, bool):
            return MessageId(value.to_bytes(ULONG_BYTES, "big"), IdType.ULONG)
    except (JMSException, OverflowError) as error:
        raise ValueError(f"{value!r} is no message id: {error}") from None
    raise TypeError(f"a message id is a str, int, bytes or UUID, not {type(value).__name__}")


def _event(line: Line) -> Event:
    return Event(
        event=line["event"],
        queue=line["queue"],
        from_state=line["from"],
        to_state=line["to"],
        outcome=line.get("outcome", ""),
        time=datetime.fromisoformat(line["time"]),
        serial=line["serial"],
        position=line["position"],
        details=line,
    )
