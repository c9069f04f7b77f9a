"""Message-retry exits: callables of the user's that the configuration names, ``package.module:callable``."""

import importlib
import logging

from postroom.channel.undelivered import RetryExit
from postroom.server.logs import log


class ExitNotLoaded(Exception):
    """There is no such callable; the text says what is missing."""


def load(name: str) -> RetryExit | None:
    """The exit of that name; None for "", and, with a line in the log, for one that can't be loaded: its
    channel then tries nothing again."""
    if not name:
        return None
    try:
        return find(name)
    except ExitNotLoaded as error:
        log(logging.ERROR, "retry-exit-not-loaded", exit=name, why=str(error))
        return None


def find(name: str) -> RetryExit:
    """The callable ``package.module:callable``. Raises ExitNotLoaded."""
    module_name, mark, path = name.partition(":")
    if not mark or not module_name or not path:
        raise ExitNotLoaded(f"{name!r}: package.module:callable expected")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ExitNotLoaded(f"{name!r}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ExitNotLoaded(f"{name!r} is {found!r}, which can't be called")
    return found
