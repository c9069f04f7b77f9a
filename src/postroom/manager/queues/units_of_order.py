"""Units of order, as WebLogic JMS has them: which messages of a queue are members of which, in their order.

A member names its unit by the message annotation ``x-opt-unit-of-order`` or the application property
``JMS_BEA_UnitOfOrder``. Order is that of arrival, whatever priority or selector says; unborn and uncommitted
members count. Only the first member of a unit that has not ended can be delivered: the rest waits for it.

What is kept for a member is its serial, so that it can be packed like any other message.
"""

import heapq
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.kernel.entry import Entry

if TYPE_CHECKING:
    from postroom.manager.queues.backlog import Chunk

ANNOTATION: Final = "x-opt-unit-of-order"
PROPERTY: Final = "JMS_BEA_UnitOfOrder"


@final
class Unit:
    """One unit of order of one queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.serials: list[int] = []
        """Heap of its members; those that have ended are dropped when they come to its top."""


@final
class Units:
    """The units of order of one queue."""

    def __init__(self, max_members: i64) -> None:
        self.max_members: i64 = max_members
        self._by_name: dict[str, Unit] = {}
        self._by_serial: dict[int, Unit] = {}
        self.freed: list[int] = []
        """Members that are the first of their units now; they may wait for that."""
        self.unread: list[Entry] = []
        """Copies of entries whose unit is not known before their body has been read."""
        self.unread_chunks: list[Chunk] = []
        """The same, packed: of a queue that was there before the start."""
        self.unread_ordered: list[int] = []
        """The same, by serial: of those that wait, packed, for their turn."""
        self.undecided: list[tuple[int, int, int]] = []
        """Priority, place and ordinal of what became available while not every unit was known."""
        self.requested: i64 = 0
        """Bodies on their way."""
        self.restored = False
        """Nothing that was there before the start has been judged since."""
        self._ended_unread: set[int] = set()
        """Messages that have ended while not every unit is known: they are no members any more."""

    def full(self) -> bool:
        """Whether no more members can be kept in mind."""
        return len(self._by_serial) >= self.max_members

    def known(self) -> bool:
        """Whether the unit of every entry is known."""
        reading = self.requested != 0 or self.unread or self.unread_chunks or self.unread_ordered
        return not reading and not self.restored and not self.undecided

    def join(self, serial: int, sections: bytes) -> None:
        """The message ``serial`` is a member of the unit that its sections name, if they name one."""
        if serial in self._ended_unread:
            self._ended_unread.discard(serial)
            return
        name = unit_of(sections)
        if not name:
            return
        unit = self._by_name.get(name)
        if unit is None:
            unit = self._by_name[name] = Unit(name)
        heapq.heappush(unit.serials, serial)
        self._by_serial[serial] = unit

    def come(self, entry: Entry) -> None:
        """An entry has come whose body may not be in memory."""
        if entry.body is not None:
            self.join(int(entry.serial), entry.body)
        else:
            self.request(entry)

    def request(self, entry: Entry) -> None:
        """The unit of ``entry`` is to be found out from its stored body."""
        self.unread.append(entry.copy_for(self))

    def must_wait(self, serial: int) -> bool:
        """Whether another member of its unit comes before ``serial``."""
        unit = self._by_serial.get(serial)
        return unit is not None and self.first_of(unit) != serial

    def first_of(self, unit: Unit) -> int:
        """The first member that has not ended; −1 if all have."""
        serials = unit.serials
        while serials and serials[0] not in self._by_serial:
            heapq.heappop(serials)
        return serials[0] if serials else -1

    def ended(self, serial: int) -> bool:
        """A message of the queue has ended; whether another may have its turn by that."""
        unit = self._by_serial.pop(serial, None)
        if unit is None:
            if self.known():
                return False
            self._ended_unread.add(serial)
            return True
        first = self.first_of(unit)
        if first < 0:
            del self._by_name[unit.name]
            return False
        self.freed.append(first)
        return True


def unit_of(sections: bytes) -> str:
    """The unit of order that a message names; "" for none."""
    fields = MessageFields(0, False, 0, sections, None)
    name = fields.annotation(ANNOTATION)
    if name is None:
        name = fields.application_property(PROPERTY)
    return str(name) if isinstance(name, str) else ""
