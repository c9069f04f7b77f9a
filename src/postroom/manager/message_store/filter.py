"""What a request to the message store means: fields that must be equal, and which messages have them.

Unique id, message id and correlation id are answered by the queue's index, priority by its order: no body is
read for them. Any other field (an application property) needs the body of each message that it is compared
with.
"""

from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np
from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded
from postroom.manager.kernel.memory import stored
from postroom.manager.message_store.pending_requests import ReadsNeeded, Scan, StoreRequest, index_of
from postroom.manager.queues.entry_lookup import Location, find, locations, locations_among
from postroom.manager.queues.queue import PRIORITIES, Queue
from postroom.manager.undeliverable.expiry import expired
from postroom.model.ids import (
    CORRELATION_ID,
    MESSAGE_ID,
    TIME_BYTES,
    UNIQUE_ID,
    MessageIds,
    pack_unique_id,
    unpack_unique_id,
)

ANY_PRIORITY: Final = -1
MAX_LOOKUPS: Final = 256
"""Candidates that are looked up one by one."""


@final
class StoreFilter:
    """Equality of fields, all of them; without any it means every message."""

    def __init__(self) -> None:
        self.unique_id = b""
        """Packed; b"" any."""
        self.message_id = b""
        self.message_id_type: i64 = 0
        """IdType; 0: any message id."""
        self.correlation_id = b""
        self.correlation_id_type: i64 = 0
        self.priority: i64 = ANY_PRIORITY
        self.properties: dict[str, object] = {}
        """Application properties by name."""
        self.lock_id: i64 = 0
        """Of the browse lock under which the caller has the messages; 0 none."""

    def by_id(self) -> bool:
        """Whether the index can answer."""
        return bool(self.unique_id) or self.message_id_type != 0 or self.correlation_id_type != 0

    def fits(self, unique_id: bytes, ids: MessageIds, priority: i64) -> bool:
        """Whether everything but the properties is as wanted."""
        if self.priority != ANY_PRIORITY and priority != self.priority:
            return False
        if self.unique_id and unique_id != self.unique_id:
            return False
        wanted = self.message_id_type
        if wanted != 0 and (wanted != ids.message_id_type or self.message_id != ids.message_id):
            return False
        wanted = self.correlation_id_type
        return wanted == 0 or (
            wanted == ids.correlation_id_type and self.correlation_id == ids.correlation_id
        )


def unique_id_of(core: Core, serial: i64, ids: MessageIds) -> bytes:
    """One that brought none has this queue manager's name, and the serial of its arrival as the time."""
    return ids.unique_id or pack_unique_id(core.options.name, int(serial))


def known_ids(queue: Queue, request: StoreRequest, serial: i64) -> MessageIds | None:
    """The ids of a message, if they needn't be read."""
    ids = request.ids.get(int(serial))
    if ids is None and queue.ids is not None:
        ids = queue.ids.young.get(int(serial))
    return ids


def need_ids(queue: Queue, request: StoreRequest, serials: list[int]) -> list[MessageIds]:
    """The ids of these messages. Raises ReadsNeeded."""
    found = [known_ids(queue, request, serial) for serial in serials]
    missing = [serial for serial, ids in zip(serials, found, strict=True) if ids is None]
    if missing:
        raise ReadsNeeded([], missing, False)
    return [ids for ids in found if ids is not None]


def serials_by_id(core: Core, request: StoreRequest, filter: StoreFilter) -> Any:
    """Serials of what may have, or have had, the ids of the filter, as an array. Raises ReadsNeeded."""
    index = index_of(request.queue)
    if filter.unique_id:
        found = index.candidates(UNIQUE_ID, filter.unique_id, 0)
        if filter.unique_id[TIME_BYTES:] == core.options.name.encode():  # derived from a serial here
            serial = unpack_unique_id(filter.unique_id).time
            found = np.append(found, np.uint64(serial)) if serial > 0 else found
    elif filter.message_id_type != 0:
        found = index.candidates(MESSAGE_ID, filter.message_id, filter.message_id_type)
    else:
        found = index.candidates(CORRELATION_ID, filter.correlation_id, filter.correlation_id_type)
    return found


def matching(core: Core, request: StoreRequest, filter: StoreFilter, limit: i64) -> list[Location]:
    """The first available messages that the filter means, in order. Raises ReadsNeeded."""
    if filter.by_id():
        if not filter.properties:
            return _by_id(core, request, filter, limit)
        found = _by_id(core, request, filter, core.options.max_scanned_entries)
        return [location for location in found if _has_properties(request, filter, location.entry, found)][
            :limit
        ]
    if filter.properties:
        return _by_properties(core, request, filter, limit)
    return _in_order(core, request.queue, filter, limit)


def _by_id(core: Core, request: StoreRequest, filter: StoreFilter, limit: i64) -> list[Location]:
    """What really has the ids: few candidates are looked up one by one, many in the order of the queue."""
    serials = serials_by_id(core, request, filter)
    if len(serials) <= MAX_LOOKUPS:
        found = _located(core, request.queue, serials.tolist())
        return _fitting(core, request, filter, found)[:limit]
    fitting: list[Location] = []
    batch: list[Location] = []
    for priority in priorities_of(filter, PRIORITIES - 1):
        for location in locations_among(request.queue, priority, serials):
            if not expired(core, location.entry):
                batch.append(location)
            if len(batch) >= MAX_LOOKUPS:
                fitting += _fitting(core, request, filter, batch)
                batch = []
                if len(fitting) >= limit:
                    return fitting[:limit]
    return (fitting + _fitting(core, request, filter, batch))[:limit]


def _located(core: Core, queue: Queue, serials: list[int]) -> list[Location]:
    """Those that are available, in order."""
    found: list[Location] = []
    for serial in serials:
        location = find(queue, serial)
        if location is not None and not expired(core, location.entry):
            found.append(location)
    found.sort(key=lambda location: in_order(location.entry))
    return found


def _fitting(core: Core, request: StoreRequest, filter: StoreFilter, found: list[Location]) -> list[Location]:
    all_ids = need_ids(request.queue, request, [int(location.entry.serial) for location in found])
    return [
        location
        for location, ids in zip(found, all_ids, strict=True)
        if filter.fits(unique_id_of(core, location.entry.serial, ids), ids, location.entry.priority)
    ]


def in_order(entry: Entry) -> tuple[int, int, int]:
    """Sort key: as they are delivered."""
    return (-entry.priority, entry.place, entry.ordinal)


def priorities_of(filter: StoreFilter, highest: i64) -> list[int]:
    """Those to look at, highest first."""
    if filter.priority != ANY_PRIORITY:
        return [int(filter.priority)] if filter.priority <= highest else []
    return list(range(int(highest), -1, -1))


def _in_order(core: Core, queue: Queue, filter: StoreFilter, limit: i64) -> list[Location]:
    found: list[Location] = []
    for priority in priorities_of(filter, PRIORITIES - 1):
        for location in locations(queue, priority, -1, 0):
            if len(found) >= limit:
                return found
            if not expired(core, location.entry):
                found.append(location)
    return found


def _by_properties(core: Core, request: StoreRequest, filter: StoreFilter, limit: i64) -> list[Location]:
    """Compare bodies from where the request has come to; what is missing is read in batches."""
    scan = request.scan
    if scan is None:
        scan = request.scan = Scan()
    found: list[Location] = []
    missing: list[Entry] = []
    for location in _not_rejected(core, request.queue, filter, scan):
        entry = location.entry
        body = body_of(request, entry)
        if body is None:
            missing.append(entry)
            if len(missing) >= core.options.fetch_entries:
                break
        elif missing:
            continue  # compared when those before it have been
        elif not _fits_properties(filter, entry, body):
            _reject(core, request, scan, entry, not found)
        else:
            found.append(location)
            if len(found) >= limit:
                return found
    if missing:
        raise ReadsNeeded(missing, [], False)
    scan.begin_again()
    return found


def _not_rejected(core: Core, queue: Queue, filter: StoreFilter, scan: Scan) -> Iterator[Location]:
    """What is available behind the scan's place, in order, without what it has compared in vain."""
    start, place, ordinal = scan.priority, scan.place, scan.ordinal
    for priority in priorities_of(filter, start):
        if priority != start:
            place, ordinal = -1, 0
        for location in locations(queue, priority, place, ordinal):
            if int(location.entry.serial) not in scan.rejected and not expired(core, location.entry):
                yield location


def _reject(core: Core, request: StoreRequest, scan: Scan, entry: Entry, is_front: bool) -> None:
    """``entry`` isn't meant; ``is_front``: nothing before it is either, so the scan goes on behind it."""
    scan.rejected.add(int(entry.serial))
    request.bodies.pop(int(entry.serial), None)
    if is_front:
        scan.priority, scan.place, scan.ordinal = entry.priority, entry.place, entry.ordinal
    if len(scan.rejected) > core.options.max_scanned_entries:
        raise LimitExceeded(
            f"{len(scan.rejected)} messages of queue {request.queue.name!r} don't have the properties asked "
            "for; no more are compared (max_scanned_entries): ask by an id or priority, too"
        )


def body_of(request: StoreRequest, entry: Entry) -> bytes | None:
    """The body, if it is in memory or has been read for the request."""
    body = entry.body
    if body is None:
        body = request.bodies.get(int(entry.serial))
    return body


def stored_body(request: StoreRequest, entry: Entry) -> bytes | None:
    """As `body_of`; b"": there is none any more."""
    body = body_of(request, entry)
    return b"" if body is None and not stored(entry) else body


def _has_properties(request: StoreRequest, filter: StoreFilter, entry: Entry, all: list[Location]) -> bool:
    body = body_of(request, entry)
    if body is None:
        raise ReadsNeeded(
            [location.entry for location in all if body_of(request, location.entry) is None], [], False
        )
    return _fits_properties(filter, entry, body)


def _fits_properties(filter: StoreFilter, entry: Entry, body: bytes) -> bool:
    fields = MessageFields(entry.priority, False, entry.delivery_count, body, entry.annotations)
    for name, wanted in filter.properties.items():
        value = fields.application_property(name)
        if value is None or value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
            return False
    return True
