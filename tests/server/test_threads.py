"""Threads beside the loop begin again, and say so; a loop that stands still is seen, and where it stands."""

import logging
import threading
import time
from collections.abc import Callable
from urllib.request import urlopen

import pytest

from postroom.server.alarms import THREAD_FAILING, Alarms
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.application import Application
from postroom.server.threads import STALLED_INSPECTIONS, LoopWatch, TendedThread
from tests.server.harness import BrokerThread, make_config
from tests.waiting import POLL_S, WAIT_S, wait_for


def test_work_that_fails_begins_again_until_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[int] = []

    def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise ValueError(f"attempt {len(begun)}")

    thread = TendedThread("some-work", work)
    with caplog.at_level(logging.CRITICAL, "postroom"):
        thread.start()
        wait_for(lambda: len(begun) == 3)
        thread.join()
    fields = [record.__dict__["fields"] for record in caplog.records]
    assert fields == [{"thread": "some-work", "again_s": 0.5}, {"thread": "some-work", "again_s": 1.0}]
    assert "attempt 2" in caplog.text
    assert thread.failure == "attempt 2"


def test_an_end_is_not_waited_for_in_a_pause() -> None:
    def work() -> None:
        raise ValueError

    thread = TendedThread("some-work", work)
    thread.start()
    wait_for(lambda: thread.failure == "ValueError")
    thread.join(WAIT_S)
    assert "some-work" not in [each.name for each in threading.enumerate()]


def test_one_that_never_started_has_ended() -> None:
    TendedThread("some-work", lambda: None).join()


def test_the_alarm_names_the_threads_that_fail() -> None:
    alarms = Alarms()
    alarms.of_threads({"postroom-http": "why", "postroom-spans": "other"}, 1)
    (alarm,) = alarms.all()
    assert (alarm.name, alarm.what) == (THREAD_FAILING, "postroom-http: why; postroom-spans: other")
    alarms.of_threads({}, 2)
    assert alarms.all() == []


def test_a_loop_that_stands_still_is_seen_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    ticks = [0]
    watch = LoopWatch(lambda: ticks[0])
    watch.inspected_every_s = POLL_S
    with caplog.at_level(logging.WARNING, "postroom"), watch:
        stand_still(lambda: "loop-stalled" in caplog.text)
        ticks[0] += 1
        wait_for(lambda: "loop-goes-on" in caplog.text)
    assert [record.getMessage() for record in caplog.records] == ["loop-stalled", "loop-goes-on"]
    assert " stand_still" in caplog.records[0].__dict__["fields"]["where"]


def stand_still(until: Callable[[], bool]) -> None:
    wait_for(until)


def test_a_loop_that_goes_round_is_let_alone(caplog: pytest.LogCaptureFixture) -> None:
    ticks = [0]
    watch = LoopWatch(lambda: ticks[0])
    watch.inspected_every_s = 10 * POLL_S
    with caplog.at_level(logging.WARNING, "postroom"), watch:
        for _ in range(5 * STALLED_INSPECTIONS):
            ticks[0] += 1
            time.sleep(watch.inspected_every_s / 2)
    assert caplog.records == []


@pytest.mark.sockets
def test_http_is_there_after_its_application_could_not_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when there are no descriptors for what it imports."""
    made: list[object] = []

    class Failing(Application):
        def __init__(self, *arguments: object) -> None:
            made.append(self)
            if len(made) == 1:
                raise OSError("too many open files")
            super().__init__(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("postroom.server.http.application.Application", Failing)
    with BrokerThread(make_config(http=HttpConfig(address="127.0.0.1:0"))) as broker:
        wait_for(lambda: len(made) == 2)
        with urlopen(f"{broker.http_urls[0]}/", timeout=WAIT_S) as answer:
            assert answer.status == 200
