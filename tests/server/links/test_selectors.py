"""Selectors over the wire: Qpid Proton and Postroom's own client."""

import pytest
from proton import Described, Message, symbol, ulong
from proton.reactor import Copy, Filter, Selector
from proton.utils import BlockingConnection, BlockingReceiver
from proton.utils import LinkDetached as LinkClosed

from postroom.amqp.encoding.types import Described as DescribedValue
from postroom.amqp.encoding.types import Symbol, ULong
from postroom.amqp.engine.events import LinkAttached, LinkDetached
from postroom.amqp.frames.termini import Source, Target
from postroom.client import InvalidSelectorException
from postroom.client import Message as ClientMessage
from postroom.client.sync import ConnectionFactory
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets


def put(connection: BlockingConnection, queue: str, colors: list[str]) -> None:
    sender = connection.create_sender(queue)
    for number, color in enumerate(colors):
        sender.send(Message(body=number, durable=True, properties={"color": color, "number": number}))
    sender.close()


def take(receiver: BlockingReceiver) -> object:
    message = receiver.receive(timeout=15)
    receiver.accept()
    return message.body


@pytest.mark.parametrize("name", [symbol("apache.org:selector-filter:string"), ulong(0x0000468C00000004)])
def test_only_what_is_selected_comes(connection: BlockingConnection, queue: str, name: object) -> None:
    put(connection, queue, ["red", "blue", "red", "green"])
    wanted = Filter({symbol("any-name"): Described(name, "color = 'red' AND number > 0")})
    receiver = connection.create_receiver(queue, options=wanted)
    assert take(receiver) == 2
    receiver.close()
    assert take(connection.create_receiver(queue, name="everything")) == 0


def test_a_browser_selects_too(connection: BlockingConnection, queue: str) -> None:
    put(connection, queue, ["red", "blue", "red"])
    browser = connection.create_receiver(queue, options=[Copy(), Selector("color = 'red'")])
    assert [browser.receive(timeout=15).body for _ in range(2)] == [0, 2]


@pytest.mark.parametrize("text", ["color = ", "NULL = 1", "color = 'red"])
def test_a_bad_selector_refuses_the_link_with_the_place(
    connection: BlockingConnection, queue: str, text: str
) -> None:
    with pytest.raises(LinkClosed, match=r"amqp:invalid-field.*invalid selector at character \d+"):
        connection.create_receiver(queue, options=Selector(text))


def test_the_answer_echoes_what_is_applied_and_nothing_else(broker: BrokerThread, queue: str) -> None:
    selector = DescribedValue(ULong(0x0000468C00000004), "a = 1")
    fields = {Symbol("jms-selector"): selector, Symbol("other"): DescribedValue(Symbol("x:y"), "z")}
    with EnginePeer(broker.port) as peer:
        link = peer.open().session().attach_receiver("r", Source(address=queue, filter=fields), Target())
        peer.wait_for(LinkAttached)
        assert link.source is not None and link.source.filter is not None
        assert list(link.source.filter) == ["jms-selector"]


@pytest.mark.parametrize("value", [DescribedValue(Symbol("apache.org:selector-filter:string"), 5)])
def test_a_selector_that_is_no_string_is_refused(
    broker: BrokerThread, queue: str, value: DescribedValue
) -> None:
    with EnginePeer(broker.port) as peer:
        source = Source(address=queue, filter={Symbol("s"): value})
        peer.open().session().attach_receiver("r", source, Target())
        error = peer.wait_for(LinkDetached).error
        assert error is not None and error.condition == "amqp:invalid-field"


def test_the_client_selects_browses_and_is_told_of_bad_ones(broker: BrokerThread, queue: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(queue)
        for number in range(4):
            producer.send(ClientMessage(f"{number}", properties={"odd": number % 2 == 1}))
        browser = session.create_browser(queue, selector="NOT odd")
        assert [message.body for message in browser] == ["0", "2"]
        consumer = session.create_consumer(queue, selector="odd")
        first, second = consumer.receive(15), consumer.receive(15)
        assert first is not None and second is not None
        assert (first.body, second.body, consumer.receive_no_wait()) == ("1", "3", None)
        with pytest.raises(InvalidSelectorException, match="character 6"):
            session.create_consumer(queue, selector="odd >")
        with pytest.raises(InvalidSelectorException):
            session.create_browser(queue, selector="(odd")


@pytest.mark.parametrize(("again", "resumed"), [("color = 'red'", True), ("color = 'blue'", False)])
def test_a_link_with_another_selector_is_another_link(
    broker: BrokerThread, request: pytest.FixtureRequest, again: str, resumed: bool
) -> None:
    queue = str(request.node.name)

    def source(selector: str) -> Source:
        described = DescribedValue(Symbol("apache.org:selector-filter:string"), selector)
        return Source(address=queue, filter={Symbol("s"): described}, expiry_policy="never", timeout=60)

    with EnginePeer(broker.port, container_id=queue) as first:
        first.open().session().attach_receiver("r", source("color = 'red'"), Target())
        first.wait_for(LinkAttached)
    with EnginePeer(broker.port, container_id=queue) as second:
        second.open().session().attach_receiver("r", source(again), Target(), unsettled={})
        attach = second.wait_for(LinkAttached).attach
        assert (attach.unsettled is not None) is resumed
        assert broker.call(lambda b: list(b.manager.queues[queue].selectors.cursors)[-1]) == again
