"""Limits by user and by listener: buckets alone, then connections, links and rates over sockets."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import ConnectionException
from proton.utils import BlockingConnection
from proton.utils import LinkDetached as ProtonDetached

from postroom.amqp.engine.events import Closed, LinkDetached
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Message, Properties
from postroom.client import Connection, ConnectionFactory
from postroom.client.exceptions import JMSException
from postroom.server.access.traffic import SECOND_US, Bucket, Share
from postroom.server.configuration.config import Config, ListenConfig
from postroom.server.configuration.config_file import ConfigError
from postroom.server.configuration.limits import TrafficLimits, UserLimitConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.websocket import WebSocketConfig
from postroom.server.connection.broker import Broker
from postroom.testing.clock import SettableClock
from tests.server.harness import BrokerThread, make_config
from tests.server.listening.websockets import WebSocketPeer
from tests.server.peers import EnginePeer

USERS = {name: hash_password("sesame", iterations=MIN_ITERATIONS) for name in ("ann", "bob")}
RATE = 5
FLOOD = 300
MESSAGE = Message(properties=Properties(to="x" * 60), body=Data([b"x" * 60])).encode()


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2_000_000)), min_size=1, max_size=50),
)
def test_a_bucket_gives_its_rate_and_one_seconds_worth(rate: int, tries: list[tuple[int, int]]) -> None:
    bucket = Bucket(rate)
    now_us = began_us = SECOND_US
    taken = 0
    for amount, passed_us in tries:
        now_us += passed_us
        if not bucket.wait_us(now_us):
            allowed = rate + (now_us - began_us) * rate / SECOND_US
            assert taken <= allowed + 1
            taken += amount
            bucket.take(amount, now_us)
    wait_us = bucket.wait_us(now_us)
    assert bucket.wait_us(now_us + wait_us) <= 1, "and then it has been paid back"


def test_a_bucket_without_a_rate_holds_nobody() -> None:
    bucket = Bucket(0)
    bucket.take(1 << 40, SECOND_US)
    assert bucket.wait_us(SECOND_US) == 0
    bucket.configure(10)
    bucket.take(15, SECOND_US)
    assert bucket.wait_us(SECOND_US) == pytest.approx(500_000, abs=1)


def test_another_rate_holds_at_once() -> None:
    share = Share("user", "ann", TrafficLimits(max_bytes_per_s=100))
    share.take(200, 1, SECOND_US)
    assert share.wait_us(SECOND_US) == pytest.approx(SECOND_US, abs=1)
    share.configure(TrafficLimits(max_bytes_per_s=1000))
    assert share.wait_us(SECOND_US) == pytest.approx(100_000, abs=1)
    share.configure(TrafficLimits())
    assert share.wait_us(SECOND_US) == 0


def test_two_tables_for_one_user_are_refused() -> None:
    limits = [UserLimitConfig(user="ann"), UserLimitConfig(user="ann")]
    with pytest.raises((ConfigError, ValueError), match="defined twice"):
        Config(user_limit=limits)


# Over sockets.


def config(*user_limits: UserLimitConfig, **listener: int) -> Config:
    return make_config(
        queues=("orders", "others"),
        listen=[ListenConfig(address="127.0.0.1:0", **listener)],
        users=dict(USERS),
        user_limit=list(user_limits),
    )


def connect(broker: BrokerThread, user: str) -> BlockingConnection:
    return BlockingConnection(
        broker.url, timeout=15, user=user, password="sesame", allowed_mechs="PLAIN", heartbeat=0
    )


@pytest.fixture
def limited() -> Iterator[BrokerThread]:
    limits = UserLimitConfig(user="ann", max_connections=1, max_links=2)
    with BrokerThread(config(limits)) as running:
        yield running


@pytest.mark.sockets
def test_a_connection_too_many_of_a_user(limited: BrokerThread) -> None:
    first = connect(limited, "ann")
    with pytest.raises(
        ConnectionException, match=r"user 'ann' has 1 connections of 1 \(max_connections\)"
    ) as caught:
        connect(limited, "ann")
    assert "amqp:resource-limit-exceeded" in str(caught.value)
    connect(limited, "bob").close()
    first.close()
    connect(limited, "ann").close()


@pytest.mark.sockets
def test_a_link_too_many_of_a_user(limited: BrokerThread) -> None:
    ann = connect(limited, "ann")
    first = ann.create_sender("orders")
    ann.create_receiver("orders")
    with pytest.raises(ProtonDetached, match=r"user 'ann' has 2 links of 2 \(max_links\)"):
        ann.create_sender("orders", name="another")
    first.close()
    ann.create_sender("orders", name="another")
    bob = connect(limited, "bob")
    for number in range(3):
        bob.create_sender("orders", name=f"s{number}")
    bob.close()
    ann.close()


@pytest.mark.sockets
def test_our_client_hears_of_it(limited: BrokerThread) -> None:
    with our_connection(limited), pytest.raises(JMSException, match="max_connections"):
        our_connection(limited)


def our_connection(broker: BrokerThread) -> Connection:
    return ConnectionFactory(broker.url.replace("//", "//ann:sesame@")).create_connection()


@pytest.mark.sockets
def test_a_connection_too_many_of_a_listener_and_a_flood_of_them() -> None:
    with BrokerThread(config(max_connections=1)) as broker:
        first = connect(broker, "ann")
        with pytest.raises(ConnectionException, match=r"listener '127.0.0.1:0' has 1 connections of 1"):
            connect(broker, "bob")
        broker.wait_until(lambda b: len(b.connections) == 1)
        with EnginePeer(broker.port), EnginePeer(broker.port) as cut:
            assert cut.socket.recv(1) == b"", "more than twice as many are cut"
        first.close()
        broker.wait_until(lambda b: not b.connections)
        connect(broker, "bob").close()


@pytest.mark.sockets
def test_each_user_without_a_table_has_the_limits_of_the_star() -> None:
    limits = (UserLimitConfig(user="*", max_connections=1), UserLimitConfig(user="bob"))
    with BrokerThread(config(*limits)) as broker:
        bobs = [connect(broker, "bob") for _ in range(2)]
        with EnginePeer(broker.port, container_id="nobody") as nobody:
            nobody.open()
            ann = connect(broker, "ann")
            for user in ("ann", "anonymous"):
                with pytest.raises(ConnectionException, match=f"user '{user}' has 1 connections"):
                    connect(broker, user) if user == "ann" else BlockingConnection(
                        broker.url, timeout=15, allowed_mechs="ANONYMOUS"
                    )
        for each in (*bobs, ann):
            each.close()


def received(queue: str) -> Callable[[Broker], int]:
    return lambda broker: int(broker.manager.queues[queue].statistics.snapshot()["messages_received"])


def flood(broker: BrokerThread, user: str, queue: str) -> EnginePeer:
    """Sends `FLOOD` messages at once, settled, and stays."""
    peer, link = attached(broker, user, queue)
    return send_flood(peer, link)


def attached(
    broker: BrokerThread, user: str, queue: str, kind: type[EnginePeer] = EnginePeer
) -> tuple[EnginePeer, SenderLink]:
    peer = kind(
        broker.port,
        container_id=f"{user}-{queue}",
        sasl_mechanisms=["PLAIN"],
        username=user,
        password="sesame",
    )
    link = peer.session().attach_sender("flood", Source(), Target(address=queue))
    peer.pump(lambda: link.credit >= FLOOD)
    return peer, link


def throttled(broker: BrokerThread) -> dict[str, bool]:
    """The column of connections, by user, as bob sees it."""
    url = broker.url.replace("//", "//bob:sesame@")
    with ConnectionFactory(url).create_connection() as connection:
        rows = connection.create_management().query("postroom.connection", ["user", "throttled"])
        return {row["user"]: row["throttled"] for row in rows}


def send_flood(peer: EnginePeer, link: SenderLink) -> EnginePeer:
    for number in range(FLOOD):
        link.send(MESSAGE, number.to_bytes(4, "big"), True)
    peer.flush()
    return peer


def held(broker: Broker) -> bool:
    return any(broker.traffic.is_held(each) for each in broker.connections)


@pytest.mark.sockets
@pytest.mark.parametrize("kind", ["messages", "bytes", "listener"])
def test_who_is_over_the_rate_waits_and_nobody_else_does(kind: str) -> None:
    clock = SettableClock()
    if kind == "messages":
        made = config(UserLimitConfig(user="ann", max_messages_per_s=RATE))
    elif kind == "bytes":
        made = config(UserLimitConfig(user="ann", max_bytes_per_s=RATE * 150))
    else:
        open_too = ListenConfig(address="0.0.0.0:0", mechanisms=["PLAIN"])
        made = config(max_messages_per_s=RATE)
        made = make_config(queues=("orders", "others"), listen=[*made.listen, open_too], users=dict(USERS))
    with BrokerThread(made, clock=clock) as broker, flood(broker, "ann", "orders") as ann:
        broker.wait_until(held)
        counts = [broker.call(received("orders"))]
        assert 0 < counts[0] < FLOOD // 5, "one second's worth, and a piece more"
        assert broker.call(lambda b: [share.paused_us > 0 for share in b.traffic.shares()]) == [True]
        if kind == "listener":
            broker.address = broker.addresses[1]
        assert throttled(broker) == {"ann": True, "bob": False}
        with flood(broker, "bob", "others"):
            broker.wait_until(lambda b: received("others")(b) == FLOOD)
        for _ in range(10):
            for _ in range(10):
                broker.advance(clock, SECOND_US // 10)
                broker.wait_until(lambda b: held(b))
            counts.append(broker.call(received("orders")))
        assert 10 * RATE * 0.6 <= counts[-1] - counts[0] <= 10 * RATE * 1.4
        broker.advance(clock, FLOOD * SECOND_US)
        while broker.call(received("orders")) < FLOOD:
            broker.advance(clock, 10 * SECOND_US)
        assert ann.engine.peer_open is not None
        broker.wait_until(lambda b: not held(b))
        assert throttled(broker) == {"ann": False, "bob": False}


@pytest.mark.sockets
def test_a_listener_over_websocket_has_limits_too() -> None:
    clock = SettableClock()
    listen = ListenConfig(
        address="127.0.0.1:0",
        websocket=WebSocketConfig(),
        max_connections=1,
        max_links=1,
        max_messages_per_s=RATE,
    )
    made = make_config(queues=("orders",), listen=[listen], users=dict(USERS))
    with BrokerThread(made, clock=clock) as broker:
        peer, link = attached(broker, "ann", "orders", WebSocketPeer)
        with peer:
            another = WebSocketPeer(broker.port, sasl_mechanisms=["ANONYMOUS"])
            with another:
                another.open()
                another.pump(lambda: bool(another.of(Closed)))
                (closed,) = another.of(Closed)
                assert closed.error is not None and "max_connections" in str(closed.error.description)
            session = peer.engine.begin()
            session.attach_sender("another", Source(), Target(address="orders"))
            peer.pump(lambda: bool(peer.of(LinkDetached)))
            (detached,) = peer.of(LinkDetached)
            assert detached.error is not None and "max_links" in str(detached.error.description)
            send_flood(peer, link)
            broker.wait_until(held)
            first = broker.call(received("orders"))
            assert 0 < first < FLOOD // 5, "one second's worth, and a piece more"
            broker.advance(clock, FLOOD * SECOND_US)
            while broker.call(received("orders")) < FLOOD:
                broker.advance(clock, 10 * SECOND_US)


@pytest.mark.sockets
def test_two_connections_of_a_user_share_the_rate_and_new_limits_hold_at_once() -> None:
    clock = SettableClock()
    made = config(UserLimitConfig(user="ann", max_messages_per_s=RATE))

    def both(broker: Broker) -> int:
        return received("orders")(broker) + received("others")(broker)

    with BrokerThread(made, clock=clock) as broker, ExitStack() as peers:
        both_attached = [attached(broker, "ann", queue) for queue in ("orders", "others")]
        for peer, link in both_attached:
            peers.enter_context(send_flood(peer, link))
        broker.wait_until(lambda b: sum(b.traffic.is_held(each) for each in b.connections) == 2)
        assert broker.call(both) < FLOOD // 5
        broker.call(lambda b: b.traffic.configure(config()))
        broker.advance(clock, FLOOD * SECOND_US)
        broker.wait_until(lambda b: both(b) == 2 * FLOOD)
