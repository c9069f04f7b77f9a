"""Which broker is tried next, when, and how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.client.connection.failover import MAX_BROKERS, Backoff, BrokerPool, listed_broker
from postroom.client.connection.url import BrokerUrl, FailoverOptions, ServerListAction

A, B, C = (BrokerUrl(host=name) for name in "abc")
LIST: dict[object, object] = {"failover-server-list": [{"network-host": "c"}, {"hostname": "b", "port": 1}]}
B1 = BrokerUrl(host="b", port=1)


def delays(options: FailoverOptions, starting: bool, count: int) -> list[float]:
    backoff = Backoff(options, starting)
    return [backoff.next_delay_s() for _ in range(count)]


def test_the_delay_doubles_until_its_maximum() -> None:
    options = FailoverOptions(max_reconnect_delay_ms=50)
    assert delays(options, False, 6) == [0.0, 0.01, 0.02, 0.04, 0.05, 0.05]


def test_without_back_off_the_delay_is_always_the_same() -> None:
    options = FailoverOptions(use_reconnect_back_off=False, initial_reconnect_delay_ms=7)
    assert delays(options, False, 4) == [0.007, 0.01, 0.01, 0.01]


def test_the_initial_delay_is_for_breaks_not_for_the_start() -> None:
    options = FailoverOptions(initial_reconnect_delay_ms=7)
    assert delays(options, True, 2) == [0.0, 0.01]
    assert delays(options, False, 2) == [0.007, 0.01]


def test_a_connection_that_broke_at_once_is_waited_for() -> None:
    backoff = Backoff(FailoverOptions(), False, soon=True)
    assert [backoff.next_delay_s() for _ in range(3)] == [0.01, 0.01, 0.02]


@given(st.integers(1, 100_000), st.floats(1, 1000), st.integers(0, 10**6))
def test_a_delay_never_exceeds_its_maximum(attempts: int, multiplier: float, most_ms: int) -> None:
    options = FailoverOptions(reconnect_back_off_multiplier=multiplier, max_reconnect_delay_ms=most_ms)
    backoff = Backoff(options, False)
    backoff.attempts = attempts
    assert 0 <= backoff.next_delay_s() <= most_ms / 1000


@pytest.mark.parametrize(
    ("options", "starting", "limit"),
    [
        (None, True, 1),
        (None, False, 0),
        (FailoverOptions(), True, -1),
        (FailoverOptions(), False, -1),
        (FailoverOptions(max_reconnect_attempts=3), True, 3),
        (FailoverOptions(max_reconnect_attempts=3), False, 3),
        (FailoverOptions(startup_max_reconnect_attempts=2), True, 2),
        (FailoverOptions(startup_max_reconnect_attempts=2), False, -1),
        (FailoverOptions(max_reconnect_attempts=0), True, 1),
        (FailoverOptions(max_reconnect_attempts=0), False, 0),
    ],
)
def test_how_many_attempts_there_are(options: FailoverOptions | None, starting: bool, limit: int) -> None:
    backoff = Backoff(options, starting)
    assert backoff.limit == limit
    for _ in range(limit):
        assert not backoff.exhausted
        backoff.next_delay_s()
    assert backoff.exhausted == (limit >= 0)


@pytest.mark.parametrize(("every", "warned"), [(2, [2, 4, 6]), (0, []), (-1, [])])
def test_warnings_come_each_so_many_attempts(every: int, warned: list[int]) -> None:
    backoff = Backoff(FailoverOptions(warn_after_reconnect_attempts=every), False)
    found = []
    for number in range(1, 7):
        backoff.next_delay_s()
        if backoff.warns:
            found.append(number)
    assert found == warned


def test_the_broker_that_broke_is_tried_last() -> None:
    pool = BrokerPool([A, B, C], FailoverOptions())
    assert pool.attempt() == [A, B, C]
    pool.connected(A, None)
    assert pool.attempt() == [B, C, A]


@pytest.mark.parametrize(
    ("action", "then"),
    [
        (ServerListAction.REPLACE, [C, B1, A]),
        (ServerListAction.ADD, [B, C, B1, A]),
        (ServerListAction.IGNORE, [B, A]),
    ],
)
def test_the_list_of_an_open(action: ServerListAction, then: list[BrokerUrl]) -> None:
    pool = BrokerPool([A, B], FailoverOptions(amqp_open_server_list_action=action))
    pool.connected(A, LIST)
    assert pool.attempt() == then


def test_without_fail_over_no_list_counts() -> None:
    pool = BrokerPool([A], None)
    pool.connected(A, LIST)
    assert pool.attempt() == [A]


@pytest.mark.parametrize("listed", [None, 1, [], ["x"], [{}], [{"port": 1}], [{"hostname": 5}]])
def test_a_list_that_names_nobody_changes_nothing(listed: object) -> None:
    pool = BrokerPool([A, B], FailoverOptions())
    pool.connected(A, {"failover-server-list": listed})
    assert pool.attempt() == [B, A]


def test_lists_don_t_pile_up() -> None:
    pool = BrokerPool([A], FailoverOptions(amqp_open_server_list_action=ServerListAction.ADD))
    for number in range(5):
        entries: list[object] = [{"hostname": f"h{number}-{place}"} for place in range(60)]
        pool.connected(A, {"failover-server-list": entries})
    assert len(pool.attempt()) <= MAX_BROKERS + 1
    assert pool.attempt()[-1] == A


def test_a_redirect_is_followed_first() -> None:
    pool = BrokerPool([A, B], FailoverOptions())
    pool.redirected(A, {"network-host": "c", "port": 5672})
    assert pool.attempt() == [C, A, B]
    pool.redirected(A, {"nothing": 1})
    assert pool.attempt() == [C, A, B]


def test_random_order_has_the_same_brokers() -> None:
    brokers = [BrokerUrl(host=f"h{number}") for number in range(30)]
    pool = BrokerPool(brokers, FailoverOptions(randomize=True))
    assert sorted(map(str, pool.attempt())) == sorted(map(str, brokers))
    assert pool.attempt() != brokers  # one order in 30! is this one


def test_a_listed_broker_is_signed_in_to_as_the_one_that_listed_it() -> None:
    sender = BrokerUrl(host="a", port=5671, user="ann", password="x", tls=True)
    found = listed_broker(sender, {"hostname": "vhost", "network-host": "b"})
    assert found == BrokerUrl(host="b", port=5671, user="ann", password="x", tls=True)


def test_tls_is_not_given_up_for_a_list() -> None:
    sender = BrokerUrl(host="a", tls=True, user="ann", password="x")
    assert listed_broker(sender, {"hostname": "b", "scheme": "amqp"}) is None
    assert listed_broker(A, {"hostname": "b", "scheme": "http"}) is None


@pytest.mark.parametrize("port", [0, 65_536, -1, "5672", None])
def test_a_port_that_is_none_is_the_default(port: object) -> None:
    assert listed_broker(A, {"hostname": "b", "port": port}) == B
