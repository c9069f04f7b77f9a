"""Who is given a message that no link has held before is told so in its header (part 3, section 3.2.1)."""

from pathlib import Path

from proton import Message
from proton.reactor import Copy
from proton.utils import BlockingConnection

from postroom.server.configuration.config import QueueConfig
from tests.server.harness import BrokerThread, make_config

QUEUE = "orders"


def given(connection: BlockingConnection, address: str, count: int) -> list[tuple[object, bool]]:
    """Body and first-acquirer of messages that a link is given, and gives back."""
    receiver = connection.create_receiver(address, credit=count)
    messages = [receiver.receive() for _ in range(count)]
    for _ in messages:
        receiver.release(delivered=False)
    receiver.close()
    return [(message.body, message.first_acquirer) for message in messages]


def put(connection: BlockingConnection, *bodies: str) -> None:
    sender = connection.create_sender(QUEUE)
    for body in bodies:
        sender.send(Message(body=body, durable=True))
    sender.close()


def test_only_the_first_of_all_links_is_the_first_acquirer(tmp_path: Path) -> None:
    config = make_config((QUEUE,))
    with BrokerThread(config, folder=tmp_path) as broker:
        connection = BlockingConnection(broker.url)
        put(connection, "a", "b")
        assert given(connection, QUEUE, 1) == [("a", True)]
        assert given(connection, QUEUE, 2) == [("a", False), ("b", True)]
        put(connection, "c")
        assert given(connection, QUEUE, 3)[2] == ("c", True)
        put(connection, "d")
        connection.close()
    for later in ([("c", False), ("d", True)], [("c", False), ("d", False)]):
        with BrokerThread(config, folder=tmp_path) as broker:
            connection = BlockingConnection(broker.url)
            assert given(connection, QUEUE, 4) == [("a", False), ("b", False), *later]
            connection.close()


def test_a_browser_acquires_nothing(tmp_path: Path) -> None:
    with BrokerThread(make_config((QUEUE,)), folder=tmp_path) as broker:
        connection = BlockingConnection(broker.url)
        put(connection, "a")
        browser = connection.create_receiver(QUEUE, credit=1, options=[Copy()])
        assert browser.receive().body == "a"
        browser.close()
        assert given(connection, QUEUE, 1) == [("a", True)]
        connection.close()


def test_a_dead_letter_has_been_held(tmp_path: Path) -> None:
    queues = [QueueConfig(name=QUEUE, dead_letter_queue="dead"), QueueConfig(name="dead")]
    with BrokerThread(make_config(queue=queues), folder=tmp_path) as broker:
        connection = BlockingConnection(broker.url)
        put(connection, "a")
        receiver = connection.create_receiver(QUEUE, credit=1)
        assert receiver.receive().first_acquirer
        receiver.reject()
        assert given(connection, "dead", 1) == [("a", False)]
        connection.close()
