"""Where the fixtures lie, one folder for each version, and how they are packed."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from postroom import __version__

FIXTURES: Final = Path(__file__).parent / "fixtures"
LEDGERS: Final = "ledgers"
TABLES: Final = "tables"
FORMATS: Final = ("delta", "parquet", "iceberg")
ICEBERG_PLACE: Final = Path("/tmp/postroom-upgrades/iceberg")
"""Iceberg's metadata and catalog name absolute places: its tables are whole only where they were written."""
CONFIG: Final = "postroom.toml"
DECISIONS: Final = "decisions"
CHECKPOINT: Final = "checkpoint"
PRESENT: Final = FIXTURES / __version__
ENDING: Final = ".tar.xz"


def versions() -> list[Path]:
    """The fixtures of every version that was released, and perhaps of this one."""
    return sorted(path for path in FIXTURES.iterdir() if path.is_dir())


def names_of(version: Path, folder: str) -> list[str]:
    """What lies packed in a folder of a version's fixtures."""
    return sorted(path.name.removesuffix(ENDING) for path in (version / folder).glob(f"*{ENDING}"))


def pack(folder: Path, archive: Path) -> None:
    """Everything in a folder, the same bytes for the same files."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "lock":
                info = tarfile.TarInfo(path.relative_to(folder).as_posix())
                data = path.read_bytes()
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def unpack(archive: Path, folder: Path) -> Path:
    """Returns the folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


@contextmanager
def tables_folder(table_format: str, elsewhere: Path) -> Iterator[Path]:
    """Where the tables of a fixture are written and read; removed at the end if it is Iceberg's."""
    if table_format != "iceberg":
        yield elsewhere
        return
    ICEBERG_PLACE.parent.mkdir(mode=0o700)  # who finds it there is not alone
    try:
        yield ICEBERG_PLACE
    finally:
        shutil.rmtree(ICEBERG_PLACE.parent)


def note(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def noted(path: Path) -> Any:
    return json.loads(path.read_text())
