"""Names between queue managers: requests and their replies, ways over a third queue manager, and names that
lead in a circle or to nobody."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tools.peers.ports import free_port

from postroom.client import Connection, ConnectionFactory, Message, Queue
from postroom.server.configuration.channels import ChannelConfig
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig, RemoteQueueConfig
from postroom.server.configuration.listening import ListenConfig
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

WAIT_S = 20
DEAD = "DEAD"


@contextmanager
def queue_managers(
    neighbours: dict[str, tuple[str, ...]], remote: dict[str, list[RemoteQueueConfig]], max_hops: int = 16
) -> Iterator[dict[str, BrokerThread]]:
    """Queue managers with channels in both directions between neighbours."""
    ports = {name: free_port() for name in neighbours}
    running: dict[str, BrokerThread] = {}
    try:
        for name, others in neighbours.items():
            channels = [
                ChannelConfig(
                    name=f"{name}.TO.{other}",
                    type="sender",
                    connection=f"amqp://127.0.0.1:{ports[other]}",
                    transmission_queue=other,
                    short_retry_interval_s=1,
                )
                for other in others
            ]
            channels += [ChannelConfig(name=f"{other}.TO.{name}", type="receiver") for other in others]
            config = make_config(
                (DEAD,),
                container_id=name,
                listen=[ListenConfig(address=f"127.0.0.1:{ports[name]}")],
                queue=[QueueConfig(name=DEAD), *(QueueConfig(name=o, usage="transmission") for o in others)],
                channel=channels,
                remote_queue=remote.get(name, []),
                queue_manager=QueueManagerConfig(dead_letter_queue=DEAD, max_hops=max_hops),
            )
            running[name] = BrokerThread(config)
            running[name].__enter__()
        yield running
    finally:
        for broker in running.values():
            broker.__exit__(None, None, None)


@contextmanager
def client(broker: BrokerThread) -> Iterator[Connection]:
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.start()
        yield connection


def answer_one(broker: BrokerThread, queue: str) -> None:
    """Take a request from a queue and answer to its reply-to."""
    with client(broker) as connection:
        session = connection.create_session()
        request = session.create_consumer(queue).receive(timeout_s=WAIT_S)
        assert request is not None and request.reply_to is not None
        assert "x-opt-transmission" not in (request.annotations or {})
        session.create_producer(request.reply_to).send(Message(f"answer to {request.body}"))


@pytest.mark.parametrize("address", ["SERVICE@QM2", "SERVICE", "SERVICE@PARTNER"])
def test_a_request_goes_there_and_its_reply_comes_back(address: str) -> None:
    names = [
        RemoteQueueConfig(name="SERVICE", remote_queue="SERVICE", remote_queue_manager="QM2"),
        RemoteQueueConfig(name="PARTNER", remote_queue_manager="QM2"),
    ]
    with queue_managers({"QM1": ("QM2",), "QM2": ("QM1",)}, {"QM1": names}) as managers:
        with client(managers["QM2"]) as there:
            there.create_session().create_producer("SERVICE").close()  # the queue is there
        with client(managers["QM1"]) as here:
            session = here.create_session()
            answers = session.create_temporary_queue().destination
            session.create_producer(Queue(address)).send(Message("question", reply_to=answers))
            answer_one(managers["QM2"], "SERVICE")
            answer = session.create_consumer(answers).receive(timeout_s=WAIT_S)
            assert answer is not None and answer.body == "answer to question"
            assert "x-opt-transmission" not in (answer.annotations or {})


def test_a_way_over_a_third_queue_manager() -> None:
    """QM1 and QM3 know of each other only that QM2 is the way."""
    there = [RemoteQueueConfig(name="QM3", remote_queue_manager="QM3", transmission_queue="QM2")]
    back = [RemoteQueueConfig(name="QM1", remote_queue_manager="QM1", transmission_queue="QM2")]
    neighbours: dict[str, tuple[str, ...]] = {"QM1": ("QM2",), "QM2": ("QM1", "QM3"), "QM3": ("QM2",)}
    with queue_managers(neighbours, {"QM1": there, "QM3": back}) as managers:
        with client(managers["QM3"]) as far:
            far.create_session().create_producer("SERVICE").close()
        with client(managers["QM1"]) as here:
            session = here.create_session()
            session.create_producer("ANSWERS").close()
            session.create_producer("SERVICE@QM3").send(Message("question", reply_to=Queue("ANSWERS")))
            answer_one(managers["QM3"], "SERVICE")
            answer = session.create_consumer("ANSWERS").receive(timeout_s=WAIT_S)
            assert answer is not None and answer.body == "answer to question"


def test_what_goes_in_a_circle_ends_on_a_dead_letter_queue() -> None:
    """Each of two queue managers thinks that the other is the way to QM3."""
    names = {
        "QM1": [RemoteQueueConfig(name="QM3", remote_queue_manager="QM3", transmission_queue="QM2")],
        "QM2": [RemoteQueueConfig(name="QM3", remote_queue_manager="QM3", transmission_queue="QM1")],
    }
    both: dict[str, tuple[str, ...]] = {"QM1": ("QM2",), "QM2": ("QM1",)}
    with queue_managers(both, names, max_hops=4) as managers, client(managers["QM1"]) as here:
        session = here.create_session()
        session.create_producer("SERVICE@QM3").send(Message("lost"))
        dead = session.create_consumer(DEAD).receive(timeout_s=WAIT_S)
        assert dead is not None and dead.body == "lost"
        header = (dead.annotations or {})["x-opt-dead-letter"]
        assert isinstance(header, dict)
        assert (header["reason"], header["queue"], header["queue-manager"]) == (2087, "SERVICE", "QM3")


def test_a_name_that_is_unknown_there_is_dead_lettered_there() -> None:
    with queue_managers({"QM1": ("QM2",), "QM2": ("QM1",)}, {}) as managers:
        with client(managers["QM1"]) as here:
            here.create_session().create_producer("NOBODY@QM2").send(Message("lost"))
        with client(managers["QM2"]) as there:
            dead = there.create_session().create_consumer(DEAD).receive(timeout_s=WAIT_S)
            assert dead is not None
            header = (dead.annotations or {})["x-opt-dead-letter"]
            assert isinstance(header, dict)
            assert (header["reason"], header["queue"], header["queue-manager"]) == (2085, "NOBODY", "QM2")
