"""Structured logs: one line an event, ``key=value`` for people or JSON for machines.

Call sites give the event's name as the message and its fields in ``extra={"fields": {…}}`` through `log`.
"""

import json
import logging
import sys
import time
from typing import Final, TextIO

LOGGER_NAME: Final = "postroom"
_logger: Final = logging.getLogger(LOGGER_NAME)


def log(level: int, event: str, **fields: object) -> None:
    """Write one line: the event's name and its fields, in the order given."""
    if _logger.isEnabledFor(level):
        _logger.log(level, event, extra={"fields": fields})


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.123Z INFO event key=value key="two words"``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={_printable(value)}" for key, value in _fields(record).items())
        return f"{_utc(record)} {record.levelname} {record.getMessage()}{fields}{self._failure(record)}"

    def _failure(self, record: logging.LogRecord) -> str:
        return "\n" + self.formatException(record.exc_info) if record.exc_info else ""


class JsonFormatter(logging.Formatter):
    """The same line as one JSON object: time, level, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"time": _utc(record), "level": record.levelname}
        line["event"] = record.getMessage()
        line.update(_fields(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(json_lines: bool, level: str, stream: TextIO | None = None) -> None:
    """Send the project's log to ``stream`` (default: standard error), in the wanted form."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json_lines else TextFormatter())
    _logger.handlers[:] = [handler]
    _logger.setLevel(level.upper())
    _logger.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _utc(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _printable(value: object) -> str:
    text = str(value)
    plain = text and all(char.isprintable() and char not in ' "=' for char in text)
    return text if plain else json.dumps(text)
