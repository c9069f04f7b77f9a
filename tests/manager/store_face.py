"""The message store's verbs as plain calls on a `World`: each waits for its answer, or raises it."""

from typing import Any

from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.message_store.browsing import Browse, BrowseAndLock, Listen, Unlock
from postroom.manager.message_store.filter import StoreFilter
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.message_store.put_verbs import ConfirmPut, Put
from postroom.manager.message_store.verbs import (
    Confirm,
    ConfirmGet,
    Delete,
    EndHolder,
    Get,
    StoreAnswer,
    Undo,
)
from postroom.manager.queues.queue import Queue
from postroom.model.ids import pack_unique_id, unpack_unique_id
from tests.manager.world import MS, World, a_head

Uid = tuple[str, int]


class Recorder(Asker):
    """Remembers its answer."""

    def __init__(self) -> None:
        self.answer: object = None

    def answered(self, payload: object, now_us: int) -> None:
        assert self.answer is None, "answered twice"
        self.answer = payload

    def result(self) -> StoreAnswer:
        if isinstance(self.answer, ManagerError):
            raise self.answer
        assert isinstance(self.answer, StoreAnswer), "no answer yet"
        return self.answer


def a_filter(
    uid: Uid | None = None,
    message_id: str = "",
    correlation_id: str = "",
    priority: int = -1,
    lock: int = 0,
    **properties: object,
) -> StoreFilter:
    made = StoreFilter()
    made.unique_id = pack_unique_id(*uid) if uid is not None else b""
    made.message_id, made.message_id_type = message_id.encode(), int(bool(message_id))
    made.correlation_id, made.correlation_id_type = correlation_id.encode(), int(bool(correlation_id))
    made.priority = priority
    made.lock_id = lock
    made.properties = properties
    return made


def perform(world: World, request: StoreRequest) -> Any:
    """The answer to a request with a `Recorder`, which must be there after one turn; or what it raises."""
    recorder = request.target
    assert isinstance(recorder, Recorder)
    world.manager.submit_request(request, world.now_us)
    world.turn()
    if isinstance(recorder.answer, ManagerError):
        raise recorder.answer
    assert recorder.answer is not None, "no answer yet"
    return recorder.answer


class StoreFace:
    """One queue of a world, as an application of MQ Everyplace sees it."""

    def __init__(self, world: World, name: str = "q", **definition: Any) -> None:
        self.world = world
        self.name = name
        if name not in world.manager.queues:
            world.queue(name, **definition)

    @property
    def queue(self) -> Queue:
        return self.world.manager.queue(self.name)

    def begin(self, request: StoreRequest, requested: Recorder) -> Recorder:
        self.world.manager.submit_request(request, self.world.now_us)
        return requested

    def _do(self, request: StoreRequest) -> StoreAnswer:
        target = request.target
        assert isinstance(target, Recorder)
        self.begin(request, target)
        self.world.turn()
        return target.result()

    def put(
        self,
        body: bytes = b"body",
        confirm: int = 0,
        uid: Uid | None = None,
        resend: bool = False,
        message_id: str = "",
        correlation_id: str = "",
        **head: Any,
    ) -> Uid:
        made = a_head(**head)
        made.unique_id = pack_unique_id(*uid) if uid is not None else b""
        made.message_id, made.message_id_type = message_id.encode(), int(bool(message_id))
        made.correlation_id, made.correlation_id_type = correlation_id.encode(), int(bool(correlation_id))
        producer = self.world._producer
        answer = self._do(Put(self.queue, Recorder(), producer, made, body, confirm, resend))
        return tuple(unpack_unique_id(answer.unique_id))  # type: ignore[return-value]

    def confirm_put(self, uid: Uid, confirm: int = 0) -> int:
        return int(self._do(ConfirmPut(self.queue, Recorder(), a_filter(uid), confirm)).count)

    def get(self, confirm: int = 0, **wanted: Any) -> tuple[Uid, bytes]:
        return _only(self._do(Get(self.queue, Recorder(), a_filter(**wanted), confirm, 0)))

    def wait(self, timeout_ms: int, confirm: int = 0, **wanted: Any) -> Recorder:
        asker = Recorder()
        until_us = self.world.now_us + timeout_ms * MS
        return self.begin(Get(self.queue, asker, a_filter(**wanted), confirm, until_us), asker)

    def confirm_get(self, uid: Uid, confirm: int = 0) -> int:
        return int(self._do(ConfirmGet(self.queue, Recorder(), a_filter(uid), confirm)).count)

    def browse(self, **wanted: Any) -> list[tuple[Uid, bytes]]:
        answer = self._do(Browse(self.queue, Recorder(), a_filter(**wanted), False, [], 1000))
        return rows_of(answer)

    def browse_ids(self, **wanted: Any) -> list[tuple[Uid, bytes]]:
        return rows_of(self._do(Browse(self.queue, Recorder(), a_filter(**wanted), True, [], 1000)))

    def lock_ids(self, **wanted: Any) -> tuple[int, list[tuple[Uid, bytes]]]:
        answer = self._do(BrowseAndLock(self.queue, Recorder(), a_filter(**wanted), True, 0, 0))
        return int(answer.lock_id), rows_of(answer)

    def lock(self, confirm: int = 0, lease_ms: int = 0, **wanted: Any) -> tuple[int, list[tuple[Uid, bytes]]]:
        answer = self._do(
            BrowseAndLock(self.queue, Recorder(), a_filter(**wanted), False, confirm, lease_ms * MS)
        )
        return int(answer.lock_id), rows_of(answer)

    def unlock(self, lock: int, uid: Uid | None = None) -> int:
        return int(self._do(Unlock(self.queue, Recorder(), a_filter(uid, lock=lock))).count)

    def undo(self, confirm: int) -> int:
        return int(self._do(Undo(self.queue, Recorder(), confirm)).count)

    def holders(self) -> dict[int, tuple[int, int]]:
        """Confirm id and lock id (0 without) of each holder, by its id; a lock's own confirm id is 0."""
        store = self.queue.store
        if store is None:
            return {}
        locks = {id: (0, id) for id in store.locks}
        return locks | {int(holder.id): key for key, holder in store.holders.items()}

    def end(self, holder: int) -> int:
        return int(self._do(EndHolder(self.queue, Recorder(), holder)).count)

    def confirm(self, confirm: int) -> int:
        return int(self._do(Confirm(self.queue, Recorder(), confirm)).count)

    def delete(self, uid: Uid | None, lock: int = 0) -> None:
        self._do(Delete(self.queue, Recorder(), a_filter(uid, lock=lock)))

    def listen(self, position: int, timeout_ms: int = 0, **wanted: Any) -> Recorder:
        asker = Recorder()
        until_us = self.world.now_us + timeout_ms * MS if timeout_ms else 0
        self.begin(Listen(self.queue, asker, a_filter(**wanted), position, until_us), asker)
        self.world.turn()
        return asker


def rows_of(answer: StoreAnswer) -> list[tuple[Uid, bytes]]:
    return [(tuple(unpack_unique_id(row.unique_id)), row.body or b"") for row in answer.rows]  # type: ignore[misc]


def _only(answer: StoreAnswer) -> tuple[Uid, bytes]:
    (found,) = rows_of(answer)
    return found
