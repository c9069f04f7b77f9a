"""Writes what the documentation shows of the packages and their rooms, from the import graph: a picture, and
what lives in each room, from its docstring.

``python -m tools.architecture`` rewrites the files; a test compares them with the source. Levels come from
the contracts of import-linter; where a package has none for its rooms, they stand in the order in which the
fewest imports lead upwards. Arrows are the run-time imports between packages that no way over others implies.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from xml.sax.saxutils import escape

import grimp

ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = ROOT / "docs" / "_static" / "architecture.svg"
LISTING: Final = ROOT / "docs" / "explanation" / "architecture-rooms.inc"
SOURCE: Final = ROOT / "src"
CONTRACTS: Final = ROOT / "pyproject.toml"
HOUSE: Final = "postroom"

Edge = tuple[str, str]


# -- the graph


@cache
def graph() -> grimp.ImportGraph:
    """What imports what at run time, from the source."""
    return grimp.build_graph(HOUSE, exclude_type_checking_imports=True, cache_dir=None)


@cache
def contracts() -> dict[str, tuple[tuple[str, ...], ...]]:
    """By package, its levels from the top down, as the contracts have them: names of what lies in it."""
    found = {}
    for contract in _contracts_in(CONTRACTS):
        if contract["type"] == "layers":
            containers = [f"{container}." for container in contract.get("containers", [])] or [""]
            levels = [re.findall(r"[\w.]+", f"{level}") for level in contract["layers"]]
            names = [[f"{containers[0]}{name}" for name in level] for level in levels]
            parent = names[0][0].rpartition(".")[0]
            found[parent] = tuple(tuple(name.rpartition(".")[2] for name in level) for level in names)
    return found


def _contracts_in(file: Path) -> list[dict[str, Any]]:
    found = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return cast("list[dict[str, Any]]", found)


def packages() -> list[str]:
    """From the top down."""
    return [name for level in contracts()[HOUSE] for name in level]


def package_edges() -> set[Edge]:
    """Who imports whom at run time."""
    return {edge for edge in _edges(HOUSE) if set(edge) <= set(packages())}


@cache
def _edges(parent: str) -> Counter[Edge]:
    """Imports between different parts of ``parent``, and how many modules have them."""
    found: Counter[Edge] = Counter()
    for module in graph().modules:
        for imported in graph().find_modules_directly_imported_by(module):
            edge = (_within(parent, module), _within(parent, imported))
            found[edge] += edge[0] != edge[1]
    return +found


def drawn_edges() -> set[Edge]:
    """Those that no way over other packages implies."""
    every = package_edges()
    below: dict[str, set[str]] = {}
    for name in reversed(packages()):
        direct = {to for source, to in every if source == name}
        below[name] = direct.union(*(below.get(to, set()) for to in direct))
    return {
        (source, to)
        for source, to in every
        if not any((source, way) in every and to in below[way] - {way} for way in packages())
    }


def _within(parent: str, module: str) -> str:
    """The name below ``parent`` that ``module`` belongs to; empty if it is none of them."""
    return module.removeprefix(f"{parent}.").split(".")[0] if module.startswith(f"{parent}.") else ""


# -- packages and their rooms


@dataclass(frozen=True)
class Room:
    """A folder of a package, or a module that has a level of its own there."""

    name: str
    is_folder: bool
    module_count: int
    about: str


@cache
def room(parent: str, name: str) -> Room:
    """Counted are the modules in it, ``__init__`` left out, with those of the rooms in it."""
    path = SOURCE.joinpath(*parent.split("."), name)
    if path.is_dir():
        count = sum(1 for module in path.rglob("*.py") if module.name != "__init__.py")
        return Room(name, True, count, _about(path / "__init__.py"))
    return Room(name, False, 1, _about(path.with_suffix(".py")))


def _about(path: Path) -> str:
    """The first paragraph of its docstring."""
    docstring = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    if docstring is None:
        raise ValueError(f"{path} doesn't begin with what it is for")
    first = " ".join(docstring[1].split("\n\n")[0].split())
    return re.sub(r":\w+:`", "`", first).replace("``", "`")


@cache
def levels(package: str) -> list[list[Room]]:
    """The rooms of a package, from the ground up."""
    parent = f"{HOUSE}.{package}"
    names = contracts().get(parent)
    ordered = [*reversed(names)] if names is not None else [(name,) for name in _by_imports(parent)]
    return [[room(parent, name) for name in level] for level in ordered]


def plain_modules(package: str) -> list[str]:
    """Modules in the package itself that have no level of their own."""
    folder = SOURCE / HOUSE / package
    known = {one.name for level in levels(package) for one in level}
    return sorted(
        path.stem
        for path in folder.glob("*.py")
        if path.stem not in known and path.stem not in ("__init__", "__main__")
    )


def leads_up(package: str) -> bool:
    """Whether one of its rooms imports another that stands beside or above it."""
    parent = f"{HOUSE}.{package}"
    level_of = {one.name: at for at, level in enumerate(levels(package)) for one in level}
    return any(
        level_of[source] <= level_of[to]
        for source, to in _edges(parent)
        if source in level_of and to in level_of
    )


def _by_imports(parent: str) -> list[str]:
    """Its folders from the ground up: always the one next that imports least of those still to come."""
    left = {_within(parent, name) for name in graph().modules if graph().find_children(name)} - {""}
    uses = _edges(parent)
    found = []
    while left:
        upwards = {name: sum(uses[name, other] for other in left - {name}) for name in left}
        wanted = {name: sum(uses[other, name] for other in left - {name}) for name in left}
        found.append(min(left, key=lambda name: (upwards[name] - wanted[name], name)))
        left.remove(found[-1])
    return found


def module_count(package: str) -> int:
    return room(HOUSE, package).module_count


# -- the listing


def listing() -> str:
    made = "<!-- Written by tools/architecture.py from the docstrings and the import graph; don't edit. -->"
    return "\n\n".join([made, *(_section(package) for package in reversed(packages()))]) + "\n"


def _section(package: str) -> str:
    imports = [f"`{name}`" for name in packages() if (package, name) in package_edges()]
    imported = ", ".join(imports) or "no other package"
    parts = [f"### `{package}`", room(HOUSE, package).about, f"Imports {imported}."]
    if levels(package):
        rows = [_row(one) for level in levels(package) for one in level]
        parts.append(
            "\n".join(["| from the ground up | modules | what lives there |", "|---|---:|---|", *rows])
        )
    if plain_modules(package):
        names = ", ".join(f"`{name}`" for name in plain_modules(package))
        parts.append(f"{'In no room' if levels(package) else 'Its modules'}: {names}.")
    return "\n\n".join(parts)


def _row(one: Room) -> str:
    name = f"`{one.name}/`" if one.is_folder else f"`{one.name}.py`"
    return f"| {name} | {one.module_count} | {one.about} |"


# -- the picture

WIDTH: Final = 942
LEFT, SPLIT, RIGHT = 46, 606, 896
"""Edges of the two columns; ways of long arrows lie beside and between them."""
GAP: Final = 40
"""Between two columns, or two levels."""
HEAD: Final = 34
CHIP: Final = 24
STEP: Final = 29
LETTER: Final = 7
"""How wide a letter of a chip is at most."""

COLUMNS: Final[Mapping[str, tuple[int, int]]] = {
    "testing": (LEFT, RIGHT),
    "cli": (LEFT, SPLIT),
    "app": (SPLIT + GAP, RIGHT),
    "spark": (LEFT, SPLIT),
    "server": (LEFT, SPLIT),
    "client": (SPLIT + GAP, RIGHT),
    "channel": (LEFT, SPLIT),
    "manager": (LEFT, SPLIT),
    "replication": (LEFT, LEFT + 320),
    "ledger": (LEFT, SPLIT),
    "amqp": (LEFT + GAP, RIGHT),
    "model": (LEFT, RIGHT),
}
BETWEEN: Final = SPLIT + GAP // 2
FAR_RIGHT: Final = RIGHT + 24
FAR_LEFT: Final = LEFT - 24

# How each arrow goes: "down" at x from box to box; "out" at a side, down at x, in at a side; "over" from a
# side to x, and down upon the box.
WAYS: Final[Mapping[Edge, tuple[str, int]]] = {
    ("testing", "server"): ("out", FAR_LEFT),
    ("testing", "client"): ("out", FAR_RIGHT),
    ("cli", "spark"): ("down", 326),
    ("app", "client"): ("down", RIGHT - 100),
    ("spark", "server"): ("down", 326),
    ("spark", "client"): ("over", SPLIT + GAP + 60),
    ("server", "channel"): ("down", 326),
    ("channel", "manager"): ("down", 326),
    ("server", "replication"): ("out", FAR_LEFT),
    ("manager", "ledger"): ("down", 486),
    ("replication", "ledger"): ("down", 206),
    ("manager", "amqp"): ("over", BETWEEN),
    ("client", "amqp"): ("down", RIGHT - 100),
    ("ledger", "model"): ("down", LEFT + GAP // 2),
    ("amqp", "model"): ("down", 326),
}


@dataclass(frozen=True)
class Box:
    left: int
    top: int
    right: int
    bottom: int

    @property
    def side_y(self) -> int:
        """Where arrows leave and enter at a side."""
        return self.top + HEAD // 2


def height(package: str) -> int:
    """Of a box: its head, a line for each level, one for modules that have no level."""
    lines = len(levels(package)) + bool(plain_modules(package) and levels(package))
    return HEAD + STEP * lines + (8 if lines else 0)


def boxes() -> dict[str, Box]:
    """Where each package stands, from the top down: the levels of the house."""
    found = {}
    top = 20
    for level in contracts()[HOUSE]:
        for package in level:
            left, right = COLUMNS[package]
            found[package] = Box(left, top, right, top + height(package))
        top += max(height(package) for package in level) + GAP
    return found


def _arrow(edge: Edge, places: Mapping[str, Box]) -> str:
    if edge not in WAYS:
        raise ValueError(
            f"{edge[0]} imports {edge[1]} now: that arrow needs a way in WAYS, tools/architecture.py"
        )
    way, x = WAYS[edge]
    source, to = places[edge[0]], places[edge[1]]
    side = (source.left if x < source.left else source.right, source.side_y)
    if way == "down":
        path = f"M{x},{source.bottom} V{to.top - 2}"
    elif way == "over":
        path = f"M{side[0]},{side[1]} H{x} V{to.top - 2}"
    else:
        end = to.left - 2 if x < to.left else to.right + 2
        path = f"M{side[0]},{side[1]} H{x} V{to.side_y} H{end}"
    return f'<path d="{path}"><title>{edge[0]} imports {edge[1]}</title></path>'


def _box(package: str, box: Box) -> Iterator[str]:
    width, tall = box.right - box.left, box.bottom - box.top
    yield (
        f'<rect class="package" x="{box.left}" y="{box.top}" width="{width}" height="{tall}" rx="8">'
        f"<title>{escape(room(HOUSE, package).about)}</title></rect>"
    )
    y = box.top + 22
    yield f'<text class="name" x="{box.left + 14}" y="{y}">{package}</text>'
    count = _modules(module_count(package)) + (UPWARDS if leads_up(package) else "")
    yield f'<text class="count" x="{box.right - 14}" y="{y}">{count}</text>'
    bottom = box.bottom - 8 - CHIP
    for level in levels(package):
        yield from _level(level, box.left + 14, bottom, width - 28)
        bottom -= STEP
    if plain_modules(package) and levels(package):
        beside = f"in no room: {_modules(len(plain_modules(package)))}"
        yield f'<text class="small" x="{box.left + 14}" y="{bottom + 16}">{beside}</text>'


def _modules(count: int) -> str:
    return f"{count} module{'s' * (count != 1)}"


def _level(level: Sequence[Room], left: int, top: int, width: int) -> Iterator[str]:
    """Rooms of one level share its line."""
    each = (width - 8 * (len(level) - 1)) // len(level)
    for index, one in enumerate(level):
        x = left + index * (each + 8)
        kind = "room" if one.is_folder else "module"
        yield (
            f'<rect class="{kind}" x="{x}" y="{top}" width="{each}" height="{CHIP}" rx="5">'
            f"<title>{escape(one.about)}</title></rect>"
        )
        label = one.name if one.is_folder else f"{one.name}.py"
        yield f'<text x="{x + 9}" y="{top + 16}">{label}</text>'
        if one.is_folder and each > LETTER * len(label) + 40:
            yield f'<text class="count" x="{x + each - 9}" y="{top + 16}">{one.module_count}</text>'


UPWARDS: Final = "; some imports still lead upwards"
LEGEND: Final = (
    "Arrow: imports at run time; what a way over others implies is not drawn. Number: modules in a room.",
    "In a package, each line imports only from lines below it, unless its head says otherwise.",
)
LEGEND_HEIGHT: Final = 20 * len(LEGEND) + 16


def _legend(top: int) -> Iterator[str]:
    width = RIGHT - LEFT
    yield f'<rect class="package" x="{LEFT}" y="{top}" width="{width}" height="{LEGEND_HEIGHT}" rx="8"/>'
    for index, line in enumerate(LEGEND):
        yield f'<text class="small" x="{LEFT + 14}" y="{top + 23 + 20 * index}">{line}</text>'


STYLE: Final = (
    "text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#10202c}.name{font-size:16px;font-weight:600}"
    ".count{text-anchor:end;fill:#44525f}.small{fill:#44525f}"
    ".package{fill:#eef2f6;stroke:#67788a;stroke-width:1.4}.room{fill:#d5e8dd;stroke:#2f7d5b}"
    ".module{fill:#fff;stroke:#8a97a5;stroke-dasharray:4 3}"
    "path{fill:none;stroke:#7b8b9b;stroke-width:1.8;marker-end:url(#tip)}"
)
"""Text stands on boxes, which are light on a dark page, too; arrows are seen on both."""


def _svg_lines() -> Iterator[str]:
    places = boxes()
    foot = max(box.bottom for box in places.values()) + GAP // 2
    tall = foot + LEGEND_HEIGHT + 20
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" role="img" '
        'aria-label="Packages and rooms of Postroom from the ground up, and which package imports which">'
    )
    yield f"<style>{STYLE}</style>"
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" style="fill:#7b8b9b;stroke:none;marker-end:none"/>'
        "</marker></defs>"
    )
    for edge in sorted(drawn_edges()):
        yield _arrow(edge, places)
    for package, box in places.items():
        yield from _box(package, box)
    yield from _legend(foot)
    yield "</svg>"


def picture() -> str:
    return "\n".join(_svg_lines()) + "\n"


def main() -> None:
    LISTING.write_text(listing(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
