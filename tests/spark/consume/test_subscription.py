"""What a query asks its subscription, over a connection that breaks; and a ledger that its broker serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory, ConnectionLostException
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from postroom.spark.broker.options import Broker
from postroom.spark.consume import subscription
from postroom.spark.consume.errors import (
    BrokerUnreachable,
    CheckpointReplaced,
    ConsumeError,
    SubscriptionEnded,
)
from postroom.spark.consume.subscription import BrokerSubscription
from postroom.spark.ledger_source.positions import Position
from tests.server.harness import BrokerThread, make_config
from tests.spark.played_queries import NOUN, SUBSCRIPTION, Appending, Played, Station, station

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(900)]


@pytest.fixture
def one() -> Iterator[Station]:
    with station(window=4) as running:
        yield running


def subscription_of(one: Station, timeout_s: float = 20) -> BrokerSubscription:
    return BrokerSubscription(Broker(one.url, None), SUBSCRIPTION, timeout_s)


def test_how_it_stands(one: Station) -> None:
    one.send(6)
    with subscription_of(one) as there:
        current, plan = there.current_plan(), there.plan("mine")
        assert (plan.ledger_id, plan.epoch_id) == (current.ledger_id, current.epoch_id)
        assert (plan.held, plan.is_full, plan.is_filling, plan.registered) == (4, True, False, "")
        assert plan.confirmed < plan.assigned_through <= plan.last_position
        assert plan.oldest_waiting, "two wait"
        there.register("mine", False)
        assert there.plan("mine").registered == "mine"
        end = Position(one.state()["epoch"], plan.epoch_id, plan.assigned_through)
        assert [there.confirm("mine", plan.ledger_id, end) for _ in range(2)] == [4, 0]
        after = there.plan("mine")
        assert (after.confirmed, after.held, after.oldest_waiting, after.is_full) == (
            end.position,
            2,
            0,
            False,
        )


def test_refusals(one: Station) -> None:
    with subscription_of(one) as there:
        there.register("mine", False)
        with pytest.raises(CheckpointReplaced) as raised:
            there.plan("other")
        assert (raised.value.registered, raised.value.confirmed) == ("mine", one.state()["confirmed"])
        with pytest.raises(ConsumeError, match="behind the last that was assigned"):
            there.confirm("mine", there.current_plan().ledger_id, Position(1, one.state()["epoch_id"], 10**9))


def test_a_subscription_whose_lease_is_over(one: Station) -> None:
    one.create("brief", lease_s=1)
    with BrokerSubscription(Broker(one.url, None), "brief", 20) as there:
        there.register("mine", False)
        while one.state("brief")["state"] == "active":
            pass
        with pytest.raises(SubscriptionEnded, match=r"has ended \(time\)"):
            there.plan("mine")


def test_a_query_that_asks_for_hours_has_one_session(one: Station) -> None:
    with subscription_of(one) as there:
        there.register("mine", False)
        before = one.sessions()
        for _ in range(300):  # more than a connection has
            there.plan("mine")
        assert one.sessions() == before and 1 in before


def test_a_broker_that_comes_back_is_asked_again(one: Station) -> None:
    with subscription_of(one) as there:
        there.register("mine", False)
        one.restart()
        assert there.plan("mine").registered == "mine"


def test_a_broker_that_stays_away_fails_the_query_in_time(
    one: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(subscription.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(subscription.time, "sleep", sleep)
    there = subscription_of(one, timeout_s=5)

    def refuse() -> None:
        raise ConnectionLostException("nobody listens")

    monkeypatch.setattr(there._link, "management", refuse)
    with pytest.raises(BrokerUnreachable, match=r"no answer for 5 s \(nobody listens\); brokerTimeoutS"):
        there.plan("mine")
    assert pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8] and max(pauses) == 1.0 and sum(pauses) < 5


def test_the_ledger_may_be_read_from_its_broker(tmp_path: Path) -> None:
    """With the rights `ledger` and `bodies`; without the second there are rows and no bodies."""
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = folder / TOKENS_NAME
    fields = {
        "m0": add_token(tokens, "both", [Right.LEDGER, Right.BODIES]),
        None: add_token(tokens, "ledger", [Right.LEDGER]),
    }
    fast = HttpConfig(address="127.0.0.1:0", max_requests_per_s=10_000)
    with BrokerThread(make_config(("orders",), http=fast), folder=folder) as broker:
        one = Station(folder)
        one._thread = broker
        with ConnectionFactory(broker.url).create_connection() as connection:
            one._connection = connection
            one.create()
            for text, token in fields.items():
                sink = Appending(one)
                options = {
                    "path": broker.http_urls[0],
                    "token": token,
                    "mode": "consume",
                    "broker": broker.url,
                    "subscription": SUBSCRIPTION,
                    "confirm": "spark",
                    "onNewCheckpoint": "confirmed",
                }
                one.sent.clear()
                one.send(1)
                assert Played(options, sink, tmp_path / token).run()
                assert sink.texts == [text]
            assert connection.create_management().read(NOUN, SUBSCRIPTION)["held"] == 0
