"""A ledger in memory with the real ledger's face: blocks are durable at once, or when told.

For tests of the server's own rules; everything about disks is tested with the real one.
"""

import os
from uuid import uuid4

from postroom.ledger.format.block import BlockBuilder, SealedParts
from postroom.ledger.options import LedgerOptions
from postroom.ledger.retention.kept_history import Keep
from postroom.ledger.retention.leases import Lease, Leases
from postroom.ledger.storage.body_requests import Body, BodyPlace


class MemoryLedger:
    """Keeps every block. With ``held`` set, a block becomes durable only by `let_go`."""

    def __init__(self, held: bool = False) -> None:
        self.ledger_id = uuid4()
        self.builder = BlockBuilder()
        self.leases = Leases(self.builder, Keep(), LedgerOptions(), [])
        self.space_short = self.space_low = False
        self.free_bytes = self.most_unsynced_bytes = 1 << 40
        self.held = held
        self.behind = False
        self.written_at_once = self.over = False
        self.maintenance_error: Exception | None = None
        self.maintenance_failure: Exception | None = None
        self.completion_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.blocks: list[SealedParts] = []
        self._in_flight: SealedParts | None = None

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    def tend(self, now_us: int) -> list[Lease]:
        return self.leases.tend(now_us, False)

    def mark_idle(self) -> bool:
        return False

    def submit(self) -> bool:
        parts = self.builder.take() if self._in_flight is None else None
        if parts is None:
            return False
        self._in_flight = parts
        if not self.held:
            self.let_go()
        return True

    def let_go(self) -> None:
        """The block in flight is durable now."""
        os.eventfd_write(self.completion_fd, 1)

    def complete(self) -> int:
        os.eventfd_read(self.completion_fd)
        parts, self._in_flight = self._in_flight, None
        assert parts is not None
        self.blocks.append(parts)
        self.leases.durable(parts.last_position)
        return parts.last_position

    def read_cached_bodies(self, wanted: list[BodyPlace]) -> list[Body] | None:
        """Never at once, so that tests see the other way."""
        return None

    def read_bodies(self, wanted: list[BodyPlace]) -> list[Body]:
        return [self._body(serial, offset, length) for serial, offset, length in wanted]

    def _body(self, serial: int, offset: int, length: int) -> bytes:
        for parts in self.blocks:
            if parts.first_position <= serial <= parts.last_position:
                return b"".join(parts.bodies)[offset : offset + length]
        raise KeyError(serial)

    def close(self) -> None:
        os.close(self.completion_fd)
