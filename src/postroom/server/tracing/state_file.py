"""What is known of traced messages that live, in the data folder: how they go on after a restart."""

from pathlib import Path
from typing import Final

from msgspec import DecodeError, Struct, field, json

from postroom.server.tracing.traced_messages import TracedMessage

STATE_NAME: Final = "traces.json"


class TraceState(Struct):
    """Through ``position`` all spans have been made of the ledger; these messages live there."""

    ledger_id: str
    position: int
    messages: dict[int, TracedMessage] = field(default_factory=dict)


class StateFile:
    """The file; one that can't be read counts for nothing: then what waits isn't traced on."""

    def __init__(self, folder: Path) -> None:
        self._path: Final = folder / STATE_NAME

    def read(self, ledger_id: str) -> TraceState | None:
        """What it holds of that ledger."""
        try:
            state = json.decode(self._path.read_bytes(), type=TraceState)
        except (OSError, DecodeError):
            return None
        return state if state.ledger_id == ledger_id else None

    def write(self, state: TraceState) -> None:
        """In place of what was there. Raises OSError."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(json.encode(state))
        fresh.replace(self._path)
