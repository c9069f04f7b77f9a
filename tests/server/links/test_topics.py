"""Topics on the wire, as Qpid JMS uses them: subscriptions by link name, their ends, temporary nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message as ProtonMessage
from proton import symbol
from proton.reactor import Container, DurableSubscription, LinkOption
from proton.utils import BlockingConnection

from postroom.amqp.encoding.types import Byte, Described, Symbol, ULong
from postroom.amqp.engine.events import DispositionReceived, LinkAttached
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.frames.outcomes import ACCEPTED, Rejected
from postroom.amqp.frames.termini import EXPIRY_LINK_DETACH, EXPIRY_NEVER, Source, Target
from postroom.amqp.message.sections import Data, Message, Properties, decode_message
from postroom.server.connection.broker import Broker
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import detached, payload, receiving, send, sending, transfers
from tests.server.peers import EnginePeer
from tests.server.topic_peer import DURABLE, close, publish, topic_source

pytestmark = pytest.mark.sockets

VOLATILE = {"expiry_policy": EXPIRY_LINK_DETACH}
SELECTOR = Symbol("apache.org:selector-filter:string")
NO_LOCAL = {Symbol("no-local"): Described(ULong(0x0000468C00000003), "NoLocalFilter{}")}


@pytest.fixture
def other(broker: BrokerThread, queue: str) -> Iterator[EnginePeer]:
    with EnginePeer(broker.port, container_id=f"other-{queue}") as opened:
        yield opened.open()


@pytest.fixture
def topic(queue: str) -> str:
    return f"topic.{queue}"


def received(peer: EnginePeer, link: ReceiverLink, count: int) -> list[str]:
    """The texts of so many more messages, accepted."""
    link.flow(count)
    texts = []
    for event in transfers(peer, link, count)[:count]:
        peer.events.remove(event)
        texts.append(text_of(event.payload))
        link.settle(event.delivery_id, event.delivery_id, ACCEPTED)
    peer.round_trip()
    return texts


def text_of(payload: bytes) -> str:
    body = decode_message(payload).body
    assert isinstance(body, Data)
    return body.joined().decode()


def subscriptions(broker: BrokerThread, topic: str) -> dict[str, int]:
    """Messages on each subscription to the topic, by its queue's name."""

    def depths(b: Broker) -> dict[str, int]:
        return {
            name: int(q.statistics.depth) for name, q in b.manager.queues.items() if name.startswith(topic)
        }

    return broker.call(depths)


def condition(peer: EnginePeer, link: ReceiverLink) -> str:
    """Of the refusal of an attach."""
    error = detached(peer, link).error
    assert error is not None and link.source is None
    return error.condition


def test_shared_subscriptions_are_offered(peer: EnginePeer) -> None:
    assert peer.engine.peer_open is not None
    assert "SHARED-SUBS" in peer.engine.peer_open.offered_capabilities


def test_subscribers_get_what_is_published_while_they_are_there(
    broker: BrokerThread, peer: EnginePeer, other: EnginePeer, topic: str
) -> None:
    publish(peer, topic, "before")
    mine = receiving(peer, "r", topic_source(topic, **VOLATILE))
    theirs = receiving(other, "r", topic_source(topic, **VOLATILE))
    assert mine.source is not None
    assert (mine.source.address, mine.source.capabilities, mine.source.durable) == (topic, ["topic"], 0)
    publish(peer, topic, "1", "2")
    assert received(peer, mine, 2) == received(other, theirs, 2) == ["1", "2"]
    other.cut()
    broker.wait_until(lambda b: sum(name.startswith(topic) for name in b.manager.queues) == 1)
    close(peer, mine)
    assert subscriptions(broker, topic) == {}


@pytest.mark.parametrize("how", ["detach", "connection"])
def test_a_durable_subscription_outlives_its_link(broker: BrokerThread, topic: str, how: str) -> None:
    client = f"client-{topic}"
    source = topic_source(topic, **DURABLE)
    with EnginePeer(broker.port, container_id=client) as first:
        link = receiving(first.open(), "sub", source)
        granted = link.source
        assert granted is not None
        assert (granted.durable, granted.expiry_policy, granted.distribution_mode) == (
            1,
            EXPIRY_NEVER,
            "copy",
        )
        if how == "detach":
            close(first, link, closed=False)
    broker.wait_until(lambda b: not b.manager.durable_subscription(client, "sub").attached.consumers)
    with EnginePeer(broker.port, container_id=client) as second:
        publish(second.open(), topic, "kept")
        assert received(second, receiving(second, "sub", source), 1) == ["kept"]
        assert subscriptions(broker, topic) == {f"{topic}::{client}/sub": 0}


def test_what_a_detached_durable_subscriber_held_comes_again_at_once(
    broker: BrokerThread, peer: EnginePeer, topic: str
) -> None:
    source = topic_source(topic, **DURABLE)
    link = receiving(peer, "sub", source)
    publish(peer, topic, "1")
    link.flow(1)
    transfers(peer, link, 1)
    close(peer, link, closed=False)
    assert received(peer, receiving(peer, "sub", source), 1) == ["1"]


def test_closing_the_link_ends_a_durable_subscription(
    broker: BrokerThread, peer: EnginePeer, topic: str
) -> None:
    link = receiving(peer, "sub", topic_source(topic, **DURABLE))
    assert len(subscriptions(broker, topic)) == 1
    close(peer, link)
    assert subscriptions(broker, topic) == {}


def test_unsubscribe_is_an_attach_without_source_and_a_close(
    broker: BrokerThread, peer: EnginePeer, topic: str
) -> None:
    filters = {Symbol("jms-selector"): Described(SELECTOR, "a = 1"), **NO_LOCAL}
    close(peer, receiving(peer, "sub", topic_source(topic, filter=filters, **DURABLE)), closed=False)
    again = peer.session().attach_receiver("sub", None, Target())
    attach = peer.wait_for(LinkAttached).attach
    source = attach.source
    assert source is not None
    assert (source.address, source.durable, source.expiry_policy) == (topic, 1, EXPIRY_NEVER)
    assert [str(key) for key in source.filter or {}] == ["jms-selector", "no-local"]
    close(peer, again)
    assert subscriptions(broker, topic) == {}
    missing = peer.session().attach_receiver("sub", None, Target())
    assert condition(peer, missing) == "amqp:not-found"


def test_a_subscription_in_use_can_not_be_unsubscribed(
    peer: EnginePeer, other: EnginePeer, topic: str
) -> None:
    receiving(peer, f"{topic}|global", topic_source(topic, "shared", "global", **DURABLE))
    session = other.session()
    link = session.attach_receiver(f"{topic}|global", None, Target())
    assert condition(other, link) == "amqp:resource-locked"


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("is_global", [False, True])
def test_shared_subscriptions(
    broker: BrokerThread, peer: EnginePeer, other: EnginePeer, topic: str, durable: bool, is_global: bool
) -> None:
    names = {
        (True, True): ("|global", "|global2"),
        (False, True): ("", "|2"),
        (True, False): ("|global-volatile1",) * 2,
    }
    first, second = names.get((is_global, durable), ("|volatile1", "|volatile2"))
    capabilities = ["shared", "global"] if is_global else ["shared"]
    source = topic_source(topic, *capabilities, **(DURABLE if durable else VOLATILE))
    one = receiving(peer, topic + first, source)
    two = receiving(other if is_global else peer, topic + second, source)
    assert one.source is not None and one.source.capabilities == ["topic", *capabilities]
    assert len(subscriptions(broker, topic)) == 1
    one.flow(1)
    peer.round_trip()
    where = other if is_global else peer
    two.flow(1)
    where.round_trip()
    publish(peer, topic, "a", "b")
    transfers(peer, one, 1)
    transfers(where, two, 1)
    close(peer, one)
    close(where, two)
    assert subscriptions(broker, topic) == {}


def test_the_last_of_a_shared_durable_subscription_to_close_ends_it(
    broker: BrokerThread, peer: EnginePeer, topic: str
) -> None:
    source = topic_source(topic, "shared", **DURABLE)
    one, two = receiving(peer, topic, source), receiving(peer, f"{topic}|2", source)
    close(peer, one)
    assert len(subscriptions(broker, topic)) == 1
    close(peer, two)
    assert subscriptions(broker, topic) == {}


def test_another_topic_or_selector_replaces_a_durable_subscription(
    broker: BrokerThread, peer: EnginePeer, topic: str
) -> None:
    close(peer, receiving(peer, "sub", topic_source(topic, **DURABLE)), closed=False)
    publish(peer, topic, "old")
    filters = {Symbol("jms-selector"): Described(SELECTOR, "colour = 'red'")}
    link = receiving(peer, "sub", topic_source(topic, filter=filters, **DURABLE))
    assert list(subscriptions(broker, topic).values()) == [0]
    publisher = sending(peer, "p", Target(address=topic))
    for number, colour in enumerate(("red", "blue", "red")):
        message = Message(application_properties={"colour": colour}, body=Data([colour.encode()]))
        publisher.send(message.encode(), b"%d" % number, False)
    peer.pump(lambda: publisher.unsettled_count == 0)
    assert received(peer, link, 2) == ["red", "red"]
    assert list(subscriptions(broker, topic).values()) == [0]


def test_a_shared_subscription_in_use_takes_no_other_selector(
    peer: EnginePeer, other: EnginePeer, topic: str
) -> None:
    receiving(peer, f"{topic}|global", topic_source(topic, "shared", "global", **DURABLE))
    filters = {Symbol("jms-selector"): Described(SELECTOR, "a = 1")}
    source = topic_source(topic, "shared", "global", filter=filters, **DURABLE)
    link = other.session().attach_receiver(f"{topic}|global", source, Target())
    assert condition(other, link) == "amqp:resource-locked"


def test_a_bad_selector_is_refused_with_its_place(peer: EnginePeer, topic: str) -> None:
    filters = {Symbol("jms-selector"): Described(SELECTOR, "colour = ")}
    link = peer.session().attach_receiver("r", topic_source(topic, filter=filters), Target())
    error = detached(peer, link).error
    assert error is not None and error.condition == "amqp:invalid-field"
    assert error.info is not None and error.info["position"] == 9


def test_a_shared_subscription_has_a_name(peer: EnginePeer, topic: str) -> None:
    link = peer.session().attach_receiver("|volatile1", topic_source(topic, "shared"), Target())
    assert condition(peer, link) == "amqp:invalid-field"


def test_no_local(peer: EnginePeer, other: EnginePeer, topic: str) -> None:
    link = receiving(peer, "r", topic_source(topic, filter=NO_LOCAL))
    assert link.source is not None and link.source.filter is not None
    publish(peer, topic, "mine")
    publish(other, topic, "theirs")
    assert received(peer, link, 1) == ["theirs"]


def test_wildcards(peer: EnginePeer, topic: str) -> None:
    one = receiving(peer, "one", topic_source(f"{topic}.*"))
    rest = receiving(peer, "rest", Source(address=f"{topic}.#"))
    for name in (topic, f"{topic}.a", f"{topic}.a.b"):
        publish(peer, name, name)
    assert received(peer, one, 1) == [f"{topic}.a"]
    assert received(peer, rest, 3) == [topic, f"{topic}.a", f"{topic}.a.b"]
    link = peer.session().attach_sender("p", Source(), Target(address=f"{topic}.*", capabilities=["topic"]))
    assert detached(peer, link).error.condition == "amqp:invalid-field"  # type: ignore[union-attr]


def test_a_name_is_a_topic_where_it_exists_as_one(broker: BrokerThread, peer: EnginePeer, topic: str) -> None:
    publish(peer, topic, "creates it")
    link = receiving(peer, "r", Source(address=topic))
    assert link.source is not None and link.source.capabilities == ["topic"]
    assert topic not in broker.call(lambda b: list(b.manager.queues))
    wrong = peer.session().attach_receiver("q", Source(address=topic, capabilities=["queue"]), Target())
    assert condition(peer, wrong) == "amqp:not-found"
    both = peer.session().attach_receiver(
        "b", Source(address=topic, capabilities=["queue", "topic"]), Target()
    )
    assert condition(peer, both) == "amqp:invalid-field"


def test_a_subscription_is_read_but_not_written_by_its_own_name(
    broker: BrokerThread, peer: EnginePeer, other: EnginePeer, topic: str
) -> None:
    close(peer, receiving(peer, "sub", topic_source(topic, **DURABLE)), closed=False)
    publish(peer, topic, "1")
    (name,) = subscriptions(broker, topic)
    link = other.session().attach_sender("s", Source(), Target(address=name))
    assert detached(other, link).error.condition == "amqp:not-allowed"  # type: ignore[union-attr]
    browser = receiving(other, "b", Source(address=name, distribution_mode="copy"))
    browser.flow(1)
    assert len(transfers(other, browser, 1)) == 1
    assert subscriptions(broker, topic) == {name: 1}
    close(other, browser)
    reader = receiving(other, "c", Source(address=name))
    assert received(other, reader, 1) == ["1"]
    close(other, reader)
    assert subscriptions(broker, topic) == {name: 0}  # whoever reads it by its own name doesn't end it
    gone = other.session().attach_receiver("x", Source(address=f"{topic}::no/such"), Target())
    assert detached(other, gone).error.condition == "amqp:invalid-field"  # type: ignore[union-attr]


@pytest.mark.parametrize("mark", [("x-opt-jms-dest", Byte(1)), ("x-opt-to-type", "topic")])
def test_the_anonymous_terminus_reaches_topics(
    broker: BrokerThread, peer: EnginePeer, topic: str, mark: tuple[str, object]
) -> None:
    relay = sending(peer, "relay", Target())

    def send(text: str, annotations: dict[object, object]) -> None:
        message = Message(
            message_annotations=annotations, properties=Properties(to=topic), body=Data([text.encode()])
        )
        relay.send(message.encode(), text.encode(), False)
        peer.pump(lambda: relay.unsettled_count == 0)

    send("neither queue nor topic", {})
    assert isinstance(peer.wait_for(DispositionReceived).state, Rejected)
    assert topic not in broker.call(lambda b: list(b.manager.topics))
    send("made", {Symbol(mark[0]): mark[1]})
    assert topic in broker.call(lambda b: list(b.manager.topics))
    link = receiving(peer, "r", topic_source(topic))
    send("published", {})
    assert received(peer, link, 1) == ["published"]


@pytest.mark.parametrize("kind", ["temporary-queue", "temporary-topic"])
def test_temporary_destinations_are_consumed_by_their_own_connection(
    broker: BrokerThread, peer: EnginePeer, other: EnginePeer, kind: str
) -> None:
    policy: dict[object, object] = {
        Symbol("lifetime-policy"): Described(Symbol("amqp:delete-on-close:list"), [])
    }
    target = Target(
        dynamic=True, dynamic_node_properties=policy, capabilities=[kind], expiry_policy=EXPIRY_LINK_DETACH
    )
    creator = sending(peer, "creator", target)
    assert creator.target is not None and creator.target.address is not None  # type: ignore[union-attr]
    address = creator.target.address  # type: ignore[union-attr]
    source = Source(address=address, capabilities=[kind])
    replies = receiving(peer, "r", source)
    theirs = other.session().attach_receiver("r", source, Target())
    assert condition(other, theirs) == "amqp:not-allowed"
    send(other, sending(other, "s", Target(address=address, capabilities=[kind])), "reply")
    assert received(peer, replies, 1) == ["reply"]
    close(peer, replies)
    creator.detach(closed=True)
    detached(peer, creator)
    assert address not in broker.call(lambda b: [*b.manager.queues, *b.manager.topics])
    late = other.session().attach_sender("late", Source(), Target(address=address, capabilities=[kind]))
    assert detached(other, late).error.condition == "amqp:not-found"  # type: ignore[union-attr]


def test_temporary_destinations_go_with_their_connection(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        target = Target(dynamic=True, capabilities=["temporary-topic"])
        creator = sending(peer.open(), "creator", target)
        address = creator.target.address  # type: ignore[union-attr]
        receiving(peer, "r", Source(address=address, capabilities=["temporary-topic"]))
        assert subscriptions(broker, str(address)) != {}
    broker.wait_until(lambda b: address not in b.manager.topics)
    assert subscriptions(broker, str(address)) == {}


def test_durable_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    source = topic_source("news", **DURABLE)
    shared = topic_source("news.#", "shared", "global", **DURABLE)
    with (
        BrokerThread(make_config(), folder=tmp_path) as broker,
        EnginePeer(broker.port, container_id="me") as peer,
    ):
        receiving(peer.open(), "sub", source)
        receiving(peer, "all|global", shared)
        receiving(peer, "volatile", topic_source("news"))
        receiving(peer, "tmp", Source(dynamic=True, capabilities=["temporary-topic"]))
        publish(peer, "news", "before")
    with BrokerThread(make_config(), folder=tmp_path) as broker:
        assert subscriptions(broker, "") == {"news::me/sub": 1, "news.#::all": 1}
        assert broker.call(lambda b: list(b.manager.topics)) == ["news"]
        with EnginePeer(broker.port, container_id="me") as peer:
            publish(peer.open(), "news", "after")
            assert received(peer, receiving(peer, "sub", source), 2) == ["before", "after"]
            assert received(peer, receiving(peer, "all|global", shared), 2) == ["before", "after"]


def test_large_messages_to_several_subscribers(peer: EnginePeer, other: EnginePeer, topic: str) -> None:
    links = [(each, receiving(each, "r", topic_source(topic))) for each in (peer, other)]
    text = "x" * 700_000
    publisher = sending(peer, "p", Target(address=topic))
    publisher.send(payload(text), b"1", False)
    peer.pump(lambda: publisher.unsettled_count == 0)
    for each, link in links:
        link.flow(1)
        size = 0
        while size < len(text):
            size = sum(len(event.payload) for event in transfers(each, link, 1))
            each.round_trip()


def test_a_durable_subscription_of_proton(broker: BrokerThread, topic: str) -> None:
    def opened() -> BlockingConnection:
        container = Container()
        container.container_id = f"proton-{topic}"
        return BlockingConnection(broker.url, timeout=15, container=container)

    class OfTopic(LinkOption):
        def apply(self, link: object) -> None:
            link.source.capabilities.put_object(symbol("topic"))  # type: ignore[attr-defined]

    options = [OfTopic(), DurableSubscription()]
    first = opened()
    receiver = first.create_receiver(topic, name="sub", options=options)
    receiver.detach()
    first.create_sender(topic).send(ProtonMessage(body="kept", durable=True))
    first.close()
    second = opened()
    again = second.create_receiver(topic, name="sub", options=options)
    assert again.receive(timeout=15).body == "kept"
    again.accept()
    again.close()
    second.close()
    assert subscriptions(broker, topic) == {}
