"""Writes the tables of settings in the reference, from where the settings are declared.

A page has each table between ``<!-- settings: NAME -->`` and ``<!-- end of settings -->``; NAME is a table of
the configuration file. ``python -m tools.configuration_docs`` rewrites what stands between; a test compares
it. The meaning of a setting is the text below its declaration, in Markdown, with links as from
``docs/reference``; IBM MQ's keyword stands in brackets in it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from postroom.server.configuration.config import Config, QueueConfig, QueueDefaultsConfig
from postroom.server.configuration.values import SettingsTable

SOURCE = Path(__file__).parent.parent / "src"
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
PAGES = (REFERENCE / "configuration.md", REFERENCE / "channels.md")

PLACE = re.compile(r"(<!-- settings: ([a-z_.]+) -->\n)(?:.*?)(?=<!-- end of settings -->)", re.DOTALL)
KEYWORD = re.compile(r" \[([A-Z]+)\]")
FIRST = re.compile(r"^\[?[A-Z](?=[a-z ])")

TOP = "top"
OF_TOP = ("data", "container_id")
"""The keys that stand in no table."""
UNSET_DEFAULTS: dict[object, str] = {
    QueueConfig: "`[queue_defaults]`",
    QueueDefaultsConfig: "that of `[queue_manager]`",
}
UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"))


def written(page: str) -> str:
    """The text of a page with its tables as they are to be."""
    return PLACE.sub(lambda found: f"{found[1]}\n{table(found[2])}\n\n", page)


def table(name: str) -> str:
    """The table of the settings that the table ``name`` of the configuration file has."""
    struct = table_struct(name)
    meanings = meanings_of(struct)
    of_mq = name == "channel"
    heads = ["key", *["MQ"] * of_mq, "default", "values", "meaning"]
    lines = [heads]
    for each in fields(struct):
        if name == TOP and each.name not in OF_TOP:
            continue
        meaning = meanings.get(each.name, "")
        keyword = KEYWORD.search(meaning)
        cells = [f"`{each.encode_name}`", *[keyword[1] if keyword else "–"] * of_mq]
        text = KEYWORD.sub("" if of_mq else r" (MQ's \1)", meaning)
        lines.append([*cells, default_of(struct, each), values_of(each), _as_cell(text)])
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([rows[0], "|---" * len(heads) + "|", *rows[1:]])


def _as_cell(meaning: str) -> str:
    """Without full stop, and with a small letter first, unless a name in capitals comes first."""
    return FIRST.sub(lambda found: found[0].lower(), meaning.removesuffix("."))


def table_struct(name: str) -> type[Struct]:
    """The class of a table; of a table in a table: ``OUTER.INNER``."""
    struct: type[Struct] = Config
    for part in name.split(".") if name != TOP else ():
        (struct,) = structs_in(next(each.type for each in fields(struct) if each.name == part))
    return struct


def structs_in(kind: Any) -> list[type[Struct]]:
    """The tables that a value of this type may have."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return [kind]
    return [struct for part in get_args(kind) for struct in structs_in(part)]


def meanings_of(struct: type[Struct]) -> dict[str, str]:
    """What each key means: said below its declaration, or below that of the setting that it is."""
    found: dict[str, str] = {}
    for each in struct.__mro__:
        if each.__module__.startswith("postroom"):
            found = dict(_docstrings(each)) | found
    if issubclass(struct, SettingsTable):
        settings = dict(_docstrings(struct.definition_class))
        found |= {key: settings.get(setting, "") for key, setting in struct.settings.items()}
    return found


def _docstrings(declared: type) -> Iterator[tuple[str, str]]:
    # Read as a file: the class of a compiled module has no source.
    path = SOURCE.joinpath(*declared.__module__.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == declared.__name__
    )
    for each in classes:
        for field, text in zip(each.body, each.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(texts))):
                    yield name, " ".join(texts.split())


def default_of(struct: type[Struct], field: FieldInfo) -> str:
    """What a key is by default."""
    if field.required:
        return "required"
    if field.default is UNSET:
        return UNSET_DEFAULTS[struct]
    return _shown(field.name, None if field.default is NODEFAULT else field.default)


def values_of(field: FieldInfo) -> str:
    """What a key may be."""
    kind, bounds = field.type, Meta()
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        (kind,) = (part for part in get_args(kind) if part not in (UnsetType, type(None)))
    if hasattr(kind, "__metadata__"):
        (bounds,), kind = kind.__metadata__, kind.__origin__
    if get_origin(kind) is Literal:
        return ", ".join(f"`{each}`" if each else "empty" for each in get_args(kind))
    if structs_in(kind):
        return "table"
    if kind is bool:
        return "true, false"
    if kind is str:
        return "text" if bounds.max_length is None else f"text, {bounds.min_length}–{bounds.max_length}"
    if kind in (int, float):
        return _range(field.name, bounds)
    return "list of text"


def _range(name: str, bounds: Meta) -> str:
    least = bounds.ge if bounds.ge is not None else bounds.gt
    sign = "≥" if bounds.ge is not None else ">"
    if bounds.le is None:
        return f"{sign} {_shown(name, least)}"
    if bounds.ge is None:
        return f"{sign} {_shown(name, least)}, ≤ {_shown(name, bounds.le)}"
    return f"{_shown(name, least)}–{_shown(name, bounds.le)}"


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        if "_bytes" in name and value > 0:
            for bits, unit in UNITS:
                if int(value) % (1 << bits) == 0:
                    return f"{int(value) >> bits:,} {unit}"
        return f"{value:,}".removesuffix(".0").replace("-", "−")
    return f"`{value}`" if value else "–"


def main() -> None:
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
