"""What the commands of several benchmarks share: where they write, and how they tell."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def add_arguments(command: argparse.ArgumentParser) -> None:
    """`--folder` and `--json`."""
    command.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    command.add_argument("--json", action="store_true", help="one flat JSON object as the last line")


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """A folder in there that is gone afterwards."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
        yield Path(made)


def print_report(report: Mapping[str, float | str], as_json: bool, digits: int) -> None:
    """A figure a line."""
    if as_json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        print(f"{key:44} {value if isinstance(value, str) else f'{value:,.{digits}f}'}")
