"""What queues do that nobody has configured, with the defaults that users meet: a poison message ends on
``postroom.dead``, nothing is lost without a line, and a mistyped name makes no queue.

`FAST` has the same defaults with small numbers: nothing here waits for a minute.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from proton import UNDESCRIBED, Array, Data, Message, symbol
from proton.reactor import Copy, LinkOption
from proton.utils import BlockingConnection, LinkDetached

from postroom.amqp.encoding.composite import Error
from postroom.amqp.frames.outcomes import ACCEPTED, Rejected, TransactionalState
from postroom.client import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    InvalidDestinationException,
    RecoverMode,
    Session,
    TextMessage,
    Topic,
)
from postroom.ledger.reading.dump import Filter, Line, dump
from postroom.manager.kernel.effects import Discarded
from postroom.model.entity_types import QUEUE_TYPE, SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.server.configuration.config import (
    AutoCreateConfig,
    Config,
    QueueConfig,
    QueueDefaultsConfig,
    QueueManagerConfig,
)
from postroom.server.configuration.listening import ListenConfig
from postroom.server.connection.discard_log import INTERVAL_US, MAX_QUEUES, OTHERS, DiscardLog
from tests.server.client_messages import nodes
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, commit

pytestmark = pytest.mark.sockets

DEAD = "postroom.dead"
LISTEN = [ListenConfig(address="127.0.0.1:0")]
LIMIT, FIRST_MS, LONGEST_MS = 3, 10, 25
FAST = QueueDefaultsConfig(
    redelivery_limit=LIMIT, redelivery_delay_ms=FIRST_MS, max_redelivery_delay_ms=LONGEST_MS
)
DELAYS_MS = [10, 20, 25, 25]
"""Of its failures; the limit is judged after the last."""
USUAL = {
    "redelivery_limit": 10,
    "redelivery_delay_ms": 500,
    "redelivery_delay_multiplier_percent": 200,
    "max_redelivery_delay_ms": 60_000,
    "dead_letter_queue": DEAD,
}
NONE = {
    "redelivery_limit": -1,
    "redelivery_delay_ms": -1,
    "redelivery_delay_multiplier_percent": 100,
    "max_redelivery_delay_ms": -1,
    "dead_letter_queue": "",
}


def fast(**changes: object) -> Config:
    settings: dict[str, object] = {"listen": LISTEN, "queue_defaults": FAST, **changes}
    return Config(**settings)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(folder: Path) -> Iterator[BrokerThread]:
    with BrokerThread(fast(), folder=folder) as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[Connection]:
    with ConnectionFactory(broker.url).create_connection() as opened:
        yield opened


def lines_of(folder: Path, queue: str) -> list[Line]:
    """What the ledger says of a queue, from the disk alone."""
    return list(dump(folder, Filter(queue=queue), beyond_durable=True))


def settings_of(connection: Connection, kind: str, name: str) -> dict[str, Any]:
    read = connection.create_management().read(kind, name)
    return {key: read[key] for key in USUAL}


# --- what they are


@pytest.fixture(scope="module")
def usual() -> Iterator[BrokerThread]:
    """A broker of which only the address was said."""
    queues = [
        QueueConfig(name="said", redelivery_limit=2, dead_letter_queue="own"),
        QueueConfig(name="xmit", usage="transmission"),
        QueueConfig(
            name="original",
            redelivery_limit=-1,
            redelivery_delay_ms=-1,
            redelivery_delay_multiplier_percent=100,
            max_redelivery_delay_ms=-1,
            dead_letter_queue="",
        ),
    ]
    with BrokerThread(Config(listen=LISTEN, queue=queues)) as running:
        yield running


def test_every_kind_of_queue_has_them(usual: BrokerThread) -> None:
    with ConnectionFactory(usual.url, client_id="me").create_connection() as connection:
        session, management = connection.create_session(), connection.create_management()
        session.create_producer("auto")
        management.create(QUEUE_TYPE, "managed", {"max_messages": 5})
        for name in ("auto", "managed", session.create_temporary_queue().name):
            assert settings_of(connection, QUEUE_TYPE, name) == USUAL, name
        management.create(TOPIC_TYPE, "news", {"redelivery_limit": 7})
        session.create_durable_consumer("news", "keep")
        session.create_consumer(Topic("other"))
        session.create_shared_consumer("any.*", "mine")
        subscriptions = {str(each["topic"]): each for each in management.query(SUBSCRIPTION_TYPE)}
        for topic, limit in (("news", 7), ("other", 10), ("any.*", 10)):
            expected = USUAL | {"redelivery_limit": limit}
            assert {key: subscriptions[topic][key] for key in USUAL} == expected, topic


def test_a_queue_that_says_it_itself_has_its_own(usual: BrokerThread) -> None:
    with ConnectionFactory(usual.url).create_connection() as connection:
        own = USUAL | {"redelivery_limit": 2, "dead_letter_queue": "own"}
        assert settings_of(connection, QUEUE_TYPE, "said") == own
        assert settings_of(connection, QUEUE_TYPE, "original") == NONE
        connection.create_management().create(QUEUE_TYPE, "bare", NONE)
        assert settings_of(connection, QUEUE_TYPE, "bare") == NONE


def test_what_is_not_for_them_has_them_not(usual: BrokerThread) -> None:
    """A transmission queue is its channel's; nothing leaves the end of the way, where failures only wait."""
    with ConnectionFactory(usual.url).create_connection() as connection:
        assert settings_of(connection, QUEUE_TYPE, "xmit") == NONE
        connection.create_management().create(QUEUE_TYPE, "outward", {"usage": "transmission"})
        assert settings_of(connection, QUEUE_TYPE, "outward") == NONE
        end = USUAL | {"redelivery_limit": -1, "dead_letter_queue": ""}
        assert settings_of(connection, QUEUE_TYPE, DEAD) == end


def test_a_dead_letter_queue_that_is_made_when_it_is_needed_has_them_too(usual: BrokerThread) -> None:
    with ConnectionFactory(usual.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("said").send("bad")
        consumer = session.create_consumer("said")
        consumer.reject(consumer.receive(10))
        assert session.create_consumer("own").receive(10).body == "bad"
        assert settings_of(connection, QUEUE_TYPE, "own") == USUAL


def test_what_was_made_keeps_what_it_was_made_with(folder: Path) -> None:
    """Other defaults at another start are those of queues made from then on, and of the configured ones."""
    queues = [QueueConfig(name="configured")]
    with (
        BrokerThread(fast(queue=queues), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        connection.create_session().create_producer("old")
    with (
        BrokerThread(Config(listen=LISTEN, queue=queues), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        connection.create_session().create_producer("new")
        limits = {name: settings_of(connection, QUEUE_TYPE, name) for name in ("old", "new", "configured")}
        assert {name: each["redelivery_limit"] for name, each in limits.items()} == {
            "old": LIMIT,
            "new": 10,
            "configured": 10,
        }


# --- poison messages


def fail_by_modify(session: Session) -> None:
    consumer = session.create_consumer("work")
    for _ in range(LIMIT + 1):
        consumer.modify(consumer.receive(20))


def fail_by_rollback(session: Session) -> None:
    consumer = session.create_consumer("work")
    for _ in range(LIMIT + 1):
        assert consumer.receive(20) is not None
        session.rollback()


def fail_by_recover(session: Session) -> None:
    consumer = session.create_consumer("work")
    for _ in range(LIMIT + 1):
        assert consumer.receive(20) is not None
        session.recover()


def fail_in_a_listener(session: Session) -> None:
    seen: list[int] = []
    done = threading.Event()

    def listen(message: object) -> None:
        seen.append(1)
        if len(seen) == LIMIT + 1:
            done.set()
        raise RuntimeError("poison")

    session.create_consumer("work").set_message_listener(listen)
    assert done.wait(20)


WAYS = {
    "modify": (AcknowledgeMode.INDIVIDUAL, fail_by_modify),
    "rollback": (AcknowledgeMode.SESSION_TRANSACTED, fail_by_rollback),
    "recover": (AcknowledgeMode.CLIENT, fail_by_recover),
    "listener": (AcknowledgeMode.AUTO, fail_in_a_listener),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_poison_message_ends_on_the_dead_letter_queue(
    broker: BrokerThread, connection: Connection, folder: Path, way: str
) -> None:
    """Delivered LIMIT + 1 times, each time after a longer wait; the ledger has the times."""
    mode, fail = WAYS[way]
    asking = connection.create_session()
    asking.create_producer("work").send(TextMessage("bad"))
    fail(connection.create_session(mode, recover=RecoverMode.BROKER))
    dead = asking.create_consumer(DEAD).receive(20)
    assert dead is not None and dead.body == "bad"
    annotation = dead.annotations
    assert annotation["x-opt-dead-letter-reason"] == "postroom:redelivery-limit-exceeded"
    assert annotation["x-opt-dead-letter-queue"] == "work"
    failed = [line for line in lines_of(folder, "work") if line.get("failure_delta")]
    waits = [to_ms(line["due"]) - to_ms(line["time"]) for line in failed]
    assert waits == DELAYS_MS


def to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000) // 1000


def test_its_attempts_are_counted_over_a_restart(folder: Path) -> None:
    for attempt in range(LIMIT + 1):
        with (
            BrokerThread(fast(), folder=folder) as broker,
            ConnectionFactory(broker.url).create_connection() as connection,
        ):
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            if attempt == 0:
                session.create_producer("work").send("bad")
            consumer = session.create_consumer("work")
            consumer.modify(consumer.receive(20))
    with (
        BrokerThread(fast(), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        session = connection.create_session()
        assert session.create_consumer(DEAD).receive(20).body == "bad"
        assert list(session.create_browser("work")) == []


def test_the_others_are_not_kept_waiting(connection: Connection) -> None:
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    session.create_producer("work").send_all(["bad", "one", "two"])
    consumer = session.create_consumer("work")
    got = []
    while len(got) < 2:
        message = consumer.receive(20)
        if message.body == "bad":
            consumer.modify(message)
        else:
            got.append(message.body)
            message.acknowledge()
    assert got == ["one", "two"]


# --- rejected ones


def reject(session: Session, queue: str, reason: str = "app:no") -> None:
    consumer = session.create_consumer(queue)
    message = consumer.receive(20)
    assert message is not None
    consumer.reject(message, reason, "not mine")
    consumer.close()


def test_rejected_lands_there_and_is_there_after_a_restart(folder: Path) -> None:
    with (
        BrokerThread(fast(), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("work").send("bad")
        reject(session, "work")
    with (
        BrokerThread(fast(), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        [dead] = connection.create_session().create_browser(DEAD)
        assert dead.body == "bad"
        assert dead.annotations["x-opt-dead-letter-reason"] == "app:no"


@pytest.mark.parametrize("transacted", [False, True])
def test_what_is_rejected_there_stays(folder: Path, transacted: bool) -> None:
    """As with MQ, where a consumer can't make a dead letter vanish: it comes back as a failed delivery, for
    ever; the ledger has the reason."""
    with (
        BrokerThread(fast(), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("work").send("bad")
        reject(session, "work")
        for attempt in range(LIMIT + 3):
            if transacted:
                reject_in_transaction(broker, attempt)
            else:
                reject(session, DEAD, "app:still-no")
    with (
        BrokerThread(fast(), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        consumer = connection.create_session().create_consumer(DEAD)
        message = consumer.receive(20)
        assert (message.body, message.delivery_count) == ("bad", LIMIT + 3)
    failed = [line for line in lines_of(folder, DEAD) if line.get("failure_delta")]
    assert len(failed) == LIMIT + 3
    assert {line["detail"]["condition"] for line in failed} == {"app:still-no"}


def reject_in_transaction(broker: BrokerThread, attempt: int) -> None:
    with EnginePeer(broker.port, container_id=f"peer{attempt}") as peer:
        controller = Controller(broker, peer, DEAD)
        transaction = controller.declare()
        rejected = Rejected(Error("app:still-no", "not mine"))
        controller.dispose(controller.receive().delivery_id, TransactionalState(transaction, rejected))
        assert commit(controller, transaction) == ACCEPTED


def test_another_dead_letter_queue_may_be_put_behind_it(connection: Connection) -> None:
    connection.create_management().update(QUEUE_TYPE, DEAD, {"dead_letter_queue": "attic"})
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    session.create_producer("work").send("bad")
    reject(session, "work")
    reject(session, DEAD)
    assert session.create_consumer("attic").receive(20).body == "bad"


# --- without a dead-letter queue


class Heard(logging.Handler):
    """The log's lines of one event."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self.event = event
        self.fields: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == self.event:
            self.fields.append(record.__dict__["fields"])


@pytest.fixture
def discards() -> Iterator[Heard]:
    heard = Heard("messages-discarded")
    logging.getLogger("postroom").addHandler(heard)
    yield heard
    logging.getLogger("postroom").removeHandler(heard)


def test_what_is_discarded_has_a_line_in_the_log_and_its_record(folder: Path, discards: Heard) -> None:
    """The first at once, the others together: here when the broker stops."""
    without = fast(queue_manager=QueueManagerConfig(dead_letter_queue=""))
    with (
        BrokerThread(without, folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        assert DEAD not in nodes(broker)
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("work").send_all(["a", "b", "c"])
        for _ in range(3):
            reject(session, "work")
        broker.wait_until(lambda running: running.manager.queues["work"].statistics.depth == 0)
    counts = [(each["queue"], each["count"], each["reason"]) for each in discards.fields]
    assert counts == [("work", 1, "app:no: not mine"), ("work", 2, "app:no: not mine")]
    assert "dead_letter_queue" in discards.fields[0]["cure"]
    ended = [line for line in lines_of(folder, "work") if line.get("outcome") == "discarded"]
    assert [line["detail"]["condition"] for line in ended] == ["app:no"] * 3


def discarded(**counts: int) -> dict[str, Discarded]:
    found = {}
    for queue, count in counts.items():
        found[queue] = Discarded(queue)
        found[queue].count, found[queue].reason = count, f"because {count}"
    return found


def test_many_discards_are_few_lines(discards: Heard) -> None:
    log = DiscardLog()
    log.note(discarded(a=2), 1)
    for moment in range(2, 1000):
        log.note(discarded(a=1), moment)
    log.note(discarded(b=1), 1000)
    assert [(each["queue"], each["count"]) for each in discards.fields] == [("a", 2), ("b", 1)]
    assert log.next_deadline_us() == 1 + INTERVAL_US
    log.on_time(INTERVAL_US)
    assert len(discards.fields) == 2
    log.on_time(1 + INTERVAL_US)
    assert [(each["queue"], each["count"]) for each in discards.fields[2:]] == [("a", 998)]
    log.on_time(1 + 2 * INTERVAL_US)  # nothing more: the next is told at once
    assert log.next_deadline_us() == 0
    log.note(discarded(a=1), 2 + 2 * INTERVAL_US)
    assert len(discards.fields) == 4


def test_discards_of_very_many_queues_are_told_together(discards: Heard) -> None:
    log = DiscardLog()
    for number in range(MAX_QUEUES + 5):
        log.note(discarded(**{f"q{number}": 1}), 1)
    assert len(discards.fields) == MAX_QUEUES + 1
    log.log_all()
    assert [(each["queue"], each["count"]) for each in discards.fields[MAX_QUEUES:]] == [
        (OTHERS, 1),
        (OTHERS, 4),
    ]


# --- names that nothing has


class SourceCapabilities(LinkOption):
    """A source with these capabilities."""

    def __init__(self, *capabilities: str) -> None:
        self._capabilities = capabilities

    def apply(self, link: Any) -> None:
        named = [symbol(each) for each in self._capabilities]
        link.source.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *named))


@pytest.fixture
def proton(broker: BrokerThread) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(broker.url, timeout=15)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "options", [None, Copy(), SourceCapabilities("queue")], ids=["take", "browse", "queue"]
)
def test_a_receiver_of_a_missing_queue_is_refused_and_makes_none(
    broker: BrokerThread, proton: BlockingConnection, options: LinkOption | None
) -> None:
    before = nodes(broker)
    with pytest.raises(LinkDetached, match="there is no queue 'ordesr'") as refused:
        proton.create_receiver("ordesr", options=options)
    assert refused.value.condition == "amqp:not-found"
    assert "create-on-demand" in str(refused.value)
    assert nodes(broker) == before


def test_our_client_says_so_too(broker: BrokerThread, connection: Connection) -> None:
    session, before = connection.create_session(), nodes(broker)
    with pytest.raises(InvalidDestinationException, match="there is no queue 'ordesr'"):
        session.create_consumer("ordesr")
    with pytest.raises(InvalidDestinationException, match="there is no queue 'ordesr'"):
        list(session.create_browser("ordesr"))
    with pytest.raises(InvalidDestinationException, match="there is no queue 'ordesr'"):
        session.create_consumer("ordesr@postroom")
    assert nodes(broker) == before


def test_whoever_asks_for_it_makes_the_queue(
    broker: BrokerThread, proton: BlockingConnection, connection: Connection
) -> None:
    receiver = proton.create_receiver("asked", options=SourceCapabilities("queue", "create-on-demand"))
    granted = receiver.link.remote_source.capabilities
    granted.rewind()
    assert granted.next() and "create-on-demand" in str(granted.get_object())
    session = connection.create_session()
    session.create_consumer("asked.too", create=True)
    session.create_producer("sent.to")
    assert {"asked", "asked.too", "sent.to"} <= set(nodes(broker))
    session.create_producer("asked.too").send("a")
    proton.create_sender("asked").send(Message(body="b", durable=True))
    assert receiver.receive(timeout=15).body == "b"


def test_even_that_is_refused_where_nothing_is_created(folder: Path) -> None:
    never = fast(auto_create=AutoCreateConfig(enabled=False, consumers=True))
    with (
        BrokerThread(never, folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        session = connection.create_session()
        for create in (False, True):
            with pytest.raises(InvalidDestinationException, match="there is no queue 'q'"):
                session.create_consumer("q", create=create)
        assert nodes(broker) == [DEAD]


def test_consumers_create_where_the_configuration_says_so(folder: Path) -> None:
    with (
        BrokerThread(fast(auto_create=AutoCreateConfig(consumers=True)), folder=folder) as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        connection.create_session().create_consumer("q")
        assert nodes(broker) == [DEAD, "q"]


def test_a_topic_is_made_by_its_subscribers_as_before(broker: BrokerThread, connection: Connection) -> None:
    connection.create_session().create_consumer(Topic("news"))
    assert "news" in nodes(broker)


def test_nobody_makes_a_queue_of_the_brokers_own_names(connection: Connection) -> None:
    with pytest.raises(InvalidDestinationException):
        connection.create_session().create_consumer("postroom.mine", create=True)
