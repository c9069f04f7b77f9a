"""The machine's clock is set back a day and forward a year under a running broker."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message, symbol, ulong
from proton.utils import BlockingConnection

from postroom.ledger.reading.reader import LedgerReader
from postroom.server.clock import WALL, WallClock
from postroom.server.connection.broker import Broker
from tests.server.harness import BrokerThread, make_config

DAY_S = 86_400
YEAR_S = 365 * DAY_S


def alarms(broker: Broker) -> list[str]:
    return [each.name for each in broker.alarms.all()]


class Hand:
    """Sets the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset_s = 0
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + self.offset_s * 1_000_000_000)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hand]:
    yield Hand(monkeypatch)
    monkeypatch.undo()
    WALL.now_us()  # it is of the process, and goes on for others
    WALL.ahead_us = WALL.forward_us = 0


def test_time_goes_on_when_the_clock_is_set_back_and_follows_it_forward(hand: Hand) -> None:
    clock = WallClock()
    first = clock.now_us()
    hand.offset_s -= DAY_S
    second = clock.now_us()
    assert first <= second < first + 1_000_000
    assert clock.ahead_us == pytest.approx(DAY_S * 1_000_000, abs=1_000_000)
    hand.offset_s += DAY_S
    assert clock.now_us() < first + 2_000_000
    assert clock.ahead_us < 1_000_000
    hand.offset_s += YEAR_S
    assert clock.now_us() == pytest.approx(first + YEAR_S * 1_000_000, abs=2_000_000)
    assert clock.forward_us == pytest.approx((DAY_S + YEAR_S) * 1_000_000, abs=2_000_000)


def delayed(text: str, seconds: float) -> Message:
    return Message(
        body=text, durable=True, annotations={symbol("x-opt-delivery-delay"): ulong(int(seconds * 1000))}
    )


@pytest.mark.sockets
def test_births_and_expiries_come_in_time_whatever_is_done_to_the_clock(hand: Hand, tmp_path: Path) -> None:
    with BrokerThread(make_config(("q",)), folder=tmp_path) as broker:
        connection = BlockingConnection(broker.url, timeout=20)
        sender = connection.create_sender("q")
        holding = BlockingConnection(broker.url, timeout=20)
        holder = holding.create_receiver("q")
        sender.send(delayed("born in a week", 7 * DAY_S))
        sender.send(Message(body="expires in a week", durable=True, ttl=7 * DAY_S, id="kept"))
        assert holder.receive().body == "expires in a week"
        receiver = connection.create_receiver("q", credit=10)

        hand.offset_s -= DAY_S
        sender.send(delayed("after the clock was set back", 0.2))
        assert receiver.receive().body == "after the clock was set back"
        receiver.accept()
        broker.wait_until(lambda found: "clock-ahead" in alarms(found))

        hand.offset_s += YEAR_S
        sender.send(delayed("a year later", 0.2))
        assert sorted(receiver.receive().body for _ in range(2)) == ["a year later", "born in a week"]
        receiver.accept()
        receiver.accept()
        broker.wait_until(lambda found: "clock-ahead" not in alarms(found))
        hand.offset_s -= YEAR_S
        receiver.close()
        sender.send(Message(body="expires", durable=True, ttl=0.1))
        sender.send(delayed("last", 0.5))
        holding.close()
        broker.wait_until(
            lambda found: found.manager.queues["q"].statistics.snapshot()["messages_expired"] == 2
        )
        receiver = connection.create_receiver("q", credit=10)
        assert receiver.receive().body == "last"
        receiver.accept()
        connection.close()
    rows: list[tuple[int, int]] = []
    for some in LedgerReader(tmp_path).rows():
        rows += zip(some["position"].tolist(), some["time_us"].tolist(), strict=True)
    times = [time_us for _, time_us in sorted(rows)]
    assert times == sorted(times)
