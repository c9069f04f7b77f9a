"""The ledger: every event of every message, appended, synced, folded, kept small.

`records` and `block` are pure and compiled: what the queue manager writes through. `Ledger` is the rest for
the server: the folder, the commit thread, recovery, bodies, background work. `reader`, `verify` and `stats`
read a ledger offline or beside a running broker. Files are touched only through `disk`. The bytes are
documented in ``FORMAT.md``, the recovery decisions in `cases`. Imports nothing above `model`.
"""

from postroom.ledger.block import BlockBuilder, Group, encode_groups
from postroom.ledger.errors import LedgerCorrupt, LedgerError, LedgerFailed, LedgerLocked
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.recovered import EntryRow, HolderRow, Recovered, RecoveryReport, TotalRow

__all__ = [
    "BlockBuilder",
    "EntryRow",
    "Group",
    "HolderRow",
    "Ledger",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerFailed",
    "LedgerLocked",
    "LedgerOptions",
    "Recovered",
    "RecoveryReport",
    "TotalRow",
    "encode_groups",
]
