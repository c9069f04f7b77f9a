"""Dead-letter queue handlers in the configuration file, and their rules tables, read at the start."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from postroom.channel.rules.lines import MAX_TABLE_CHARS
from postroom.channel.rules.parser import check_table
from postroom.channel.rules.table import RulesTable
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.server.configuration.config import Config


class DeadLetterHandlerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One dead-letter queue handler inside the broker."""

    rules: Annotated[str, Meta(min_length=1)]
    """File with the rules table, relative to the working directory; read once, at the start."""
    queue: str = ""
    """Its queue, whatever INPUTQ says; empty: INPUTQ, else `dead_letter_queue` under `[queue_manager]`."""


@dataclass(frozen=True)
class Loaded:
    """A handler of the configuration: ready to begin, or why not."""

    rules: str
    queue: str
    table: RulesTable | None
    error: str = ""


def load_handlers(config: "Config") -> list[Loaded]:
    """Read the tables of all handlers. One that can't be used is logged with all its faults; the others, and
    the broker, go on without it."""
    found: list[Loaded] = []
    for each in config.dead_letter_handler:
        loaded = _load(config, each)
        if not loaded.error and any(other.queue == loaded.queue and not other.error for other in found):
            loaded = _refused(each.rules, loaded.queue, f"queue {loaded.queue!r} has a handler already")
        found.append(loaded)
    return found


def _load(config: "Config", handler: DeadLetterHandlerConfig) -> Loaded:
    file = handler.rules
    try:
        with Path(file).open(encoding="utf-8") as stream:
            text = stream.read(MAX_TABLE_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        return _refused(file, handler.queue, f"{file}: can't be read: {error}")
    table, findings = check_table(text)
    for each in findings:
        level = logging.ERROR if each.is_error else logging.WARNING
        log(level, "dead-letter-rules", what=each.formatted(file))
    if table is None:
        errors = [each.formatted(file) for each in findings if each.is_error]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return _refused(file, handler.queue, errors[0] + more)
    manager = table.control.input_queue_manager
    if manager and manager != config.container_id:
        message = (
            f"{file}: its rules are for queue manager {manager!r} (INPUTQM), this is {config.container_id!r}"
        )
        return _refused(file, handler.queue, message)
    queue = handler.queue or table.control.input_queue or config.queue_manager.dead_letter_queue
    if not queue:
        message = "no queue is named: set queue, INPUTQ, or dead_letter_queue in [queue_manager]"
        return _refused(file, "", f"{file}: {message}")
    return Loaded(file, queue, table)


def _refused(file: str, queue: str, error: str) -> Loaded:
    log(logging.ERROR, "dead-letter-handler-not-started", rules=file, queue=queue, reason=error)
    return Loaded(file, queue, None, error)
