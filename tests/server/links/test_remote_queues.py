"""Queues at other queue managers as clients meet them: links, messages to the anonymous terminus, large ones,
transactions, the message store, management; with Proton's client and our own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Message as ProtonMessage
from proton import byte
from proton.utils import BlockingConnection, LinkDetached, SendException

from postroom.client import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    InvalidDestinationException,
    JMSException,
    ManagementException,
    Message,
    Queue,
)
from postroom.model.entity_types import QUEUE_TYPE, REMOTE_QUEUE_TYPE
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig, RemoteQueueConfig
from postroom.server.exits import StartError
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

THIS = "QM1"
HEADER = "x-opt-transmission"
LARGE = b"x" * 700_000
WAIT_S = 15


def config() -> Any:
    queues = [
        QueueConfig(name="QM2", usage="transmission"),
        QueueConfig(name="ELSEWHERE", usage="transmission"),
        QueueConfig(name="literal@QM2"),
    ]
    remote = [
        RemoteQueueConfig(name="REMOTE", remote_queue="Q", remote_queue_manager="QM2"),
        RemoteQueueConfig(name="ALIAS", remote_queue_manager="QM2"),
        RemoteQueueConfig(name="BACK", remote_queue_manager=THIS),
        RemoteQueueConfig(
            name="BROKEN", remote_queue="Q", remote_queue_manager="QM2", transmission_queue="NO"
        ),
    ]
    settings = QueueManagerConfig(default_transmission_queue="ELSEWHERE")
    return make_config(container_id=THIS, queue=queues, remote_queue=remote, queue_manager=settings)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(config()) as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(broker.url, timeout=WAIT_S)
    yield opened
    opened.close()


@contextmanager
def our_client(broker: BrokerThread) -> Iterator[Connection]:
    with ConnectionFactory(broker.url).create_connection() as opened:
        opened.start()
        yield opened


def waiting(broker: BrokerThread, queue: str = "QM2") -> int:
    return broker.call(lambda b: int(b.manager.queue(queue).statistics.depth))


def take(connection: BlockingConnection, queue: str = "QM2") -> ProtonMessage:
    """What a channel would get."""
    receiver = connection.create_receiver(queue)
    message = receiver.receive(timeout=WAIT_S)
    receiver.accept()
    receiver.close()
    return message


def header_of(message: ProtonMessage) -> list[object]:
    assert message.annotations is not None
    header = message.annotations[HEADER]
    assert isinstance(header, list)
    return header


@pytest.mark.parametrize(
    ("address", "queue", "header"),
    [
        ("Q@QM2", "QM2", ["Q", "QM2", 1]),
        ("REMOTE", "QM2", ["Q", "QM2", 1]),
        ("R@ALIAS", "QM2", ["R", "QM2", 1]),
        ("Q@QM7", "ELSEWHERE", ["Q", "QM7", 1]),
    ],
)
@pytest.mark.parametrize("anonymous", [False, True])
def test_a_message_waits_on_the_transmission_queue(
    connection: BlockingConnection, address: str, queue: str, header: list[object], anonymous: bool
) -> None:
    sender = connection.create_sender(None if anonymous else address)
    sender.send(
        ProtonMessage(body="b", address=address, reply_to="ANSWERS", durable=True, annotations={"n": 1})
    )
    got = take(connection, queue)
    assert header_of(got) == header
    assert (got.body, got.address, got.reply_to, got.durable) == ("b", address, f"ANSWERS@{THIS}", True)
    assert got.annotations is not None and got.annotations["n"] == 1


def test_an_anonymous_link_sends_here_and_there_in_turn(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    connection.create_sender("here").close()
    sender = connection.create_sender(None)
    for address in ("here", "Q@QM2", f"here@{THIS}", "REMOTE", "here@BACK"):
        sender.send(ProtonMessage(body=address, address=address))
    assert (waiting(broker), waiting(broker, "here")) == (2, 3)
    assert HEADER not in (take(connection, "here").annotations or {})


def test_this_queue_managers_own_name_is_no_way_out(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    """A queue is created by attaching, whether or not the address says where it is."""
    connection.create_sender(f"new@{THIS}").send(ProtonMessage(body="b"))
    assert take(connection, f"new@{THIS}").body == "b"
    assert "new" in broker.call(lambda b: list(b.manager.queues))


def test_a_literal_name_wins(broker: BrokerThread, connection: BlockingConnection) -> None:
    connection.create_sender("literal@QM2").send(ProtonMessage(body="b"))
    assert take(connection, "literal@QM2").body == "b"
    assert waiting(broker) == 0


@pytest.mark.parametrize(
    ("address", "condition", "said"),
    [
        ("BROKEN", "amqp:not-found", "MQRC_UNKNOWN_XMIT_Q (2196)"),
        ("ALIAS", "amqp:precondition-failed", "MQRC_REMOTE_Q_NAME_ERROR (2184)"),
        ("nothing@BACK", "amqp:not-found", "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
    ],
)
def test_names_that_lead_nowhere_are_refused(
    connection: BlockingConnection, address: str, condition: str, said: str
) -> None:
    with pytest.raises(LinkDetached) as refused:
        connection.create_sender(address)
    assert condition in str(refused.value) and said in str(refused.value)
    sender = connection.create_sender(None)
    with pytest.raises(SendException):
        sender.send(ProtonMessage(body="b", address=address))


@pytest.mark.parametrize("address", ["REMOTE", "ALIAS", "Q@QM2", "Q@QM7"])
def test_nobody_receives_from_elsewhere(connection: BlockingConnection, address: str) -> None:
    with pytest.raises(LinkDetached, match=r"amqp:not-allowed.*2045"):
        connection.create_receiver(address)


def test_a_link_follows_its_name_as_definitions_change(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    sender = connection.create_sender("REMOTE")
    sender.send(ProtonMessage(body=1))
    with our_client(broker) as ours:
        management = ours.create_management()
        management.update(REMOTE_QUEUE_TYPE, "REMOTE", {"transmission_queue": "ELSEWHERE"})
        sender.send(ProtonMessage(body=2))
        management.delete(REMOTE_QUEUE_TYPE, "REMOTE")
    with pytest.raises(SendException):
        sender.send(ProtonMessage(body=3))
    assert (take(connection).body, take(connection, "ELSEWHERE").body) == (1, 2)


def test_who_sends_to_a_queue_that_has_moved_attaches_again(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    """The queue is deleted here, which ends the links to it, and its name leads to where it is now."""
    sender = connection.create_sender("moved")
    sender.send(ProtonMessage(body=1))
    with our_client(broker) as ours:
        management = ours.create_management()
        management.delete(QUEUE_TYPE, "moved")
        where = {"remote_queue": "Q", "remote_queue_manager": "QM2"}
        management.create(REMOTE_QUEUE_TYPE, "moved", where)
        with pytest.raises(LinkDetached, match="amqp:resource-deleted"):
            sender.send(ProtonMessage(body=2))
        sender = connection.create_sender("moved", name="again")
        for number in (2, 3):
            sender.send(ProtonMessage(body=number))
        assert [header_of(take(connection)) for _ in range(2)] == [["Q", "QM2", 1]] * 2
        management.delete(REMOTE_QUEUE_TYPE, "moved")
        management.create(QUEUE_TYPE, "moved", {})
        sender.send(ProtonMessage(body=4))
    assert take(connection, "moved").body == 4


@pytest.mark.parametrize("anonymous", [False, True])
def test_large_messages_carry_their_header_too(
    broker: BrokerThread, connection: BlockingConnection, anonymous: bool
) -> None:
    sender = connection.create_sender(None if anonymous else "Q@QM2")
    sender.send(ProtonMessage(body=LARGE, address="Q@QM2", reply_to="ANSWERS", durable=True))
    connection.create_sender("here").close()
    local = connection.create_sender(None if anonymous else "here")
    local.send(ProtonMessage(body=LARGE, address="here", reply_to="ANSWERS"))
    got = take(connection)
    assert (header_of(got), got.body, got.reply_to) == (["Q", "QM2", 1], LARGE, f"ANSWERS@{THIS}")
    here = take(connection, "here")
    assert (here.annotations, here.body, here.reply_to) == (None, LARGE, "ANSWERS")


def test_a_forged_header_is_replaced(connection: BlockingConnection) -> None:
    forged = {HEADER: ["SECRET", "QM9", 200]}
    connection.create_sender("Q@QM2").send(ProtonMessage(body="b", annotations=forged))
    assert header_of(take(connection)) == ["Q", "QM2", 1]


def test_a_message_that_came_from_a_topic_is_sent_on(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    """Clients that pass a message on leave the annotation in which JMS tells what its `to` was."""
    from_topic = ProtonMessage(body="b", address="news", annotations={"x-opt-jms-dest": byte(1)})
    connection.create_sender("Q@QM2").send(from_topic)
    assert header_of(take(connection)) == ["Q", "QM2", 1]
    assert broker.call(lambda b: list(b.manager.topics)) == []


def test_a_full_transmission_queue_refuses(broker: BrokerThread, connection: BlockingConnection) -> None:
    with our_client(broker) as ours:
        ours.create_management().update(QUEUE_TYPE, "QM2", {"max_messages": 1})
    sender = connection.create_sender("Q@QM2")
    sender.send(ProtonMessage(body=1))
    with pytest.raises(SendException):
        sender.send(ProtonMessage(body=2))


def test_our_client_sends_asks_and_works_in_transactions(
    broker: BrokerThread, connection: BlockingConnection
) -> None:
    with our_client(broker) as ours:
        session = ours.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        producer = session.create_producer(Queue("Q@QM2"))
        producer.send(Message("undone"))
        session.rollback()
        producer.send(Message("done", reply_to=Queue("ANSWERS")))
        session.create_producer(None).send(Message("too"), destination=Queue("REMOTE"))
        assert waiting(broker) == 2, "uncommitted, and not seen by anybody"
        session.commit()
        first, second = take(connection), take(connection)
        assert (first.body, first.reply_to, header_of(first)) == ("done", f"ANSWERS@{THIS}", ["Q", "QM2", 1])
        assert (second.body, header_of(second)) == ("too", ["Q", "QM2", 1])
        with pytest.raises(JMSException, match="2045"):
            session.create_consumer(Queue("Q@QM2"))
        with pytest.raises(InvalidDestinationException):
            session.create_producer(Queue("BROKEN"))


def test_a_reply_finds_a_temporary_queue(broker: BrokerThread, connection: BlockingConnection) -> None:
    """The other queue manager's side is played here: it sends to what the reply-to says."""
    with our_client(broker) as ours:
        session = ours.create_session()
        answers = session.create_temporary_queue().destination
        session.create_producer(Queue("Q@QM2")).send(Message("question", reply_to=answers))
        reply_to = take(connection).reply_to
        assert isinstance(answers, Queue) and reply_to == f"{answers.name}@{THIS}"
        connection.create_sender(reply_to).send(ProtonMessage(body="answer"))
        answer = session.create_consumer(answers).receive(timeout_s=WAIT_S)
        assert answer is not None and answer.body == "answer"


def test_the_message_store_puts_to_elsewhere(broker: BrokerThread, connection: BlockingConnection) -> None:
    with our_client(broker) as ours:
        store = ours.create_message_store("Q@QM2")
        uid = store.put(Message("b", reply_to=Queue("ANSWERS")), confirm_id=7)
        assert waiting(broker) == 1
        store.confirm_put(uid, confirm_id=7)
        got = take(connection)
        assert (got.body, got.reply_to, header_of(got)) == ("b", f"ANSWERS@{THIS}", ["Q", "QM2", 1])
        with pytest.raises(JMSException, match="2045"):
            store.get()


def test_management_of_remote_queues(broker: BrokerThread) -> None:
    with our_client(broker) as ours:
        management = ours.create_management()
        created = management.create(
            REMOTE_QUEUE_TYPE, "NEW", {"remote_queue": "Q", "remote_queue_manager": "QM2", "description": "d"}
        )
        assert (created["leads_to"], created["waits_on"], created["problem"], created["alias"]) == (
            *("Q@QM2", "QM2", "", False),
        )
        found = {str(each["name"]): each for each in management.query(REMOTE_QUEUE_TYPE)}
        assert set(found) == {"REMOTE", "ALIAS", "BACK", "BROKEN", "NEW"}
        assert found["ALIAS"]["alias"] is True and "2196" in str(found["BROKEN"]["problem"])
        updated = management.update(REMOTE_QUEUE_TYPE, "NEW", {"remote_queue_manager": "QM7"})
        assert (updated["leads_to"], updated["waits_on"]) == ("Q@QM7", "ELSEWHERE")
        assert management.read(REMOTE_QUEUE_TYPE, "NEW") == updated
        for name, attributes in (
            ("NEW", {"remote_queue": "Q"}),
            ("literal@QM2", {"remote_queue": "Q"}),
            ("postroom.x", {"remote_queue": "Q"}),
            ("BAD", {}),
            ("BAD", {"remote_queue": 5}),
            ("BAD", {"colour": "red"}),
        ):
            with pytest.raises(ManagementException):
                management.create(REMOTE_QUEUE_TYPE, name, attributes)
        with pytest.raises(JMSException, match="remote queue"):
            management.create(QUEUE_TYPE, "NEW", {})
        management.delete(REMOTE_QUEUE_TYPE, "NEW")
        with pytest.raises(JMSException):
            management.read(REMOTE_QUEUE_TYPE, "NEW")
        assert management.read(QUEUE_TYPE, "QM2")["usage"] == "transmission"
        with pytest.raises(ManagementException, match="usage"):
            management.create(QUEUE_TYPE, "ODD", {"usage": "cold"})


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    for body in (1, 2):
        with BrokerThread(config(), folder=tmp_path) as broker, our_client(broker) as ours:
            producer = ours.create_session().create_producer(Queue("REMOTE"))
            producer.send(Message(body))
    with BrokerThread(config(), folder=tmp_path) as broker:
        opened = BlockingConnection(broker.url, timeout=WAIT_S)
        got = [take(opened), take(opened)]
        opened.close()
    assert [(each.body, header_of(each)) for each in got] == [(n, ["Q", "QM2", 1]) for n in (1, 2)]


def test_the_management_node_answers_to_elsewhere(connection: BlockingConnection) -> None:
    sender = connection.create_sender("$management")
    asked = {"operation": "READ", "type": QUEUE_TYPE, "name": "QM2"}
    sender.send(ProtonMessage(properties=asked, reply_to="ANSWERS@QM2", correlation_id="c"))
    answer = take(connection)
    assert (header_of(answer), answer.correlation_id) == (["ANSWERS", "QM2", 1], "c")
    assert answer.properties is not None and answer.properties["statusCode"] == 200
    sender.send(ProtonMessage(properties=asked, reply_to="nowhere@BACK"))  # dropped, and the link lives on
    sender.send(ProtonMessage(properties=asked, reply_to="ANSWERS@ALIAS"))
    assert header_of(take(connection)) == ["ANSWERS", "QM2", 1]


def test_a_start_takes_over_what_the_configuration_says(tmp_path: Path) -> None:
    """Definitions that it names no longer stay; those that clash stop the start."""
    first = [RemoteQueueConfig(name="A", remote_queue="Q"), RemoteQueueConfig(name="B", remote_queue="Q")]
    second = [RemoteQueueConfig(name="A", remote_queue="OTHER")]
    for remote in (first, second):
        with BrokerThread(make_config(remote_queue=remote), folder=tmp_path) as broker:
            found = broker.call(
                lambda b: {n: r.definition.remote_queue for n, r in b.manager.names.definitions.items()}
            )
    assert found == {"A": "OTHER", "B": "Q"}
    with pytest.raises((StartError, AssertionError), match="remote queue 'B'"):
        BrokerThread(make_config(("B",)), folder=tmp_path).__enter__()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"queue": [QueueConfig(name="DEAD", usage="transmission")]}, "dead_letter_queue.*transmission"),
        ({"remote_queue": [RemoteQueueConfig(name="DEAD", remote_queue="Q")]}, "must be a queue here"),
        (
            {
                "queue": [QueueConfig(name="A")],
                "remote_queue": [RemoteQueueConfig(name="A", remote_queue="Q")],
            },
            "there is a queue 'A'",
        ),
    ],
)
def test_configurations_that_stop_the_start(settings: dict[str, Any], said: str) -> None:
    config = make_config(**settings, queue_manager=QueueManagerConfig(dead_letter_queue="DEAD"))
    with pytest.raises((StartError, AssertionError), match=said):
        BrokerThread(config).__enter__()
