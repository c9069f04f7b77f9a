"""Definitions of remote queues in force, and where names lead."""

from typing import final

from mypy_extensions import i64

from postroom.manager.headers.transmission_header import TransmissionHeader
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.queues.queue import Queue


@final
class RemoteQueue:
    """A definition in force."""

    def __init__(self, id: i64, definition: RemoteQueueDefinition) -> None:
        self.id: i64 = id
        self.definition = definition


@final
class ResolvedName:
    """Where a name leads: a queue here; or a transmission queue, with what is put before its messages."""

    __slots__ = ("header", "queue")

    def __init__(self, queue: Queue, header: TransmissionHeader | None) -> None:
        self.queue = queue
        self.header = header
        """None for a queue here."""
