"""What a run of the pipeline is told, the bounds that it keeps, and the settings that stay with the
tables."""

from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from postroom.spark.pipeline.errors import PipelineError, SettingsConflict
from postroom.spark.pipeline.root import Root
from postroom.spark.store.protocol import CHECKPOINT_COMMITS, SETTINGS_FILE
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.policy import Policy

PARTITION_RECORDS: Final = 600_000
"""Records that one task reads: all their rows are in its memory at once (about 400 bytes each)."""

BATCH_RECORDS: Final = 2_000_000
"""Records of one batch at most: what is read again after a crash, and how long a batch lasts when catching
up."""

INTERVAL_MS: Final = 500
"""A continuous pipeline looks for new records so often."""

SMALL_BATCH_ROWS: Final = 100_000
"""A range of up to so many rows gives each table one file of partial rows; which of them are done is left to
the next settling, so that a pipeline that keeps up with live traffic doesn't leave a trail of tiny files."""

SETTLE_ROWS: Final = 500_000
"""Partial rows are settled when more than this, and more than were left by the last settling, have come
since."""

SETTLE_FILES: Final = 400
"""…or when they lie in so many files: each costs its reader a few milliseconds."""

SETTLE_INTERVAL_S: Final = 60
"""…or when so long has passed, as many have come as were left, or they are few (`FEW_ROWS`)."""

FEW_ROWS: Final = 20_000
"""Partial rows that may be settled whenever it is of use: less than a tenth of a second."""

SETTLE_BUCKET_ROWS: Final = 1_000_000
"""Rows that one task of a settling folds, about."""

COMPACT_INTERVAL_S: Final = 120
VACUUM_INTERVAL_S: Final = 3600
VACUUM_RETENTION_S: Final = 24 * 3600
"""Old versions stay readable so long."""
TARGET_FILE_BYTES: Final = 128 * 1024 * 1024
TINY_FILE_BYTES: Final = 4 * 1024 * 1024
"""While a pipeline is catching up, only finished files smaller than this are put together; all that are
smaller than half the target when it has caught up."""

LEASE_HEARTBEAT_S: Final = 10
LEASE_PAUSE_S: Final = 1.0
"""So long a new lease must stand before it counts."""
LEASE_TIMEOUT_S: Final = 60
"""Where files can't be locked, a pipeline that gave no sign for so long counts as gone."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """When a table is settled, compacted, and rid of what is old. Between batches only."""

    settle_rows: int = SETTLE_ROWS
    settle_files: int = SETTLE_FILES
    settle_interval_s: float = SETTLE_INTERVAL_S
    compact_interval_s: float = COMPACT_INTERVAL_S
    checkpoint_commits: int = CHECKPOINT_COMMITS
    vacuum_interval_s: float = VACUUM_INTERVAL_S
    vacuum_retention_s: int = VACUUM_RETENTION_S
    target_file_bytes: int = TARGET_FILE_BYTES
    tiny_file_bytes: int = TINY_FILE_BYTES


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """A run. `data`: the ledgers (see `places.place_of`); `tables`: the folder that the tables are in."""

    data: tuple[str, ...]
    tables: str
    format: str = ""
    """Of the tables; empty: that of those there are, else `store.DEFAULT_FORMAT`."""
    only: tuple[str, ...] = ()
    """Names of the tables to keep; empty: those kept so far, all of them at first."""
    token: str = ""
    continuous: bool = False
    """Go on until stopped; else end when all is read that there was at the start."""
    interval_ms: int = INTERVAL_MS
    batch_records: int = BATCH_RECORDS
    partition_records: int = PARTITION_RECORDS
    on_missing_ledger: Literal["fail", "drop"] = "fail"
    policy: Policy = field(default_factory=Policy)
    upkeep: Upkeep = field(default_factory=Upkeep)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables, in the order of their commits; one that is made from another's rows comes with that
        one."""
        wanted = set(self.only) or set(DEFINITIONS)
        unknown = wanted - set(DEFINITIONS)
        if unknown:
            raise SettingsConflict(
                f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(DEFINITIONS)}"
            )
        wanted |= {DEFINITIONS[name].source for name in wanted if DEFINITIONS[name].source != "events"}
        return tuple(name for name in DEFINITIONS if name in wanted)


class Settings(msgspec.Struct, frozen=True):
    """What stays with the tables: `_pipeline/settings.json`."""

    format: str
    tables: list[str]
    data: list[str]
    policy: dict[str, str]
    """What becomes of each personal column; the key of the hashes is kept nowhere, only what it is known
    by."""
    key_mark: str = ""
    known: tuple[str, ...] = tuple(name for name in DEFINITIONS if name != "acts")
    """All tables that the program knew that wrote this; those until 0.2.0 didn't say so."""


def load_settings(root: Root) -> Settings | None:
    """The settings of tables that there are; None before the first run. Raises ``PipelineError``: they are
    damaged, or another version's."""
    settings = root.noted(SETTINGS_FILE)
    try:
        return None if settings is None else msgspec.convert(settings, Settings)
    except msgspec.ValidationError as error:
        raise PipelineError(
            f"{root.uri}: another version of postroom has written {SETTINGS_FILE} ({error}): upgrade postroom"
        ) from error


def known_settings(root: Root) -> Settings:
    """The same; raises ``PipelineError`` before the first run, too."""
    settings = load_settings(root)
    if settings is None:
        raise PipelineError(
            f"{root.uri}: no pipeline has run here; make the tables with `postroom pipeline run`"
        )
    return settings
