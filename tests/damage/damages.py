"""Everything that can happen to one file of a ledger, made for every kind of file."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.damage.sections import sections_of
from tests.damage.specimens import Specimen

KINDS_OF_FILES = (
    *("newest journal", "journal", "oldest events", "events", "newest events", "bodies", "packed"),
    *("newest checkpoint", "older checkpoint", "superblock"),
)


@dataclass(frozen=True)
class Damage:
    """One thing done to one file."""

    kind: str
    """Of the file: "newest journal", "sealed journal" (one that another follows), "oldest events", …"""
    what: str
    """"removed", "truncated", "flipped", "swapped", "another ledger's", "older"."""
    section: str
    """Where; empty for the whole file."""
    name: str
    """The file's."""
    do: Callable[[Path], None]
    """Does it to the folder."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}{' ' + self.section if self.section else ''}"


def damages_of(specimen: Specimen) -> Iterator[Damage]:
    """Every damage of every kind of file."""
    for kind, name in files_of(specimen):
        yield from _to_the_whole(specimen, kind, name)
        for section, span in sections_of(specimen.folder / name).items():
            yield Damage(kind, "truncated", section, name, _truncated(name, (span[0] + span[1]) // 2))
            yield Damage(kind, "flipped", section, name, _flipped(name, (span[0] + span[1]) // 2))
        if "journal" in kind:
            blocks = sections_of(specimen.folder / name)
            yield Damage(kind, "older", "", name, _truncated(name, blocks["middle block's header"][0]))
        if kind == "superblock":
            yield Damage(kind, "flipped", "both copies", name, _both(specimen, name))


def files_of(specimen: Specimen) -> list[tuple[str, str]]:
    """One file of each kind, and where it matters of each place in the row of its kind."""
    listing = specimen.listing
    journals = [f"{number:08d}.journal" for number in listing.journal]
    events = [f"{number:08d}.events" for number in listing.events]
    bodies = [f"{number:08d}.bodies" for number in listing.bodies]
    checkpoints = [f"{position:020d}.checkpoint" for position in listing.checkpoints]
    packed = sorted(path.name for path in specimen.folder.glob("*.packed"))
    return [
        ("newest journal", journals[-1]),
        ("journal", journals[1]),
        ("oldest events", events[0]),
        ("events", events[2]),
        ("newest events", events[-1]),
        ("bodies", bodies[1]),
        ("packed", packed[0]),
        ("newest checkpoint", checkpoints[1]),
        ("older checkpoint", checkpoints[0]),
        ("superblock", "superblock"),
    ]


def _to_the_whole(specimen: Specimen, kind: str, name: str) -> Iterator[Damage]:
    yield Damage(kind, "removed", "", name, lambda folder: (folder / name).unlink())
    yield Damage(kind, "emptied", "", name, _truncated(name, 0))
    neighbour = _neighbour(specimen, name)
    if neighbour:
        yield Damage(kind, "swapped", "", name, _swapped(name, neighbour))
    foreign = _foreign(specimen, name)
    yield Damage(kind, "another ledger's", "", name, _replaced(name, foreign))
    older = specimen.older / name
    if older.exists() and older.read_bytes() != (specimen.folder / name).read_bytes():
        yield Damage(kind, "older", "", name, _replaced(name, older))


def _neighbour(specimen: Specimen, name: str) -> str:
    """Another file of its kind."""
    suffix = Path(name).suffix
    names = sorted(path.name for path in specimen.folder.glob(f"*{suffix}")) if suffix else [name]
    at = names.index(name)
    return (names[:at] + names[at + 1 :] or [""])[max(0, at - 1)]


def _foreign(specimen: Specimen, name: str) -> Path:
    """Another ledger's file: of the same name, or else of the same kind."""
    same = specimen.other / name
    if same.exists():
        return same
    return sorted(specimen.other.glob(f"*{Path(name).suffix}"))[-1]


def _truncated(name: str, at: int) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:at])

    return do


def _flipped(name: str, at: int) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 0x10
        (folder / name).write_bytes(data)

    return do


def _both(specimen: Specimen, name: str) -> Callable[[Path], None]:
    spans = sections_of(specimen.folder / name)

    def do(folder: Path) -> None:
        for copy in ("first copy", "second copy"):
            _flipped(name, spans[copy][0] + 30)(folder)

    return do


def _swapped(name: str, other: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        one, two = (folder / name).read_bytes(), (folder / other).read_bytes()
        (folder / name).write_bytes(two)
        (folder / other).write_bytes(one)

    return do


def _replaced(name: str, source: Path) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        shutil.copyfile(source, folder / name)

    return do
