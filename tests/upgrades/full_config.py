"""A configuration that says every option that there is, each as other than the default as it may be."""

import json
import types
import typing
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import msgspec

from postroom.server.configuration.config import Config
from postroom.server.configuration.passwords import hash_password

NAME: Final = "NAME"
PASSWORD: Final = "letmein"

Tree = dict[str, Any]
Path = tuple[str | int, ...]


def full_tree() -> Tree:
    """All fields of `Config`, however deep."""
    tree = _tree_of(Config)
    tree["users"] = {"ann": hash_password(PASSWORD)}
    tree["role"] = [{"name": "administrator", "members": ["ann"]}]
    for path in list(_leaves(tree)):
        _vary(tree, path)
    msgspec.convert(tree, Config)
    return tree


def _tree_of(kind: Any) -> Tree:
    """The defaults of a struct, and one of each array of tables."""
    tree: Tree = {}
    required: dict[str, list[str]] = {}
    hints = _hints(kind)
    for field in msgspec.structs.fields(kind):
        inner = _item(hints[field.name])
        if _is_struct(inner):
            origin, one = typing.get_origin(hints[field.name]), _tree_of(inner)
            tree[field.name] = [one] if origin is list else {NAME: one} if origin is dict else one
        elif field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
            required[field.name] = _choices(hints[field.name])
        elif field.default is None or field.default is msgspec.UNSET:
            tree[field.name] = None
        elif field.default is not msgspec.NODEFAULT:
            tree[field.name] = msgspec.to_builtins(field.default)
    tree = {key: value for key, value in tree.items() if value != {}}
    blank = [key for key, value in tree.items() if value == ""]
    for values in product(*required.values()):
        made = dict(zip(required, values, strict=True)) | tree
        for filled in ([], *([key] for key in blank), blank):
            if _is_valid(made | dict.fromkeys(filled, NAME), kind):
                return made | dict.fromkeys(filled, NAME)
    raise AssertionError(f"{kind.__name__}: nothing fits what it requires")


def _choices(hint: Any) -> list[str]:
    """The values of a field without a default: any of its choices, or a name."""
    return list(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else [NAME]


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _item(hint: Any) -> Any:
    """The type in a list, in a dictionary's values, or beside None."""
    arguments = [one for one in typing.get_args(hint) if one is not types.NoneType]
    origin = typing.get_origin(hint)
    if origin in (list, dict, typing.Union, types.UnionType) and arguments:
        return arguments[-1]
    return hint


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _leaves(tree: Any, path: Path = ()) -> Iterator[Path]:
    items: Any = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _vary(tree: Tree, path: Path) -> None:
    """Another value than the default, if the configuration may have it; what is unset and can't be otherwise
    is left out."""
    *way, last = path
    holder: Any = tree
    for step in way:
        holder = holder[step]
    usual = holder[last]
    for other in _others(usual, str(last)):
        holder[last] = other
        if _is_valid(tree):
            return
    holder[last] = usual
    if usual is None:
        del holder[last]


def _others(usual: Any, name: str) -> list[Any]:
    if isinstance(usual, bool):
        return [not usual]
    if isinstance(usual, (int, float)):
        return [usual + 1, usual - 1, 1]
    if usual is None:
        return [True, 150, f"{name}.pem", {}]
    if isinstance(usual, list):
        return [["https://example.com"]]
    return [f"{usual or name}.other", *(choice for choice in CHOICES if choice != usual)]


CHOICES: Final = ("preemptive", "persistent", "exclusive", "warning", "true", "log", "normal", "context")


def _is_valid(tree: Tree, kind: Any = Config) -> bool:
    try:
        msgspec.convert(_without_unset(tree), kind)
    except msgspec.ValidationError:
        return False
    return True


def _without_unset(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_unset(value) for key, value in tree.items() if value is not None}
    return [_without_unset(one) for one in tree] if isinstance(tree, list) else tree


def as_toml(tree: Tree, path: str = "") -> Iterator[str]:
    """Its lines: values first, then tables."""
    tables = {key: value for key, value in tree.items() if _is_table(value)}
    for key, value in tree.items():
        if key not in tables:
            yield f"{json.dumps(key)} = {json.dumps(value)}"
    for key, value in tables.items():
        name = f"{path}.{key}" if path else key
        for one in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from as_toml(one, name)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))
