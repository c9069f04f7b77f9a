"""The names of one queue manager that lead elsewhere, for those who ask from outside."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.names import name_resolution as names
from postroom.manager.names.remote_queues import RemoteQueue, RemoteQueueDefinition, ResolvedName, names_of


@final
class NameService:
    """Definitions of remote queues and aliases, and where addresses lead."""

    def __init__(self, core: Core) -> None:
        self._core: Final = core
        self.definitions: Final = names_of(core).definitions
        """Remote queues and aliases by name."""

    # Definitions.

    def find(self, name: str) -> RemoteQueue:
        """The remote queue or alias of that name; raises QueueNotFound."""
        return names.find(self._core, name)

    def define(self, definition: RemoteQueueDefinition, now_us: i64) -> RemoteQueue:
        """Define a remote queue or alias; the same definition again returns the one that is there.

        Raises QueueExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
        """
        self._core.begin(now_us)
        return names.define(self._core, definition)

    def alter(self, definition: RemoteQueueDefinition, now_us: i64) -> RemoteQueue:
        """Give the remote queue of that name another definition. Raises QueueNotFound, DefinitionInvalid."""
        self._core.begin(now_us)
        return names.alter(self._core, definition)

    def delete(self, name: str, now_us: i64) -> None:
        """Delete a definition; what waits for a channel already is sent. Raises QueueNotFound."""
        self._core.begin(now_us)
        names.delete(self._core, name)

    def check_dead_letter_queue(self) -> None:
        """Raise NameUnusable if the queue manager's dead-letter queue is known and none for it."""
        names.check_dead_letter_queue(self._core)

    # Addresses.

    def is_remote(self, address: str) -> bool:
        """Whether an address isn't the name of a queue or topic here, but may lead elsewhere."""
        return names.is_remote(self._core, address)

    def local(self, address: str) -> str:
        """An address without this queue manager's own name: ``QUEUE`` for ``QUEUE@THIS``."""
        return names.local_name(self._core, address)

    def destination(self, address: str) -> ResolvedName:
        """Where a message to ``address`` is to be put. Raises NameUnknown, NameUnusable."""
        return names.destination(self._core, address)

    def taker(self, address: str) -> ResolvedName:
        """As `destination`, where subscriptions are met, too. Raises QueueNotFound, NameUnknown,
        NameUnusable."""
        return names.taker(self._core, address)

    def check_readable(self, address: str) -> None:
        """Raise NotForInput for an address that leads elsewhere."""
        names.check_readable(self._core, address)

    def sent_to(self, destination: ResolvedName, stored: bytes) -> bytes:
        """The sections of a message from here as they are put on ``destination.queue``."""
        return names.sent_to(self._core, destination, stored)
