"""What the documentation says of packages, rooms and modules is what the source has."""

import importlib
import re
from pathlib import Path

import pytest
from tools import architecture

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
AGAIN = "packages, rooms or imports have changed: run python -m tools.architecture"
MOST_BYTES = 60_000
FEWEST_CHANGES = 24
WHERE_FILES_ARE = (  # the foreign clients bring libraries of their own
    "src/postroom",
    "tools",
    *(f"tests/{path.name}" for path in ROOT.glob("tests/[a-z]*") if path.name != "clients"),
)


def cells(page: Path, head: str) -> list[list[str]]:
    """Of the rows of all tables whose head begins with ``head``."""
    tables = re.findall(rf"^\| {re.escape(head)}[^\n]*\n\|[-:| ]+\n((?:\|[^\n]*\n)+)", page.read_text(), re.M)
    rows = "".join(tables).splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def named(room: str, name: str) -> object:
    """What ``name``, a module and perhaps a function or class of it, is in a room. Raises ImportError,
    AttributeError."""
    parts = f"postroom.{room.replace('/', '.')}.{name}".split(".")
    depth = len(architecture.HOUSE.split("."))
    found: object = importlib.import_module(architecture.HOUSE)
    while depth < len(parts) and ".".join(parts[: depth + 1]) in architecture.graph().modules:
        depth += 1
        found = importlib.import_module(".".join(parts[:depth]))
    for part in parts[depth:]:
        found = getattr(found, part)
    return found


# -- the picture and the list of rooms


def test_the_picture_is_the_import_graph() -> None:
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture(), AGAIN


def test_the_list_is_that_of_the_rooms() -> None:
    assert architecture.LISTING.read_text(encoding="utf-8") == architecture.listing(), AGAIN


def test_each_arrow_has_a_way_and_each_way_an_arrow() -> None:
    assert set(architecture.WAYS) == architecture.drawn_edges(), "tools/architecture.py: WAYS"
    assert set(architecture.COLUMNS) == set(architecture.packages()), "tools/architecture.py: COLUMNS"


def test_arrows_and_levels_lead_down() -> None:
    places = architecture.boxes()
    upward = [(a, b) for a, b in architecture.package_edges() if places[a].bottom >= places[b].top]
    assert not upward


def test_every_room_is_in_its_package_once() -> None:
    for package in architecture.packages():
        folder = ROOT / "src" / "postroom" / package
        rooms = [one.name for level in architecture.levels(package) for one in level if one.is_folder]
        assert sorted(rooms) == sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def test_boxes_do_not_overlap() -> None:
    places = list(architecture.boxes().values())
    for at, one in enumerate(places):
        for other in places[at + 1 :]:
            beside = one.right <= other.left or other.right <= one.left
            assert beside or one.bottom <= other.top or other.bottom <= one.top


def test_the_picture_is_small_and_needs_nothing_else() -> None:
    picture = architecture.picture()
    assert len(picture.encode()) < MOST_BYTES
    assert not re.findall(r"(?:href|src)=|url\((?!#)|@import", picture)


# -- the ways through the rooms


WAYS = [(room, name) for room, _, where in cells(PAGE, "room") for name in spans(where)]


@pytest.mark.parametrize(("room", "name"), WAYS, ids=[name for _, name in WAYS])
def test_every_step_of_a_way_is_there(room: str, name: str) -> None:
    found = named(room.strip("`"), name)
    where = getattr(found, "__module__", None)  # what a module only imports is elsewhere
    assert where is None or f"{where}.".startswith(f"postroom.{room.strip('`').replace('/', '.')}.")


def test_modules_named_in_the_page_s_text_are_there() -> None:
    text = re.sub(r"^\|.*$", "", PAGE.read_text(), flags=re.M)
    rooms = [f"{package}/{one.name}" for package in architecture.packages() for one in room_list(package)]
    names = [span for span in spans(text) if "." in span and re.fullmatch(r"[a-z_]+\.[\w.]+", span)]
    assert names
    for span in names:
        assert any(is_there(room, span) for room in rooms), f"{span} is nowhere"


def room_list(package: str) -> list[architecture.Room]:
    return [one for level in architecture.levels(package) for one in level]


def is_there(room: str, name: str) -> bool:
    try:
        named(room, name)
    except (ImportError, AttributeError):
        return False
    return True


def test_files_and_folders_named_in_explanations_are_there() -> None:
    within = [path for top in WHERE_FILES_ARE for path in (ROOT / top).rglob("*.*")]
    known = [f"/{path.relative_to(ROOT)}" for path in [*within, *ROOT.glob("*.md")]]
    folders = {f"{path.rpartition('/')[0]}/" for path in known}
    for page in PAGE.parent.glob("*.md"):
        for span in spans(page.read_text()):
            if re.fullmatch(r"[\w./-]+\.(py|md)", span):
                assert any(path.endswith(f"/{span}") for path in known), f"{page.name}: {span} is nowhere"
            elif re.fullmatch(r"[a-z_]+(/[a-z_]+)*/?", span) and "/" in span:
                path = span.rstrip("/")
                assert any(f"/{path}/" in folder for folder in folders), f"{page.name}: {span} is nowhere"


# -- what to change, and where


def test_every_change_has_a_place_and_a_test_that_exist() -> None:
    rows = cells(CONTRIBUTING, "I want to change")
    assert len(rows) >= FEWEST_CHANGES
    for what, places, tests in rows:
        assert spans(places), f"{what}: no file is named"
        assert spans(tests), f"{what}: no test is named"
        missing = [path for path in paths(places) + paths(tests) if not (ROOT / path).exists()]
        assert not missing, f"{what}: {missing}"
        assert all(path.startswith("tests/") for path in paths(tests)), what
        for name, path in re.findall(r"`(\w+)`[^`]* in `([^`]+)`", places):
            assert name in (ROOT / paths(f"`{path}`")[0]).read_text(), f"{what}: no {name} in {path}"


def paths(cell: str) -> list[str]:
    """Files of a cell as paths from the root: tests/… and others that are there as they stand, the rest in
    src/postroom."""
    found = [span for span in spans(cell) if re.fullmatch(r"[\w./-]+/[\w./-]*", span)]
    return [path if path.split("/")[0] in TOP else f"src/postroom/{path}" for path in found]


TOP = {path.name for path in ROOT.iterdir()}


def test_the_house_names_every_package_with_rooms() -> None:
    fields = {spans(row[0])[0]: row[1] for row in cells(CONTRIBUTING, "package")}
    for package in architecture.packages():
        folders = [one.name for one in room_list(package) if one.is_folder]
        missing = [name for name in folders if f"`{name}`" not in fields.get(package, "")]
        assert not missing or package not in fields, f"{package}: {missing}"
