"""Builds the hot modules with mypyc and three of the ledger's from C; pyproject.toml declares all else.

The same source runs interpreted. Where C can't be compiled, and elsewhere than on Linux, the extensions are
left out and said so: Postroom then works, more slowly. ``POSTROOM_COMPILE=0`` leaves them out on purpose,
``POSTROOM_COMPILE=1`` fails without them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from setuptools import Extension

SOURCE = Path("src/postroom")
WIRE_FOLDERS = ("amqp", "model")
TABLES = {SOURCE / "model" / f"{name}.py" for name in ("lifecycle", "channel_states", "xa")}
"""Spread at the start and read seldom afterwards: as C, the three would take the compiler 36 s."""
INTERPRETED = TABLES | set((SOURCE / "channel" / "rules").glob("*.py"))
CORE_FOLDERS = ("manager",)
CORE_LEDGER = (
    *("ledger", "format/records", "format/entry_records", "format/block"),
    *("storage/bodies", "storage/body_file", "storage/journal", "storage/writer"),
)
DESCRIBING = {"egg_info", "dist_info", "sdist"}
C_MODULES = ("storage/_writer", "storage/_cached_reads", "format/_split")
EDGE_FOLDERS = ("channel",)
EDGE_SERVER = (
    *(f"channels/{name}" for name in ("agent_link", "foreign_receiving_link", "foreign_sending_link")),
    *(f"channels/{name}" for name in ("inbound_link", "receiving_link", "sending_link", "undeliverable")),
    *(f"connection/{name}" for name in ("attach", "binding", "broker", "durable_effects")),
    *(f"kernel/{name}" for name in ("bound_link", "broker_state", "connection_state")),
    *(f"links/{name}" for name in ("acquisition", "addressing", "delivery_headers", "dynamic_nodes")),
    *(f"links/{name}" for name in ("held_answers", "incoming_link", "incoming_message", "kept_deliveries")),
    *(f"links/{name}" for name in ("outcomes", "outgoing_link", "registry")),
    *("links/terminus", "links/transaction_coordinator", "management/links", "clock", "listening/turns"),
    *(f"listening/{name}" for name in ("busy_polling", "off_loop", "service", "socket_connection")),
)


def modules(folders: tuple[str, ...]) -> list[str]:
    """Paths of every module to be compiled in these folders and their rooms, in a stable order."""
    found = [path for folder in folders for path in sorted((SOURCE / folder).rglob("*.py"))]
    return [str(path) for path in found if path.name != "__init__.py" and path not in INTERPRETED]


def hot_groups() -> list[tuple[list[str], str | None]]:
    """What mypyc compiles, in groups. Calls within a group are direct. Each module is a file of C of its own,
    which takes the compiler less than half of the time of one for all."""
    core = modules(CORE_FOLDERS)
    core += [str(SOURCE / "ledger" / f"{name}.py") for name in CORE_LEDGER]
    edge = modules(EDGE_FOLDERS)
    edge += [str(SOURCE / "server" / f"{name}.py") for name in EDGE_SERVER]
    return [(core, "postroom_core"), (edge, "postroom_edge"), (modules(WIRE_FOLDERS), "postroom_wire")]


def c_sources() -> dict[str, str]:
    """The modules written in C, and where."""
    paths = [SOURCE / "ledger" / f"{name}.c" for name in C_MODULES]
    return {".".join(path.relative_to("src").with_suffix("").parts): str(path) for path in paths}


def describes_only() -> bool:
    """Whether only metadata or sources are wanted, as by pip before it builds: nothing is compiled."""
    return not DESCRIBING.isdisjoint(sys.argv)


def can_compile() -> bool:
    """Whether the C compiler that Python was built with, or CC, is here with the headers of C and Python, on
    Linux: it is the broker's modules that are compiled, and it runs nowhere else."""
    if sys.platform != "linux":
        return False
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command += ["-fsyntax-only", f"-I{sysconfig.get_path('include')}", "-x", "c", "-"]
    try:
        tried = subprocess.run(command, input=b"#include <Python.h>", capture_output=True, check=False)
    except OSError:
        return False
    return tried.returncode == 0


def extensions() -> list[Extension]:
    """The compiled modules, or none where they are not wanted or cannot be built."""
    wanted = os.environ.get("POSTROOM_COMPILE")
    if wanted == "0" or describes_only():
        return []
    if not can_compile():
        if wanted == "1":
            sys.exit(
                "postroom: the compiled version needs Linux, and a C compiler with C's and Python's headers"
            )
        print(
            "postroom: no Linux, or no C compiler with Python's headers: building it interpreted",
            file=sys.stderr,
        )
        return []
    from mypyc.build import mypycify
    from setuptools import Extension

    in_c = [Extension(name, [path], extra_compile_args=["-O2"]) for name, path in c_sources().items()]
    groups = hot_groups()
    paths = [path for group, _ in groups for path in group]
    with tempfile.TemporaryDirectory() as cache:
        # What mypyc remembers of another build misleads it where a class has other attributes since.
        options = [f"--cache-dir={cache}", *paths]
        compiled = cast(
            "list[Extension]",
            mypycify(options, opt_level="3", debug_level="0", separate=groups, multi_file=True),
        )
    for extension in compiled:  # what a group knows of the others is declared in each of its files
        extension.extra_compile_args = [*extension.extra_compile_args, "-fcommon"]
    return [*compiled, *in_c]


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class BuildOnEveryCore(build_ext):
        """The files of C of an extension are compiled side by side."""

        def build_extensions(self) -> None:
            compile_one_by_one = self.compiler.compile

            def compile_on_every_core(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    made = pool.map(lambda source: compile_one_by_one([source], **options), sources)
                    return list(chain.from_iterable(made))

            self.compiler.compile = compile_on_every_core
            super().build_extensions()

    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildOnEveryCore})
