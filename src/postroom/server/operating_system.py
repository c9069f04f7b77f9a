"""What the broker needs of the operating system: files and events as Linux has them."""

import os
import platform
from importlib.util import find_spec
from typing import Final

from postroom.server.exits import Exit, StartError

MODULES: Final = ("fcntl",)
CALLS: Final = ("eventfd", "fdatasync", "preadv", "pwritev")
"""Functions of ``os``."""


def check_system() -> None:
    """Raise `StartError` where a broker can't run, before anything is imported that needs what isn't here."""
    missing = [name for name in MODULES if find_spec(name) is None]
    missing += [f"os.{name}" for name in CALLS if not hasattr(os, name)]
    if missing:
        here = platform.system() or "this system"
        raise StartError(
            Exit.FAILED,
            f"the broker runs on Linux, and {here} has no {', '.join(missing)}: "
            "start it in a container, a virtual machine or WSL 2; clients, and the commands that ask a "
            "running broker, work here",
        )
