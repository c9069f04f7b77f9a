"""Histories of a ledger beside a model of it, with restarts."""

from pathlib import Path

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from tests.ledger.inline_writer import InlineWriter
from tests.ledger.workload import START_US, Workload
from tests.simulation.disk import SimDisk

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)


HISTORY = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)


def opened(disk: SimDisk, options: LedgerOptions) -> Ledger:
    return Ledger.open(
        Path("simulated"), options, START_US, disk=disk, writer=InlineWriter(disk), maintenance="manual"
    )


def run(ledger: Ledger, work: Workload, steps: int, maintenance: bool) -> None:
    for step in range(steps):
        work.step()
        if step % 10 == 0:
            ledger.flush()
            if maintenance and step % 100 == 0:
                while ledger.maintenance_step():
                    pass
    ledger.flush()
