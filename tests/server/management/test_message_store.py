"""The message store over the wire: our client's two faces, restarts, and requests that wait."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from postroom.client import (
    BrowseLock,
    Connection,
    ConnectionFactory,
    DuplicateMessageException,
    InvalidDestinationException,
    JMSException,
    ManagementException,
    Message,
    MessageFilter,
    MessageStore,
    NoMatchingMessageException,
    ResourceAllocationException,
    UniqueId,
    aio,
)
from postroom.manager.destinations.switches import CONSUMPTION
from postroom.manager.message_store.holders import store_of
from postroom.manager.message_store.pending_requests import store_requests_of
from postroom.manager.queues.store_holders import MAX_CONFIRMED
from postroom.server.configuration.config import MessageStoreConfig, QueueConfig
from postroom.server.connection.broker import Broker
from postroom.server.management.links import MAX_UNANSWERED, REQUEST_CREDIT
from tests.server.harness import BrokerThread, make_config

NAMES = ("q", "small", "lenient")
UID = UniqueId("QM1", 1_700_000_000_123)
A_MINUTE_S = 60.0


def config() -> object:
    queues = [
        QueueConfig(name="q"),
        QueueConfig(name="small", max_messages=1),
        QueueConfig(name="lenient", confirm_id_required=False),
        QueueConfig(name="limited", redelivery_limit=1, dead_letter_queue="dead"),
        QueueConfig(name="strict", redelivery_limit=1, dead_letter_queue="dead", undo_counts=True),
        QueueConfig(name="dead"),
    ]
    return make_config(queue=queues, container_id="HERE")


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(config()) as running:  # type: ignore[arg-type]
        yield running


@contextmanager
def connected(broker: BrokerThread) -> Iterator[Connection]:
    with ConnectionFactory(broker.url).create_connection() as connection:
        yield connection


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[Connection]:
    with connected(broker) as opened:
        yield opened


@pytest.fixture
def store(connection: Connection) -> MessageStore:
    return connection.create_message_store("q")


def body(message: Message | None) -> object:
    assert message is not None
    return message.body


def test_a_message_goes_in_and_out_in_two_steps(store: MessageStore) -> None:
    message = Message("apples", message_id="m1", correlation_id=UUID(int=5), priority=7, properties={"n": 1})
    assert store.put(message, unique_id=UID, confirm_id=4) == UID
    with pytest.raises(NoMatchingMessageException, match="Except_Q_NoMatchingMsg"):
        store.get()
    with pytest.raises(NoMatchingMessageException):
        store.confirm_put(UID, 5)
    store.confirm_put(UID, 4)
    store.confirm_put(UID, 4)
    got = store.get(MessageFilter(message_id="m1", correlation_id=UUID(int=5), priority=7), confirm_id=9)
    assert (got.unique_id, got.message_id, got.correlation_id, got.priority) == (UID, "m1", UUID(int=5), 7)
    assert (body(got.message), got.message and got.message.properties) == ("apples", {"n": 1})
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UID, 10)
    assert store.undo(9) == 1
    store.get(confirm_id=9)
    store.confirm_get(UID, 9)
    with pytest.raises(NoMatchingMessageException):
        store.get()


def test_a_repeated_confirmation_of_a_get_is_nothing_wrong(store: MessageStore) -> None:
    store.put("a", unique_id=UID)
    store.put("b", unique_id=UniqueId("QM1", 6))
    store.get(MessageFilter(unique_id=UID), confirm_id=9)
    store.get(confirm_id=9)
    store.confirm_get(UID, 9)
    store.confirm_get(UID, 9)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UID, 10)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UID)
    assert store.confirm(9) == 1
    store.confirm_get(UniqueId("QM1", 6), 9)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UniqueId("QM1", 7), 9)
    store.put("again", unique_id=UID)
    store.get(confirm_id=11)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UID, 9)
    assert store.undo(11) == 1


def test_a_repeated_confirmation_by_unique_id_alone(connection: Connection) -> None:
    store = connection.create_message_store("lenient")
    store.put("a", unique_id=UID)
    store.get(confirm_id=9)
    store.confirm_get(UID)
    store.confirm_get(UID)
    store.confirm_get(UID, 9)


def test_what_ended_otherwise_was_not_confirmed(store: MessageStore) -> None:
    store.put("a", unique_id=UID)
    store.get(confirm_id=9)
    assert store.undo(9) == 1
    store.delete(UID)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(UID, 9)


def test_so_many_confirmed_gets_are_remembered(broker: BrokerThread, store: MessageStore) -> None:
    first, last = UniqueId("QM1", 1), UniqueId("QM1", 2)
    others = {b"%d" % number: 1 for number in range(MAX_CONFIRMED - 1)}
    for uid in (first, last):
        store.put("a", unique_id=uid)
        store.get(MessageFilter(unique_id=uid), confirm_id=9)
    store.confirm_get(first, 9)
    broker.call(lambda broker: store_of(broker.manager.queues["q"]).confirmed.update(others))
    store.confirm_get(first, 9)
    store.confirm_get(last, 9)
    with pytest.raises(NoMatchingMessageException):
        store.confirm_get(first, 9)
    store.confirm_get(last, 9)
    assert broker.call(lambda broker: len(store_of(broker.manager.queues["q"]).confirmed)) == MAX_CONFIRMED


def test_while_consumption_is_paused_no_get_finds_anything(
    broker: BrokerThread, connection: Connection, store: MessageStore
) -> None:
    store.put("a", unique_id=UID)
    lock = store.browse_and_lock()
    for inhibits in (False, True):
        _close(broker, inhibits, True)
        for wanted in (MessageFilter(), MessageFilter(lock_id=lock.lock_id), MessageFilter(unique_id=UID)):
            with pytest.raises(NoMatchingMessageException, match="Except_Q_NoMatchingMsg"):
                store.get(wanted)
        with pytest.raises(NoMatchingMessageException):
            store.get(MessageFilter(lock_id=lock.lock_id, unique_id=UID), confirm_id=5)
        assert [body(found.message) for found in store.browse(MessageFilter(lock_id=lock.lock_id))] == ["a"]
        _close(broker, inhibits, False)
    assert body(store.get(MessageFilter(lock_id=lock.lock_id)).message) == "a"


def _close(broker: BrokerThread, inhibits: bool, closed: bool) -> None:
    def change(broker: Broker, now_us: int) -> None:
        queue = broker.manager.queues["q"]
        if inhibits:
            queue.switches.get_inhibited = closed
        elif closed:
            broker.manager.pause(queue, CONSUMPTION, now_us)
        else:
            broker.manager.resume(queue, CONSUMPTION, now_us)

    broker.turn(change)


@pytest.mark.parametrize(("queue", "counted"), [("limited", False), ("strict", True)])
def test_undo_counts_toward_the_limit_where_the_queue_says_so(
    tmp_path: Path, queue: str, counted: bool
) -> None:
    with BrokerThread(config(), folder=tmp_path) as running, connected(running) as connection:  # type: ignore[arg-type]
        store = connection.create_message_store(queue)
        store.put("a")
        for attempt in range(2):
            got = store.get(confirm_id=7)
            assert got.message is not None and got.message.delivery_count == attempt
            store.undo(7)
    with BrokerThread(config(), folder=tmp_path) as running, connected(running) as connection:  # type: ignore[arg-type]
        store, dead = (connection.create_message_store(name) for name in (queue, "dead"))
        if counted:
            assert store.browse() == []
            assert [body(found.message) for found in dead.browse()] == ["a"]
        else:
            got = store.get()
            assert got.message is not None and got.message.delivery_count == 2
            assert dead.browse() == []


def test_a_browse_that_finds_nothing_locks_nothing(broker: BrokerThread, store: MessageStore) -> None:
    assert store.browse() == []
    assert store.browse_and_lock(confirm_id=6) == BrowseLock(0, [])
    assert store.browse_and_lock(MessageFilter(message_id="none")) == BrowseLock(0, [])
    with pytest.raises(NoMatchingMessageException):
        store.undo(6)
    with pytest.raises(NoMatchingMessageException):
        store.unlock(0)
    assert broker.call(lambda broker: store_of(broker.manager.queues["q"]).locks) == {}


def test_a_message_of_any_client_has_a_unique_id(connection: Connection, store: MessageStore) -> None:
    session = connection.create_session()
    session.create_producer("q").send("plain")
    marked = Message("marked", annotations={"x-opt-mqe-origin-qmgr": "QM2", "x-opt-mqe-time": 12})
    session.create_producer("q").send(marked)
    plain, other = store.browse()
    assert plain.unique_id.origin == "HERE" and other.unique_id == UniqueId("QM2", 12)
    assert store.browse(just_uid=True)[0].unique_id == plain.unique_id
    assert body(store.get(MessageFilter(unique_id=other.unique_id)).message) == "marked"
    store.delete(plain.unique_id)
    assert store.browse() == []


def test_duplicates_and_resend(store: MessageStore) -> None:
    store.put("first", unique_id=UID, confirm_id=4)
    with pytest.raises(DuplicateMessageException, match="unique id"):
        store.put("again", unique_id=UID)
    store.put("again", unique_id=UID, confirm_id=4, resend=True)
    assert store.confirm(4) == 1
    assert [body(found.message) for found in store.browse()] == ["again"]


def test_browse_and_lock(connection: Connection, store: MessageStore) -> None:
    uids = [store.put(f"{n}") for n in range(3)]
    lock = store.browse_and_lock(confirm_id=6)
    assert isinstance(lock, BrowseLock)
    assert [body(found.message) for found in lock.messages] == ["0", "1", "2"]
    store.put("later")
    assert [body(found.message) for found in store.browse()] == ["later"]
    with pytest.raises(NoMatchingMessageException):
        store.delete(uids[0])
    store.delete(uids[0], lock_id=lock.lock_id)
    got = store.get(MessageFilter(lock_id=lock.lock_id, unique_id=uids[1]), confirm_id=6)
    assert body(got.message) == "1"
    assert store.unlock(lock.lock_id, uids[2]) == 1
    assert store.undo(6) == 1
    assert len(store.browse()) == 2, "one step: it is locked again"
    assert store.undo(6) == 1
    assert [body(found.message) for found in store.browse()] == ["1", "2", "later"]


def test_pages_of_a_large_browse(broker: BrokerThread, connection: Connection, store: MessageStore) -> None:
    connection.create_session().create_producer("q").send_all([f"{n}" for n in range(2500)])
    assert [body(found.message) for found in store.browse()] == [f"{n}" for n in range(2500)]
    assert len(store.browse(just_uid=True)) == 2500
    lock = store.browse_and_lock(just_uid=True)
    assert [found.unique_id.time for found in lock.messages] == sorted(
        found.unique_id.time for found in lock.messages
    )
    assert len(lock.messages) == 2500
    assert store.unlock(lock.lock_id) == 2500


def test_application_properties_are_compared_in_the_messages(store: MessageStore) -> None:
    for n in range(5):
        store.put(Message(f"{n}", properties={"even": n % 2 == 0, "n": n}))
    found = store.browse(MessageFilter(properties={"even": True}))
    assert [body(each.message) for each in found] == ["0", "2", "4"]
    assert body(store.get(MessageFilter(properties={"n": 3})).message) == "3"


def test_a_full_queue_refuses_whatever_the_states(connection: Connection) -> None:
    small = connection.create_message_store("small")
    small.put("held", confirm_id=3)
    with pytest.raises(ResourceAllocationException, match="Except_Q_Full"):
        small.put("more")


def test_the_lenient_rule_of_the_documentation(connection: Connection) -> None:
    lenient = connection.create_message_store("lenient")
    uid = lenient.put("x", confirm_id=3)
    lenient.confirm_put(uid)
    lenient.get(confirm_id=3)
    lenient.confirm_get(uid)


def test_a_queue_that_is_none(connection: Connection) -> None:
    with pytest.raises(InvalidDestinationException):
        connection.create_message_store("nowhere").get()


def in_thread(action: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(action())
        except JMSException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def waits(broker: BrokerThread) -> int:
    return broker.call(lambda b: store_requests_of(b.manager.core).count)


def test_waiting_for_a_message_holds_up_nothing(broker: BrokerThread, store: MessageStore) -> None:
    wanted = MessageFilter(correlation_id="c7")
    thread, results = in_thread(lambda: store.wait(wanted, timeout_s=A_MINUTE_S, confirm_id=2))
    broker.wait_until(lambda b: store_requests_of(b.manager.core).count == 1)
    store.put(Message("other", correlation_id="c6"))
    assert len(store.browse()) == 1
    uid = store.put(Message("answer", correlation_id="c7"))
    thread.join()
    (found,) = results
    assert body(found.message) == "answer"  # type: ignore[attr-defined]
    store.confirm_get(uid, 2)
    with pytest.raises(NoMatchingMessageException):
        store.wait(wanted, timeout_s=0.02)


def test_who_has_gone_gets_nothing(broker: BrokerThread, store: MessageStore) -> None:
    with connected(broker) as other:
        gone = other.create_message_store("q")
        thread, _ = in_thread(lambda: gone.wait(timeout_s=A_MINUTE_S))
        broker.wait_until(lambda b: store_requests_of(b.manager.core).count == 1)
    thread.join()
    broker.wait_until(lambda b: store_requests_of(b.manager.core).count == 0)
    store.put("stays")
    assert len(store.browse()) == 1


def test_who_waits_for_very_many_answers_gets_no_more_credit(broker: BrokerThread) -> None:
    async def main() -> None:
        async with await aio.ConnectionFactory(broker.url).create_connection() as connection:
            session = await connection.create_session()
            requests = await session.create_producer("$management")
            fields = {"operation": "WAIT", "type": "postroom.message", "name": "q"}
            wait = Message({"timeout_ms": 60_000}, properties=fields, durable=False)
            sending = [asyncio.create_task(requests.send(wait)) for _ in range(2000)]
            while waits(broker) < MAX_UNANSWERED:
                await asyncio.sleep(0)
            store = await connection.create_message_store("q")
            await store.put("x")
            assert waits(broker) <= MAX_UNANSWERED + REQUEST_CREDIT
            assert not all(task.done() for task in sending)
            for task in sending:
                task.cancel()

    asyncio.run(main())
    broker.wait_until(lambda b: store_requests_of(b.manager.core).count == 0)


def test_a_listener_hears_of_what_comes(connection: Connection, store: MessageStore) -> None:
    store.put("before")
    listener = store.create_listener(MessageFilter(priority=8))
    store.put("low")
    uid = store.put(Message("high", priority=8, message_id="m8"))
    event = listener.receive(A_MINUTE_S)
    assert event == ("q", uid, "m8", None, 8)
    assert listener.receive(0.01) is None
    thread, results = in_thread(lambda: listener.receive(A_MINUTE_S))
    later = connection.create_session().create_producer("q")
    later.send(Message("later", priority=8, message_id="m9"))
    thread.join()
    assert results[0].message_id == "m9"  # type: ignore[attr-defined]
    listener.close()


def test_the_asyncio_face(broker: BrokerThread) -> None:
    async def main() -> None:
        async with await aio.ConnectionFactory(broker.url).create_connection() as connection:
            store = await connection.create_message_store("q")
            waiting = asyncio.create_task(store.wait(timeout_s=A_MINUTE_S))
            uid = await store.put("x")
            assert (await waiting).unique_id == uid
            abandoned = asyncio.create_task(store.wait(timeout_s=A_MINUTE_S))
            while waits(broker) == 0:
                await asyncio.sleep(0)
            abandoned.cancel()
            with pytest.raises(asyncio.CancelledError):
                await abandoned
            while waits(broker) == 1:
                await asyncio.sleep(0)
            await store.put("y")
            assert len(await store.browse()) == 1

    asyncio.run(main())


def test_what_is_held_survives_a_restart(tmp_path: Path) -> None:
    with BrokerThread(config(), folder=tmp_path) as running, connected(running) as connection:  # type: ignore[arg-type]
        store = connection.create_message_store("q")
        put, got, locked, through = (UniqueId("QM1", n) for n in range(1, 5))
        for uid in (got, locked, through):
            store.put(f"{uid.time}", unique_id=uid)
        store.put("1", unique_id=put, confirm_id=11)
        store.get(MessageFilter(unique_id=got), confirm_id=12)
        lock_id = store.browse_and_lock(confirm_id=13).lock_id
        store.get(MessageFilter(unique_id=through, lock_id=lock_id), confirm_id=14)
        store.put(Message("lost", durable=False), confirm_id=15)
    with BrokerThread(config(), folder=tmp_path) as running, connected(running) as connection:  # type: ignore[arg-type]
        store = connection.create_message_store("q")
        assert store.browse() == []
        with pytest.raises(NoMatchingMessageException):
            store.confirm(15)
        with pytest.raises(DuplicateMessageException):
            store.put("again", unique_id=locked)
        store.confirm_put(put, 11)
        store.confirm_get(got, 12)
        assert store.undo(14) == 1
        kept = store.browse(MessageFilter(lock_id=lock_id))
        assert [body(found.message) for found in kept] == ["3", "4"]
        assert store.undo(13) == 2
        assert [body(found.message) for found in store.browse()] == ["3", "4", "1"]


def test_a_lock_ends_with_its_lease(tmp_path: Path) -> None:
    short = make_config(("q",), message_store=MessageStoreConfig(browse_lock_ms=30))
    with BrokerThread(short) as running, connected(running) as connection:
        store = connection.create_message_store("q")
        store.put("x")
        store.browse_and_lock()
        assert body(store.wait(timeout_s=A_MINUTE_S).message) == "x"


BAD_REQUESTS: dict[str, tuple[str, object]] = {
    "no message": ("PUT-MESSAGE", {}),
    "bytes that are no message": ("PUT-MESSAGE", {"message": b"\x00\x53\x99"}),
    "a message of another type": ("PUT-MESSAGE", {"message": "text"}),
    "half a unique id": ("GET-MESSAGE", {"origin": "QM1"}),
    "the other half": ("GET-MESSAGE", {"time": 1}),
    "an origin that is empty": ("GET-MESSAGE", {"origin": "", "time": 1}),
    "an origin that is too long": ("GET-MESSAGE", {"origin": "x" * 300, "time": 1}),
    "a time that is text": ("GET-MESSAGE", {"origin": "x", "time": "1"}),
    "a priority beyond 9": ("GET-MESSAGE", {"priority": 10}),
    "a priority that is text": ("GET-MESSAGE", {"priority": "4"}),
    "a negative confirm id": ("GET-MESSAGE", {"confirm_id": -1}),
    "a confirm id of 0": ("UNDO", {"confirm_id": 0}),
    "a message id of no id type": ("BROWSE", {"message_id": 1.5}),
    "properties that are no map": ("BROWSE", {"properties": [1]}),
    "a page that begins nowhere": ("BROWSE", {"after": [1]}),
    "a page of another priority": ("BROWSE", {"after": [11, 0, 0]}),
    "a page before all": ("BROWSE", {"after": [1, -5, 0]}),
    "just_uid that is a number": ("BROWSE", {"just_uid": 1}),
    "a delete of all": ("DELETE-MESSAGE", {}),
    "a confirmation of all": ("CONFIRM-GET", {"confirm_id": 1}),
    "a body that is no map": ("BROWSE", "all"),
    "properties of what is locked": ("GET-MESSAGE", {"lock_id": 1, "properties": {"n": 1}}),
    "a listener for properties": ("LISTEN", {"properties": {"n": 1}}),
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
def test_bad_requests_are_refused_and_harm_nobody(what: str, connection: Connection) -> None:
    operation, body = BAD_REQUESTS[what]
    management = connection.create_management()
    with pytest.raises(ManagementException) as refused:
        management.request(operation, kind="postroom.message", name="q", body=body)
    assert (refused.value.status_code, refused.value.condition) == (400, "amqp:invalid-field")
    assert management.read("postroom.queue", "q")["messages_received"] == 0


def test_numbers_that_are_large_are_taken(store: MessageStore) -> None:
    most = (1 << 63) - 1
    uid = store.put("x", unique_id=UniqueId("QM1", -most), confirm_id=most)
    store.confirm_put(uid, most)
    lock = store.browse_and_lock(lease_s=1e15, confirm_id=most)
    assert lock.messages[0].unique_id == uid
    assert store.undo(most) == 1
    assert store.browse(MessageFilter(message_id=b"none")) == []
    with pytest.raises(NoMatchingMessageException):
        store.unlock(most)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "message-store.md"
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
OUTPUT = {
    "Assured put and get": ["one crate of apples"],
    "Look at messages and take some of them": ["took 4", "took 3", "left 3"],
    "Wait, and listen": ["answers 4", "yes"],
}


@pytest.mark.parametrize("title", OUTPUT)
def test_a_program_of_the_how_to_page_works(
    title: str, broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(PROGRAMS[title].replace("5672", str(broker.port)), {})
    assert capsys.readouterr().out.splitlines() == OUTPUT[title]
    assert PROGRAMS.keys() == OUTPUT.keys()
