"""The URL of a connection factory: one broker or several, and their options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.client.connection.url import BrokerUrl, FailoverOptions, ParsedUrl, ServerListAction, parse_url

A, B = BrokerUrl(host="a"), BrokerUrl(host="b", port=5673)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://a", ParsedUrl(brokers=(A,))),
        ("amqp://a?jms.prefetchPolicy.all=5&amqp.idleTimeout=100", ParsedUrl(
            brokers=(A,), options={"jms.prefetchPolicy.all": "5", "amqp.idleTimeout": "100"})),
        ("failover:(amqp://a,amqp://b:5673)", ParsedUrl(brokers=(A, B), failover=FailoverOptions())),
        ("failover:amqp://a,amqp://b:5673", ParsedUrl(brokers=(A, B), failover=FailoverOptions())),
        ("failover:( amqp://a , b:5673 )?jms.clientID=x%20y", ParsedUrl(
            brokers=(A, B), failover=FailoverOptions(), options={"jms.clientID": "x y"})),
        ("failover:amqp://a?failover.reconnectDelay=7", ParsedUrl(
            brokers=(A,), failover=FailoverOptions(reconnect_delay_ms=7))),
    ],
)  # fmt: skip
def test_a_url_is_read(url: str, expected: ParsedUrl) -> None:
    assert parse_url(url) == expected


def test_every_failover_option_has_the_name_and_default_of_qpid_jms() -> None:
    assert (
        FailoverOptions()
        == parse_url(
            "failover:(amqp://a)?failover.initialReconnectDelay=0&failover.reconnectDelay=10"
            "&failover.maxReconnectDelay=30000&failover.useReconnectBackOff=true"
            "&failover.reconnectBackOffMultiplier=2.0&failover.maxReconnectAttempts=-1"
            "&failover.startupMaxReconnectAttempts=-1&failover.warnAfterReconnectAttempts=10"
            "&failover.randomize=false&failover.amqpOpenServerListAction=REPLACE"
        ).failover
    )


def test_every_failover_option_is_read() -> None:
    parsed = parse_url(
        "failover:(amqp://a)?failover.initialReconnectDelay=1&failover.reconnectDelay=2"
        "&failover.maxReconnectDelay=3&failover.useReconnectBackOff=false"
        "&failover.reconnectBackOffMultiplier=1.5&failover.maxReconnectAttempts=4"
        "&failover.startupMaxReconnectAttempts=5&failover.warnAfterReconnectAttempts=6"
        "&failover.randomize=true&failover.amqpOpenServerListAction=add"
    ).failover
    assert parsed == FailoverOptions(
        initial_reconnect_delay_ms=1,
        reconnect_delay_ms=2,
        max_reconnect_delay_ms=3,
        use_reconnect_back_off=False,
        reconnect_back_off_multiplier=1.5,
        max_reconnect_attempts=4,
        startup_max_reconnect_attempts=5,
        warn_after_reconnect_attempts=6,
        randomize=True,
        amqp_open_server_list_action=ServerListAction.ADD,
    )


def test_options_of_one_broker_and_nested_ones_of_all() -> None:
    found = parse_url(
        "failover:(amqp://a?amqp.idleTimeout=1,amqp://b:5673)"
        "?failover.nested.amqp.idleTimeout=9&failover.nested.transport.tcpNoDelay=true"
    )
    assert [broker.options for broker in found.brokers] == [
        {"amqp.idleTimeout": "1", "transport.tcpNoDelay": "true"},
        {"amqp.idleTimeout": "9", "transport.tcpNoDelay": "true"},
    ]
    assert found.options == {}


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("failover:", "failover URL is"),
        ("failover:(amqp://a", "failover URL is"),
        ("failover:()", "no host"),
        ("failover:(amqp://a,)", "no host"),
        ("failover:(http://a)", "'http'"),
        ("failover:(amqp://a)?failover.reconnectDelays=1", "failover.reconnectDelay, "),
        ("failover:(amqp://a)?failover.reconnectDelay=-1", "milliseconds"),
        ("failover:(amqp://a)?failover.maxReconnectAttempts=-2", "-1 for no limit"),
        ("failover:(amqp://a)?failover.randomize=maybe", "true or false"),
        ("failover:(amqp://a)?failover.reconnectBackOffMultiplier=0", "from 1"),
        ("failover:(amqp://a)?failover.reconnectBackOffMultiplier=two", "from 1"),
        ("failover:(amqp://a)?failover.amqpOpenServerListAction=MERGE", "REPLACE, ADD or IGNORE"),
        ("failover:(amqp://a)?speed=1", "'speed'"),
        ("failover:(amqp://a?failover.reconnectDelay=1)", "'failover.reconnectDelay'"),
        ("amqp://a?failover.reconnectDelay=1", "in a failover URL"),
        ("amqp://a?jms.clientID", "no value"),
        ("amqp://a?jms.clientID=1&jms.clientID=2", "twice"),
    ],
)
def test_what_is_wrong_is_named(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_url(url)


def test_a_password_is_in_no_error() -> None:
    with pytest.raises(ValueError) as raised:
        parse_url("failover:(amqp://ann:secret@a,http://bob:hidden@b)")
    assert "secret" not in str(raised.value)
    assert "hidden" not in str(raised.value)


@given(st.text(alphabet="failover:()?&=amqp/,.[]%@-1é", max_size=60))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    for url in (text, f"failover:({text})", f"failover:(amqp://a)?{text}"):
        try:
            assert parse_url(url).brokers
        except ValueError as refused:
            assert str(refused)
