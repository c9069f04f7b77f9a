"""What is closed at the end of ``with``: the sync face.

Generated from aio/closable.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from postroom.client.aio import closable as aio
from postroom.client.sync.portal import Portal

__all__ = ["Closable"]


class Closable:
    """Something that ``with`` closes at its end."""

    def __init__(self, portal: Portal, inner: aio.Closable) -> None:
        self._portal = portal
        self._inner = inner

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; when it is closed already, do nothing."""
        if self._portal.is_running:
            self._portal.call(self._inner.close())
