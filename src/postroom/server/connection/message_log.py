"""The message log: a file that tells what happens to messages, for the destinations that ask for it
(``message_logging``, or the expiration policy "log").

A thread follows the broker's own ledger as any reader would; the turns of the broker are not touched, and
while no destination asks nothing is read. It tells what is durable, some seconds later, at least once: where
it stands is written after the records, so that a crash in between repeats some.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.sections import Data, decode_message
from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.reading.message_log import LogRecord, MessageLog, as_defined
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.manager.kernel.options import POLICY_LOG
from postroom.server.configuration.config import MessageLogConfig
from postroom.server.connection.broker import Broker
from postroom.server.logs import log
from postroom.server.threads import TendedThread

ReadBodies = Callable[[Sequence[BodyPlace]], list[Body]]

LOG_NAME: Final = "jms.messages.log"
POSITION_NAME: Final = "jms.messages.position"
POSITIONS_AT_A_TIME: Final = 1 << 18
"""Records of the ledger between two notes of where the log stands."""


def is_wanted(broker: Broker) -> bool:
    """Whether any destination asks for the log."""
    manager = broker.manager
    destinations = [*manager.queues.copy().values(), *manager.topics.copy().values()]
    return any(
        each.definition.message_logging or each.definition.expiration_policy == POLICY_LOG
        for each in destinations
    )


def content_of(sections: bytes, longest: int) -> str:
    """What a message says: its application properties and body as JSON, cut to ``longest`` characters."""
    try:
        message = decode_message(sections)
    except AmqpError as error:
        return error.description
    body = message.body
    value = body.joined().decode("utf-8", "replace") if isinstance(body, Data) else body
    content = {"properties": message.application_properties or {}, "body": value}
    text = json.dumps(content, default=str, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"


class MessageLogFile:
    """The file, its older ones (``.1`` is the youngest), and the note of where it stands."""

    def __init__(self, folder: Path, config: MessageLogConfig) -> None:
        self._path: Final = folder / LOG_NAME
        self._note: Final = folder / POSITION_NAME
        self._config: Final = config

    def position(self) -> int:
        """The last position that it tells of; −1 if it has never told of any."""
        try:
            return int(self._note.read_text())
        except (FileNotFoundError, ValueError):
            return -1

    def stand_at(self, position: int) -> None:
        """Everything through that position is told."""
        fresh = self._note.with_suffix(".new")
        fresh.write_text(f"{position}\n")
        fresh.replace(self._note)

    def forget_position(self) -> None:
        """It tells of nothing now, and will begin anew."""
        self._note.unlink(missing_ok=True)

    def write(self, records: list[LogRecord]) -> None:
        """Append, beginning new files as they are full."""
        if not records:
            return
        if self._path.exists() and self._path.stat().st_size >= self._config.max_file_bytes:
            self._rotate()
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(record.text() + "\n" for record in records)

    def _rotate(self) -> None:
        for number in range(self._config.max_files - 1, 0, -1):
            older = self._path.with_name(f"{LOG_NAME}.{number}")
            if number == self._config.max_files - 1:
                older.unlink(missing_ok=True)
            younger = self._path if number == 1 else self._path.with_name(f"{LOG_NAME}.{number - 1}")
            if younger.exists():
                younger.replace(older)
        self._path.unlink(missing_ok=True)  # where only one is kept


class MessageLogWriter:
    """Follows the ledger in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        folder: Path,
        config: MessageLogConfig,
        is_wanted: Callable[[], bool],
        durable_through: Callable[[], int],
        read_bodies: ReadBodies,
    ) -> None:
        """``durable_through`` gives the end of the ledger without reading it, ``read_bodies`` stored bodies,
        in any thread."""
        self._folder: Final = folder
        self._interval_s: Final = config.interval_s
        self._file: Final = MessageLogFile(folder, config)
        self._max_content_chars: Final = config.max_content_chars
        self._read_bodies: Final = read_bodies
        self._log: Final = MessageLog(as_defined, self._content if config.content else None)
        self._is_wanted: Final = is_wanted
        self._durable_through: Final = durable_through
        self._stopping: Final = threading.Event()
        self.thread: Final = TendedThread("postroom-message-log", self._run)
        self._position = self._file.position()

    def start(self) -> None:
        """Tell of what happens from where the log stands, or from now on."""
        if self._position < 0 and self._is_wanted():
            self._stand_at(self._durable_through())
        elif self._position < 0:
            self._position = self._durable_through()
        self.thread.start()

    def stop(self) -> None:
        """Tell the rest, and end."""
        self._stopping.set()
        self.thread.join()
        self.poll()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.poll()

    def poll(self) -> None:
        """Tell of what is new. What goes wrong is logged, and tried again at the next look."""
        try:
            self._write_new()
        except (LedgerError, OSError) as error:
            log(logging.ERROR, "message-log-failed", reason=str(error))

    def _write_new(self) -> None:
        if not self._is_wanted():
            self._position = self._durable_through()
            self._file.forget_position()
            return
        reader = LedgerReader(self._folder)
        first = max(self._position + 1, reader.first_position)
        while first <= reader.durable_through and self._is_wanted():
            last = min(first + POSITIONS_AT_A_TIME - 1, reader.durable_through)
            self._file.write(list(self._log.records(reader, first, last)))
            self._stand_at(last)
            first = last + 1

    def _content(self, place: BodyPlace) -> str:
        (body,) = self._read_bodies([place])
        if isinstance(body, LedgerCorrupt):
            return str(body)
        return content_of(body, self._max_content_chars) if body else ""  # b"": it has ended, and is gone

    def _stand_at(self, position: int) -> None:
        if position != self._position:
            self._position = position
            self._file.stand_at(position)
