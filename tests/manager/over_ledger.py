"""A queue manager over the real ledger on a disk in memory, so that it can be started again."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from postroom.ledger import Ledger, LedgerOptions
from postroom.ledger.body import Body, BodyPlace
from postroom.ledger.reader import LedgerReader
from postroom.ledger.recovered import Recovered
from postroom.ledger.writer import InlineWriter
from postroom.manager.effects import IdRead
from postroom.manager.manager import QueueManager
from postroom.manager.options import ManagerOptions
from tests.manager.world import World
from tests.simulation.disk import SimDisk

COLUMNS = ("position", "serial", "queue", "from_state", "holder_kind", "event", "to_state", "outcome")


class LedgerWorld(World):
    """As `World`; records are not kept, since the ledger has them."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        super().__init__(options)
        self.disk = SimDisk()
        self._open()

    def _open(self) -> None:
        self.ledger = Ledger.open(
            Path("simulated"),
            LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0),
            self.now_us,
            disk=self.disk,
            writer=InlineWriter(self.disk),
            maintenance="manual",
        )
        self.builder = self.ledger.builder
        self.manager = QueueManager(self.options, self.builder)
        self.manager.restore(self.ledger.recovered, self.now_us)
        self._producer = self.manager.open_producer("sender", "test", "")

    def restart(self) -> None:
        """Start again, with everything on the disk."""
        self.ledger.flush()
        self.crash()

    def crash(self) -> None:
        """Start again from what is on the disk."""
        self.disk = self.disk.copy()
        self.delivered.clear()
        self._open()

    def recover(self) -> Recovered:
        """What a start from the disk as it is would find."""
        self.ledger.flush()
        disk = self.disk.copy()
        options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)
        return Ledger.open(
            Path("simulated"),
            options,
            self.now_us,
            disk=disk,
            writer=InlineWriter(disk),
            maintenance="manual",
        ).recovered

    def rows(self) -> list[tuple[int, ...]]:
        """Every event of the whole ledger as a reader sees it: `COLUMNS` of each, in order of position."""
        self.ledger.flush()
        self.ledger.mark_idle()
        self.ledger.wait()
        with TemporaryDirectory() as name:
            folder = Path(name)
            for file_name in self.disk.names():
                (folder / file_name).write_bytes(self.disk.open(file_name).view())
            found: list[tuple[int, ...]] = []
            for rows in LedgerReader(folder).rows():
                found += zip(*(rows[column].tolist() for column in COLUMNS), strict=True)
        return sorted(found)

    def _commit(self) -> bool:
        wrote = not self.builder.empty()
        position = self.ledger.flush()
        if wrote:
            self.manager.durable(position, self.now_us)
        return wrote

    def _read_ids(self, read: IdRead) -> list[Any]:
        if read.all_serials is None:
            return list(self.ledger.read_ids(read.serials))
        serials: Any = read.all_serials
        return list(self.ledger.hash_ids(serials))

    def _read(self, wanted: list[BodyPlace]) -> list[Body]:
        return self.ledger.read_bodies(wanted)
