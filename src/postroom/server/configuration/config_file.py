"""Read a configuration file and say precisely what is wrong with it."""

import re
import tomllib
from pathlib import Path
from typing import Final

import msgspec

from postroom.server.configuration.config import Config
from postroom.server.configuration.toml_lines import Path as KeyPath
from postroom.server.configuration.toml_lines import line_of
from postroom.server.configuration.values import PlacedError

MAX_CONFIG_BYTES: Final = 4 << 20

_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$?(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<key>[^`]*)`")
_SYNTAX_LINE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


class ConfigError(Exception):
    """The configuration can't be used: which file, which line, which key, what is wrong. One line of text."""

    def __init__(self, file: Path, line: int, key: str, what: str) -> None:
        self.file = file
        self.line = line
        self.key = key
        self.what = what
        place = f"{file}:{line}" if line else str(file)
        super().__init__(f"{place}: {key + ': ' if key else ''}{what}")


def load_config(file: Path) -> Config:
    """The configuration in ``file``. Raises `ConfigError`."""
    text = _read(file)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from error
    try:
        return msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise _value_error(file, text, tree, error) from error


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(file, 0, "", f"can't be read: {error.strerror}") from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(file, 0, "", f"is longer than {MAX_CONFIG_BYTES} bytes: not a configuration")
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, line, "", f"is not UTF-8: byte 0x{data[error.start]:02x}") from error


def _syntax_error(file: Path, text: str, message: str) -> ConfigError:
    match = _SYNTAX_LINE.search(message)
    line = int(match[1]) if match else text.count("\n") + 1
    column = f" (column {match[2]})" if match else ""
    return ConfigError(file, line, "", _SYNTAX_LINE.sub("", message).strip() + column)


def _value_error(
    file: Path, text: str, tree: dict[str, object], error: msgspec.ValidationError
) -> ConfigError:
    match = _PLACE.match(str(error))
    assert match is not None  # the pattern matches every text
    what = match["what"]
    path: KeyPath = _steps(match["path"] or "", tree)
    if isinstance(error.__cause__, PlacedError):
        path = (*path, *error.__cause__.path)
    elif unknown := _UNKNOWN.fullmatch(what):
        path, what = (*path, unknown["key"]), "unknown key"
    elif missing := _MISSING.fullmatch(what):
        what = f"the key {missing['key']!r} is missing"
    return ConfigError(file, line_of(text, path), _dotted(path), what)


def _steps(path: str, tree: object) -> KeyPath:
    """``.queue[1].name`` as a tuple; ``[...]`` stands for a key of a map, found by its value's defect."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        key: str | int | None = match[1] or (int(match[2]) if match[2] else None)
        if key is None:
            key = _key_of_wrong_value(tree)
        if key is None:
            break
        steps.append(key)
        tree = _child(tree, key)
    return tuple(steps)


def _child(tree: object, key: str | int) -> object:
    if isinstance(tree, dict):
        return tree.get(key)
    if isinstance(tree, list) and isinstance(key, int) and key < len(tree):
        return tree[key]
    return None


def _key_of_wrong_value(tree: object) -> str | None:
    """The first key of a map of strings whose value is no string."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not isinstance(value, str):
                return str(key)
    return None


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else ("." if text else "") + step
    return text
