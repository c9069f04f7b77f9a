"""Messages that were refused though their senders had settled them: nobody hears of it but the ledger and the
log."""

import json
from typing import Final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.model import numbers as n

_MESSAGE_REFUSED: Final = int(RecordType.MESSAGE_REFUSED)
_MAX_CHARS: Final = 512
"""Of an address or description that a client may have made: so much of it is written to the ledger."""


def record_refused(
    core: Core, producer: Producer, address: str, size_bytes: i64, condition: str, description: str
) -> None:
    """A message was refused that its sender had settled: nobody hears of it but the ledger and the log."""
    if not producer.recorded:
        core.holders.open_producer(producer)
    record = {
        "address": address[:_MAX_CHARS],
        "bytes": size_bytes,
        "condition": condition,
        "description": description[:_MAX_CHARS],
    }
    detail = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
    core.effects.discard(address[:_MAX_CHARS], condition, description[:_MAX_CHARS])
    ledger = core.ledger
    ledger.record(_MESSAGE_REFUSED, ledger.next_position, 0, producer.id, 0, n.EVENT_DISCARD, detail)
