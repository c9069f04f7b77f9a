"""A queue manager over the real ledger on a disk in memory, so that it can be started again."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.recovery.recovered import Recovered
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.ledger.verification.verification import verify
from postroom.manager.kernel.effects import IdRead
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.manager import QueueManager
from tests.ledger.inline_writer import InlineWriter
from tests.manager.world import World
from tests.simulation.disk import SimDisk

COLUMNS = ("position", "serial", "queue", "from_state", "holder_kind", "event", "to_state", "outcome")


class LedgerWorld(World):
    """As `World`; records are not kept, since the ledger has them."""

    def __init__(self, options: ManagerOptions | None = None, retention_bytes: int = 16 << 30) -> None:
        super().__init__(options)
        self.ledger_options = LedgerOptions(
            journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=retention_bytes
        )
        self.disk = SimDisk()
        self._open()

    def _open(self) -> None:
        self.ledger = Ledger.open(
            Path("simulated"),
            self.ledger_options,
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

    def maintain(self) -> None:
        """Let the ledger seal, check-point and compact whatever it can."""
        self.ledger.flush()
        while self.ledger.maintenance_step():
            pass

    def check_whole(self, folder: Path) -> None:
        """`postroom ledger verify` finds nothing, bodies included."""
        self.write_out(folder)
        result = verify(folder, bodies=True)
        assert result.is_whole, result.findings

    def write_out(self, folder: Path) -> None:
        """The files as they are on the disk, for those who read a folder."""
        self.ledger.flush()
        self.ledger.mark_idle()
        self.ledger.wait()
        self.disk.write_out(folder)

    def recover(self) -> Recovered:
        """What a start from the disk as it is would find."""
        self.ledger.flush()
        disk = self.disk.copy()
        return Ledger.open(
            Path("simulated"),
            self.ledger_options,
            self.now_us,
            disk=disk,
            writer=InlineWriter(disk),
            maintenance="manual",
        ).recovered

    def rows(self) -> list[tuple[int, ...]]:
        """Every event of the whole ledger as a reader sees it: `COLUMNS` of each, in order of position."""
        with TemporaryDirectory() as name:
            folder = Path(name)
            self.write_out(folder)
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
