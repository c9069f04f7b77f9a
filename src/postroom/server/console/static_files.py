"""Style, script and pictures of the pages: each under a path that has its content's hash, so that browsers
keep it."""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
STATIC_PATH: Final = "/static"
HASH_CHARS: Final = 12
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One, read once."""

    path: str
    """In URLs."""
    media_type: str
    content: bytes
    zipped: bytes


class StaticFiles:
    """All of the console's."""

    def __init__(self) -> None:
        files = [_read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES]
        self._by_path: Final = {each.path: each for each in files}
        self._paths: Final = {each.path.rpartition("/")[2]: each.path for each in files}

    def path(self, name: str) -> str:
        """Where a file of that name is; KeyError: there is none."""
        return self._paths[name]

    def find(self, path: str) -> StaticFile | None:
        return self._by_path.get(path)


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:HASH_CHARS]
    zipped = gzip.compress(content, 6, mtime=0)
    return StaticFile(f"{STATIC_PATH}/{digest}/{path.name}", TYPES[path.suffix], content, zipped)
