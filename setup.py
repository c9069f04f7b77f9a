"""Builds the hot modules with mypyc and the ledger's writer from C; pyproject.toml declares everything else.

The same source runs interpreted. Without a C compiler the extensions are left out and said so: Postroom then
works, more slowly. ``POSTROOM_COMPILE=0`` leaves them out on purpose.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

HOT_FOLDERS = ("amqp", "model", "manager", "channel")
HOT_MODULES = (
    "ledger/records.py",
    "ledger/block.py",
    *(
        f"server/{name}.py"
        for name in ("attach", "binding", "bound", "broker", "coordinator", "dynamic", "headers", "incoming")
    ),
    *(f"server/{name}.py" for name in ("management_links", "outgoing", "registry", "releasing", "terminus")),
)
SOURCE = Path("src/postroom")


def hot_modules() -> list[str]:
    """Paths of the modules that mypyc compiles, in a stable order."""
    found = [path for folder in HOT_FOLDERS for path in sorted((SOURCE / folder).glob("*.py"))]
    found += [SOURCE / name for name in HOT_MODULES]
    return [str(path) for path in found if path.name != "__init__.py"]


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
    return [*mypycify(hot_modules(), opt_level="3", group_name="hot"), writer]


setup(ext_modules=extensions())
