"""Values that one client sends and another receives."""

from __future__ import annotations

from typing import Any


def received_as_sent(sent: dict[str, Any], received: dict[str, Any]) -> bool:
    """Maps have no order on the wire that a client must keep."""
    return bool(unordered(sent) == unordered(received))


def unordered(typed: Any) -> Any:
    """A typed value with the pairs of its maps in one order."""
    if isinstance(typed, dict):
        return {
            key: sorted(unordered(value), key=repr) if key == "map" else unordered(value)
            for key, value in typed.items()
        }
    if isinstance(typed, list):
        return [unordered(item) for item in typed]
    return typed
