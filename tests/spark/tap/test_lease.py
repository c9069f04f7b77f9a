"""A stream's lease keeps what it has yet to read, moves with it, and stops it when it is broken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory, ManagementClient, Message
from postroom.client.exceptions import ConnectionLostException
from postroom.server.clock import wall_us
from postroom.spark.broker.options import Broker
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.ledger_source.positions import from_said
from postroom.spark.messages.schema import messages_struct
from postroom.spark.tap.lease import LeaseBroken, LeaseOptions, TapLease
from postroom.spark.tap.options import read_tap_options
from postroom.spark.tap.stream import TapStream
from tests.server.harness import BrokerThread, make_config

DAY_S = 86_400


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(make_config(("orders",)), folder=tmp_path / "data") as thread:
        yield thread


@pytest.fixture
def node(broker: BrokerThread) -> Iterator[ManagementClient]:
    with ConnectionFactory(broker.url).create_connection() as connection:
        yield connection.create_management()


def options(broker: BrokerThread) -> LeaseOptions:
    return LeaseOptions("lake", Broker(broker.url, None), ("orders",), DAY_S, 1 << 30)


def put(broker: BrokerThread, count: int) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer("orders")
        for number in range(count):
            producer.send(Message(f"{number}", durable=False))


def test_a_lease_is_granted_and_moves_forward(broker: BrokerThread, node: ManagementClient) -> None:
    put(broker, 30)
    clock = Clock()
    lease = TapLease(options(broker), clock)
    lease.keep(5)
    told = node.read("postroom.lease", "lake")
    assert (told["position"], told["bodies"], told["queues"]) == (5, True, ["orders"])
    assert (told["duration_s"], told["max_bytes"]) == (DAY_S, 1 << 30)
    lease.keep(9)
    assert node.read("postroom.lease", "lake")["position"] == 5  # not so often
    clock.now_s += 1
    lease.keep(9)
    assert node.read("postroom.lease", "lake")["position"] == 9
    lease.close()
    TapLease(options(broker)).keep(7)  # a new run, whose checkpoint has lost an entry
    assert node.read("postroom.lease", "lake")["position"] == 9


def test_a_lease_is_renewed_though_nothing_comes(broker: BrokerThread, node: ManagementClient) -> None:
    clock = Clock()
    lease = TapLease(options(broker), clock)
    lease.keep(2)
    granted_us = node.read("postroom.lease", "lake")["granted_us"]
    lease.keep(2)
    assert node.read("postroom.lease", "lake")["granted_us"] == granted_us
    clock.now_s += DAY_S / 4
    lease.keep(2)
    assert int(str(node.read("postroom.lease", "lake")["granted_us"])) > int(str(granted_us))


def test_a_broken_lease_stops_the_stream_until_it_is_released(
    broker: BrokerThread, node: ManagementClient
) -> None:
    clock = Clock()
    lease = TapLease(options(broker), clock)
    lease.keep(2)
    late_us = wall_us() + 2 * DAY_S * 1_000_000
    broker.call(lambda running: running.ledger.leases.tend(late_us, False))
    clock.now_s += DAY_S
    with pytest.raises(LeaseBroken, match=r"lease lake was broken \(time\): nothing is missing yet"):
        lease.keep(2)
    with pytest.raises(LeaseBroken, match="lease release lake"):
        TapLease(options(broker)).keep(2)
    node.delete("postroom.lease", "lake")
    TapLease(options(broker)).keep(2)
    assert node.read("postroom.lease", "lake")["state"] == "in force"


def test_a_lease_that_somebody_released_stops_the_stream(
    broker: BrokerThread, node: ManagementClient
) -> None:
    clock = Clock()
    lease = TapLease(options(broker), clock)
    lease.keep(2)
    node.delete("postroom.lease", "lake")
    clock.now_s += DAY_S
    with pytest.raises(LeaseBroken, match="released by somebody"):
        lease.keep(3)


def test_a_broker_that_is_away_is_borne_as_long_as_the_lease_lasts(tmp_path: Path) -> None:
    clock = Clock()
    with BrokerThread(make_config(("orders",)), folder=tmp_path / "data") as broker:
        lease = TapLease(options(broker), clock)
        lease.keep(2)
    clock.now_s += DAY_S / 2
    lease.keep(3)
    clock.now_s += DAY_S
    with pytest.raises(LeaseBroken, match="not renewed"):
        lease.keep(3)
    with pytest.raises((ConnectionLostException, OSError)):
        TapLease(options(broker)).keep(3)


def test_a_stream_keeps_what_it_reads_and_the_batch_before(
    broker: BrokerThread, node: ManagementClient, tmp_path: Path
) -> None:
    said = {"path": str(tmp_path / "data"), "queues": "orders", "lease": "lake", "broker": broker.url}
    stream = TapStream(read_tap_options(said), messages_struct())
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset({}, limit)
    begun = node.read("postroom.lease", "lake")["position"]
    (position,) = from_said(first).values()
    assert begun == position.position + 1
    put(broker, 3)
    second = stream.latestOffset(first, limit)
    stream.latestOffset(second, limit)
    assert node.read("postroom.lease", "lake")["position"] == begun
    stream.stop()


def test_a_lease_is_asked_for_as_the_sink_asks() -> None:
    said = {"path": "x", "lease": "a", "queues": "q", "broker": "amqps://b", "tlsCaFile": "/ca.pem"}
    lease = read_tap_options(said).lease
    assert lease is not None and lease.broker.tls is not None
    assert (lease.broker.url, lease.broker.tls.ca_file) == ("amqps://b", "/ca.pem")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"lease": "a", "queues": "q"}, 'option "broker" is missing'),
        ({"lease": "a", "broker": "amqp://b"}, 'option "queues" is missing'),
        ({"lease": "a", "broker": "amqp://b", "queues": "q", "path": '["x", "y"]'}, "of one ledger"),
        ({"lease": "a", "broker": "http://u:secret@b", "queues": "q"}, 'option "broker": scheme .http. of'),
        ({"leaseBytes": "5"}, 'name one with the option "lease"'),
        ({"lease": "a", "broker": "amqp://b", "queues": "q", "leaseDurationS": "x"}, "leaseDurationS"),
        ({"checkBodies": "perhaps"}, "checkBodies"),
    ],
)
def test_options_of_a_lease_are_checked(said: dict[str, str], error: str) -> None:
    with pytest.raises(SourceOptionError, match=error):
        read_tap_options({"path": "x", **said})
