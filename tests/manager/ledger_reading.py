"""What readers make of a queue manager's ledger."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postroom.ledger.reading.message_log import LogRecord, MessageLog
from postroom.ledger.reading.reader import LedgerReader
from tests.manager.over_ledger import LedgerWorld


def everything(definition: Mapping[str, Any], event: str) -> bool:
    """`Wants` for all destinations."""
    return True


def written(world: LedgerWorld, folder: Path) -> Path:
    """The ledger of a world as a folder."""
    world.write_out(folder)
    return folder


def logged(world: LedgerWorld, folder: Path, wants: Any = everything) -> list[LogRecord]:
    reader = LedgerReader(written(world, folder))
    return list(MessageLog(wants).records(reader, 1, reader.durable_through))


def events(records: list[LogRecord]) -> list[tuple[str, str, str]]:
    return [(each.event, each.destination, each.message_id) for each in records]
