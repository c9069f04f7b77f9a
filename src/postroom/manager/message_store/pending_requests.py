"""Requests that may have to wait: for bodies and ids that must be read, or for a message to come.

A request is run; where something must be read first it says so (`ReadsNeeded`), having changed nothing, and
is run again when that is there. Reads go out as effects and only for what is durable. A request that found
nothing and may wait is run again when something becomes available on its queue, at most once for each block.
"""

import heapq
from typing import Any, Final, cast, final

from mypy_extensions import i64

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.storage.body_requests import Body
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Asker, Fetch, IdRead, Reply
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded, ManagerError, NoMatchingMessage
from postroom.manager.queues.entry_lookup import find, pick, serials_on
from postroom.manager.queues.message_ids import IdIndex
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.manager.undeliverable.unreadable_bodies import without_body
from postroom.model import numbers as n
from postroom.model.ids import NO_IDS, MessageIds

MAX_IDS_READ: Final = 4096
"""Ids read at once for one request."""


class ReadsNeeded(Exception):
    """Not before these have been read."""

    def __init__(self, bodies: list[Entry], ids: list[int], index: bool) -> None:
        super().__init__()
        self.bodies = bodies
        self.ids = ids
        self.index = index
        """The queue's index of ids must be complete."""


class TurnOver(Exception):
    """The request has done enough for one turn; it is run again in the next."""


@final
class Scan:
    """How far a request has compared bodies, so that none is read twice."""

    def __init__(self) -> None:
        self.rejected: set[int] = set()
        self.begin_again()

    def begin_again(self) -> None:
        self.priority: i64 = PRIORITIES - 1
        self.place: i64 = -1
        self.ordinal: i64 = 0


class StoreRequest:
    """One request to the message store of one queue; answered by a `Reply` to ``target``."""

    def __init__(self, queue: Queue, target: Asker) -> None:
        self.queue = queue
        self.target = target
        self.user = ""
        """Who asks."""
        self.until_us: i64 = 0
        """How long it may wait for a message; 0 not at all."""
        self.bodies: dict[int, bytes] = {}
        """Read for it, by serial; b"" where the entry has ended meanwhile or can't be read."""
        self.ids: dict[int, MessageIds] = {}
        self.scan: Scan | None = None
        self.reading: i64 = 0
        """Reads that are out."""
        self.admitted = False
        """Among the bounded number of requests that may have bodies in memory."""
        self.waiting = False
        self.over = False

    def run(self, core: Core) -> object:
        """Do it and return the answer. Raises ReadsNeeded, ManagerError; NoMatchingMessage if there is
        none."""
        raise NotImplementedError


@final
class StoreRequests:
    """Those of a queue manager that have no answer yet."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.readers: i64 = 0
        """Those of them that may have bodies in memory."""
        self.stood_back: list[StoreRequest] = []
        """Those that want to and have to wait for one that does."""
        self.deadlines: list[tuple[int, int, StoreRequest]] = []
        """Heap of (until_us, order of coming, request): those that wait for a message."""
        self.waiting: dict[int, list[StoreRequest]] = {}
        """Those that wait for a message, by the id of their queue."""
        self.last_order: i64 = 0
        self.unfinished: list[StoreRequest] = []
        """Requests that go on in the next turn."""
        self.undurable: list[tuple[int, Fetch | IdRead]] = []
        """(position, read) of what can be read once the position is durable."""


def store_requests_of(core: Core) -> StoreRequests:
    """Those of a queue manager."""
    return cast(StoreRequests, core.state(StoreRequests))


def begin(core: Core, request: StoreRequest) -> None:
    """Take up a request. Raises LimitExceeded when there are too many."""
    requests = store_requests_of(core)
    if requests.count >= core.options.max_store_requests:
        raise LimitExceeded(
            f"{requests.count} requests to message stores wait; that is the limit (max_store_requests)"
        )
    requests.count += 1
    advance(core, request)


def advance(core: Core, request: StoreRequest) -> None:
    """Run it if nothing is being read for it."""
    if request.over or request.reading > 0:
        return
    try:
        answer = request.run(core)
    except ReadsNeeded as needed:
        _read(core, request, needed)
    except TurnOver:
        store_requests_of(core).unfinished.append(request)
    except NoMatchingMessage as nothing:
        if request.until_us > core.now_us and not request.queue.deleted:
            _wait(core, request)
        else:
            _answer(core, request, nothing)
    except ManagerError as refused:
        _answer(core, request, refused)
    else:
        _answer(core, request, answer)


def _answer(core: Core, request: StoreRequest, answer: object) -> None:
    cancel(core, request)
    core.effects.replies.append(Reply(request.target, answer))


def cancel(core: Core, request: StoreRequest) -> None:
    """It is over: answered, or nobody wants the answer any more."""
    if request.over:
        return
    request.over = True
    store_requests_of(core).count -= 1
    _let_go(core, request)
    if request.waiting:
        waiting = store_requests_of(core).waiting[int(request.queue.id)]
        waiting.remove(request)
        if not waiting:
            del store_requests_of(core).waiting[int(request.queue.id)]
        request.queue.schedule.watch(len(waiting))


# -- waiting for a message


def _wait(core: Core, request: StoreRequest) -> None:
    _let_go(core, request)
    if not request.waiting:
        request.waiting = True
        requests = store_requests_of(core)
        waiting = requests.waiting.setdefault(int(request.queue.id), [])
        waiting.append(request)
        request.queue.schedule.watch(len(waiting))
        requests.last_order += 1
        heapq.heappush(requests.deadlines, (request.until_us, requests.last_order, request))


def serve(core: Core, queue: Queue) -> None:
    """Something may have become available on ``queue``, or nothing ever will: run who waits there."""
    for request in list(store_requests_of(core).waiting.get(int(queue.id), ())):
        advance(core, request)


# -- reading


def _read(core: Core, request: StoreRequest, needed: ReadsNeeded) -> None:
    if needed.index:
        _read_index(core, request)
        return
    if needed.bodies and not _admit(core, request):
        return
    if needed.bodies:
        copies = _batch(core, request, needed.bodies)
        request.reading += 1
        wanted = [(int(copy.body_serial), int(copy.body_offset), int(copy.body_len)) for copy in copies]
        _send(core, max(copy.body_serial for copy in copies), Fetch(copies, wanted))
    if needed.ids:
        request.reading += 1
        serials = needed.ids[:MAX_IDS_READ]
        _send(core, max(serials), IdRead(request, serials, None))


def _admit(core: Core, request: StoreRequest) -> bool:
    """Whether bodies may be read for it now; else it is run again when another is done."""
    requests = store_requests_of(core)
    if request.admitted:
        return True
    if requests.readers >= core.options.max_store_readers:
        requests.stood_back.append(request)
        core.agenda.due = True
        return False
    request.admitted = True
    requests.readers += 1
    return True


def _let_go(core: Core, request: StoreRequest) -> None:
    """It needs its bodies no longer."""
    request.bodies = {}
    if request.admitted:
        request.admitted = False
        store_requests_of(core).readers -= 1


def _batch(core: Core, request: StoreRequest, entries: list[Entry]) -> list[Entry]:
    """Copies of the first of these, within the bounds of a batch."""
    copies: list[Entry] = []
    left: i64 = core.options.fetch_bytes
    for entry in entries[: core.options.fetch_entries]:
        left -= entry.body_len
        if copies and left < 0:
            break
        copies.append(entry.copy_for(request))
    return copies


def _read_index(core: Core, request: StoreRequest) -> None:
    """Have the queue's index completed."""
    queue = request.queue
    index = queue.ids
    if index is None:
        index = queue.ids = IdIndex()
    request.reading += 1
    index.askers.append(request)
    if not index.reading:
        index.reading = True
        everything = None if index.ready else serials_on(queue)
        missed, index.missed = index.missed, []
        _send(core, core.ledger.next_position - 1, IdRead(index, missed, everything))


def index_of(queue: Queue) -> IdIndex:
    """The queue's index, if it is complete. Raises ReadsNeeded."""
    index = queue.ids
    if index is None and queue.is_empty():
        index = queue.ids = IdIndex()
        index.ready = True
    if index is None or not index.ready:
        raise ReadsNeeded([], [], True)
    if index.too_large(queue.statistics.depth):
        queue.ids = None
        raise ReadsNeeded([], [], True)
    if index.missed or index.reading:
        raise ReadsNeeded([], [], True)
    return index


def _send(core: Core, through: i64, read: Fetch | IdRead) -> None:
    """Have it read, once everything through that position is durable."""
    if through > core.durability.through:
        store_requests_of(core).undurable.append((through, read))
        core.durability.want_all()
    elif isinstance(read, Fetch):
        core.effects.fetches.append(read)
    else:
        core.effects.id_reads.append(read)


def ids_read(core: Core, read: IdRead, found: list[Any]) -> None:
    """The answer to an `IdRead`."""
    asker = read.asker
    if isinstance(asker, StoreRequest):
        for serial, ids in zip(read.serials, found, strict=True):
            asker.ids[serial] = ids if ids is not None else NO_IDS
        asker.reading -= 1
        advance(core, asker)
    elif isinstance(asker, IdIndex):
        if read.all_serials is not None:
            asker.learn(found)
        else:
            asker.add_missed(read.serials, found)
        askers = asker.askers
        asker.askers = []
        for request in askers:
            assert isinstance(request, StoreRequest)
            request.reading -= 1
            advance(core, request)


@final
class StoreRequestPart(TurnPart):
    """Requests to the message store go on, or have waited long enough."""

    def finish(self, core: Core) -> None:
        """Run those that stood back, as far as others have made room."""
        requests = store_requests_of(core)
        while requests.stood_back and requests.readers < core.options.max_store_readers:
            advance(core, requests.stood_back.pop(0))
        if requests.stood_back:
            core.agenda.due = True

    def time_out(self, core: Core) -> None:
        """Answer those who have waited long enough, and run those that the last turn had no time for."""
        requests = store_requests_of(core)
        deadlines = requests.deadlines
        while deadlines and (deadlines[0][2].over or deadlines[0][0] <= core.now_us):
            advance(core, heapq.heappop(deadlines)[2])
        unfinished, requests.unfinished = requests.unfinished, []
        for request in unfinished:
            advance(core, request)

    def next_timeout_us(self, core: Core) -> i64:
        requests = store_requests_of(core)
        while requests.deadlines and requests.deadlines[0][2].over:
            heapq.heappop(requests.deadlines)
        if requests.unfinished:
            return core.now_us
        return requests.deadlines[0][0] if requests.deadlines else 0

    def news(self, core: Core, destination: Destination) -> None:
        serve(core, as_queue(destination))

    def durable(self, core: Core) -> None:
        requests = store_requests_of(core)
        waiting, requests.undurable = requests.undurable, []
        for through, read in waiting:
            _send(core, through, read)

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, StoreRequest)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        """The answer to a `Fetch`. What is available and can't be read isn't found again, or not at once."""
        request = entries[0].owner
        assert isinstance(request, StoreRequest)
        for copy, body in zip(entries, bodies, strict=True):
            if isinstance(body, LedgerCorrupt):
                location = find(request.queue, copy.serial)
                if location is not None:
                    without_body(core, pick(core, request.queue, location), body)
                body = b""
            request.bodies[int(copy.serial)] = body if len(body) == copy.body_len else b""
        request.reading -= 1
        advance(core, request)
