"""Builds the hot modules with mypyc and the ledger's writer from C; pyproject.toml declares everything else.

The same source runs interpreted. Without a C compiler the extensions are left out and said so: Postroom then
works, more slowly. ``POSTROOM_COMPILE=0`` leaves them out on purpose.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import cast

from setuptools import Extension, setup

SOURCE = Path("src/postroom")
WIRE_FOLDERS = ("amqp", "model")
CORE_FOLDERS = ("manager",)
CORE_LEDGER = ("records", "block")
CORE_SERVER = (
    *("attach", "binding", "bound", "broker", "coordinator", "dynamic", "headers", "incoming"),
    *("management_links", "outgoing", "registry", "releasing", "terminus"),
)


def modules(folders: tuple[str, ...]) -> list[str]:
    """Paths of every module in these folders, in a stable order."""
    found = [path for folder in folders for path in sorted((SOURCE / folder).glob("*.py"))]
    return [str(path) for path in found if path.name != "__init__.py"]


def hot_groups() -> list[tuple[list[str], str | None]]:
    """What mypyc compiles, in two groups of about equal size that build side by side."""
    core = modules(CORE_FOLDERS)
    core += [str(SOURCE / "ledger" / f"{name}.py") for name in CORE_LEDGER]
    core += [str(SOURCE / "server" / f"{name}.py") for name in CORE_SERVER]
    return [(modules(WIRE_FOLDERS), "postroom_wire"), (core, "postroom_core")]


def has_compiler() -> bool:
    """Whether the C compiler that Python was built with, or CC, can be found."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(str(command).split()[0]) is not None


def extensions() -> list[Extension]:
    """The compiled modules, or none where they are not wanted or cannot be built."""
    if os.environ.get("POSTROOM_COMPILE") == "0":
        return []
    if not has_compiler():
        print("postroom: no C compiler found, building the interpreted version", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    writer = Extension(
        "postroom.ledger._writer", [str(SOURCE / "ledger/_writer.c")], extra_compile_args=["-O2"]
    )
    groups = hot_groups()
    paths = [path for group, _ in groups for path in group]
    compiled = cast("list[Extension]", mypycify(paths, opt_level="3", separate=groups))
    return [*compiled, writer]


if __name__ == "__main__":
    setup(ext_modules=extensions())
