"""Options: keywords and URLs, prefetch by kind, TLS files, and what is no option."""

from __future__ import annotations

import inspect
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from postroom.client import (
    ClientOptions,
    ConnectionFactory,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    PrefetchPolicy,
    PresettlePolicy,
    RecoverMode,
    RedeliveryOutcome,
    RedeliveryPolicy,
    TlsOptions,
    Topic,
    aio,
)
from postroom.client.connection.options import FACTORY_URL_OPTIONS, URL_OPTIONS
from tests.certificates import Certificate, sign
from tests.client.fake_broker import FakeBroker, asynchronous, tls_broker

NONE = ClientOptions()
PRESETTLED = {
    "presettleAll": "all",
    "presettleProducers": "producers",
    "presettleQueueProducers": "queue_producers",
    "presettleTopicProducers": "topic_producers",
    "presettleTransactedProducers": "transacted_producers",
    "presettleConsumers": "consumers",
    "presettleQueueConsumers": "queue_consumers",
    "presettleTopicConsumers": "topic_consumers",
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("jms.forceSyncSend", "true", {"force_sync_send": True}),
        ("jms.forceAsyncSend", "TRUE", {"force_async_send": True}),
        ("jms.sendTimeout", "1500", {"send_timeout_s": 1.5}),
        ("jms.sendTimeout", "-1", {"send_timeout_s": None}),
        ("jms.closeTimeout", "1000", {"close_timeout_s": 1.0}),
        ("amqp.drainTimeout", "1000", {"drain_timeout_s": 1.0}),
        ("jms.recover", "broker", {"recover": RecoverMode.BROKER}),
        ("jms.localMessageExpiry", "false", {"local_message_expiry": False}),
        ("jms.prefetchPolicy.all", "10", {"prefetch": PrefetchPolicy.of_all(10)}),
        ("jms.prefetchPolicy.queuePrefetch", "1", {"prefetch": PrefetchPolicy(queue=1)}),
        ("jms.prefetchPolicy.topicPrefetch", "1", {"prefetch": PrefetchPolicy(topic=1)}),
        ("jms.prefetchPolicy.durableTopicPrefetch", "1", {"prefetch": PrefetchPolicy(durable_topic=1)}),
        ("jms.prefetchPolicy.queueBrowserPrefetch", "1", {"prefetch": PrefetchPolicy(browser=1)}),
        ("jms.redeliveryPolicy.maxRedeliveries", "5", {"redelivery": RedeliveryPolicy(max_redeliveries=5)}),
        (
            "jms.redeliveryPolicy.outcome",
            "2",
            {"redelivery": RedeliveryPolicy(outcome=RedeliveryOutcome.REJECTED)},
        ),
        (
            "jms.redeliveryPolicy.outcome",
            "released",
            {"redelivery": RedeliveryPolicy(outcome=RedeliveryOutcome.RELEASED)},
        ),
        (
            "jms.redeliveryPolicy.listenerFailure",
            "released",
            {"redelivery": RedeliveryPolicy(listener_failure=RedeliveryOutcome.RELEASED)},
        ),
        *(
            (f"jms.presettlePolicy.{name}", "true", {"presettle": PresettlePolicy(**{field: True})})
            for name, field in PRESETTLED.items()
        ),
    ],
)
def test_each_option_has_a_name_in_the_url(name: str, text: str, expected: dict[str, Any]) -> None:
    assert NONE.with_url_options({name: text}) == replace(NONE, **expected)


def test_every_field_has_a_name_in_the_url() -> None:
    """But for what is an object of the application's."""
    paths = {path for path, _ in URL_OPTIONS.values()}
    policies = {"prefetch": PrefetchPolicy, "redelivery": RedeliveryPolicy, "presettle": PresettlePolicy}
    for each in fields(ClientOptions):
        if each.name == "tracing":
            continue
        if each.name in policies:
            assert {f"{each.name}.{part.name}" for part in fields(policies[each.name])} <= paths
        else:
            assert each.name in paths


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("jms.forceSyncSend=maybe", "jms.forceSyncSend.*neither true nor false"),
        ("jms.sendTimeout=soon", "jms.sendTimeout"),
        ("jms.prefetchPolicy.all=32768", "prefetchPolicy.all.*0 to 32767"),
        ("jms.prefetchPolicy.queuePrefetch=-1", "0 to 32767"),
        ("jms.redeliveryPolicy.outcome=6", "redeliveryPolicy.outcome"),
        ("jms.redeliveryPolicy.outcome=lost", "redeliveryPolicy.outcome"),
        ("jms.clientId=a", "jms.clientId of the broker's URL is not known"),
        ("jms.localMessagePriority=true", "not known"),
        ("transport.trustAll=true", "not known"),
        ("amqp.idleTimeout=long", "amqp.idleTimeout"),
    ],
)
def test_what_is_no_option_is_refused(option: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        ConnectionFactory(f"amqp://host?{option}")


def test_brokers_whose_own_options_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        ConnectionFactory("failover:(amqp://a?amqp.idleTimeout=1000,amqp://b)")
    ConnectionFactory("failover:(amqp://a,amqp://b)?failover.nested.amqp.idleTimeout=1000")


@asynchronous
async def test_the_url_counts_before_the_arguments() -> None:
    async with FakeBroker() as broker:
        options = "jms.clientID=mine&jms.requestTimeout=50&amqp.maxFrameSize=4096&jms.connectTimeout=5000"
        factory = aio.ConnectionFactory(
            f"{broker.url}?{options}&amqp.idleTimeout=20000", client_id="yours", request_timeout_s=None
        )
        async with await factory.create_connection() as connection:
            assert connection.client_id == "mine"
            opened = broker.opened[0].open
            assert (opened.container_id, opened.max_frame_size) == ("mine", 4096)
            assert opened.idle_timeout == 10_000
    assert set(FACTORY_URL_OPTIONS) == {
        "jms.clientID", "jms.connectTimeout", "jms.requestTimeout", "amqp.idleTimeout", "amqp.maxFrameSize",
            "amqp.saslMechanisms"
    }  # fmt: skip


@asynchronous
async def test_prefetch_goes_by_what_is_consumed() -> None:
    async with FakeBroker() as broker:
        policy = PrefetchPolicy(queue=11, topic=12, durable_topic=13, browser=14)
        connection = await broker.connect(client_id="c", options=ClientOptions(prefetch=policy))
        session = await connection.create_session()
        await session.create_consumer("q")
        await session.create_consumer(Topic("t"))
        await session.create_shared_consumer(Topic("t"), "shared")
        await session.create_durable_consumer(Topic("t"), "durable")
        await session.create_shared_durable_consumer(Topic("t"), "both")
        await session.create_consumer("q", prefetch=3)
        browser = await session.create_browser("q")
        assert [message async for message in browser] == []
        await broker.until(lambda: 14 in broker.credits)
        assert [credit for credit in broker.credits if credit] == [11, 12, 12, 13, 13, 3, 14]


@pytest.mark.parametrize("prefetch", [-1, 32_768])
def test_a_prefetch_that_is_none_is_refused(prefetch: int) -> None:
    with pytest.raises(ValueError, match="0 to 32767"):
        PrefetchPolicy(queue=prefetch)
    with pytest.raises(ValueError, match="0 to 32767"):
        PrefetchPolicy.of_all(prefetch)


@asynchronous
async def test_a_broker_that_never_says_that_it_has_nothing() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(options=ClientOptions(drain_timeout_s=0.02))
        session = await connection.create_session()
        consumer = await session.create_consumer("q", prefetch=0)
        broker.connections[0].senders.clear()
        with pytest.raises(JMSTimeoutException, match="drain"):
            await consumer.receive_no_wait()


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For another host than 127.0.0.1; beside its key lies the same one, encrypted."""
    made = sign(tmp_path_factory.mktemp("tls"), "elsewhere")
    encrypt = [
        "openssl",
        "pkey",
        "-aes256",
        "-in",
        str(made.key),
        "-out",
        str(made.key.with_name("secret.pem")),
    ]
    subprocess.run([*encrypt, "-passout", "pass:sesame"], check=True, capture_output=True)
    return made


@asynchronous
async def over_tls(certificate: Certificate, **options: Any) -> None:
    async with tls_broker(certificate, wants_one=True) as broker:
        connection = await broker.connect(tls=TlsOptions(ca_file=certificate.certificate, **options))
        await connection.create_session()


def test_both_ends_show_certificates(certificate: Certificate) -> None:
    own = {"certificate_file": certificate.certificate, "key_file": certificate.key}
    over_tls(certificate, verify_host=False, **own)
    with pytest.raises(JMSSecurityException, match="certificate"):
        over_tls(certificate, **own)


def test_a_key_may_be_encrypted(certificate: Certificate) -> None:
    own: dict[str, Any] = {
        "certificate_file": certificate.certificate,
        "key_file": certificate.key.with_name("secret.pem"),
    }
    over_tls(certificate, verify_host=False, key_password="sesame", **own)
    with pytest.raises(JMSSecurityException, match=r"cert\.pem"):
        TlsOptions(**own, key_password="wrong").context()
    with pytest.raises(JMSSecurityException, match=r"cert\.pem"):
        TlsOptions(**own).context()


def test_a_broker_that_wants_a_certificate_gets_none(certificate: Certificate) -> None:
    with pytest.raises(JMSException):
        over_tls(certificate, verify_host=False)


@pytest.mark.parametrize("files", [{"ca_file": "missing.pem"}, {"certificate_file": "missing.pem"}])
def test_files_that_are_not_there(files: dict[str, str]) -> None:
    with pytest.raises(JMSSecurityException, match=r"missing\.pem"):
        ConnectionFactory("amqps://host", tls=TlsOptions(**files))  # type: ignore[arg-type]


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(JMSSecurityException, match=r"bad\.pem"):
        TlsOptions(ca_file=tmp_path / "bad.pem").context()


def test_the_defaults_of_times() -> None:
    """As Qpid JMS has them, but for what waits for ever there."""
    assert (NONE.send_timeout_s, NONE.close_timeout_s, NONE.drain_timeout_s) == (60.0, 60.0, 60.0)
    parameters = inspect.signature(ConnectionFactory).parameters
    assert parameters["connect_timeout_s"].default == 15.0
    assert parameters["request_timeout_s"].default == 60.0
    assert parameters["idle_timeout_ms"].default == 60_000


@asynchronous
async def test_a_broker_that_never_answers_a_request() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(request_timeout_s=0.02)
        session = await connection.create_session()
        broker.connections[0].on_LinkAttached = lambda event: None  # type: ignore[method-assign]
        with pytest.raises(JMSTimeoutException, match="attach of the consumer of q"):
            await session.create_consumer("q")


@asynchronous
async def test_a_broker_that_never_answers_a_close() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(options=ClientOptions(close_timeout_s=0.02))
        session = await connection.create_session()
        producer = await session.create_producer("q")
        broker.connections[0].on_LinkDetached = lambda event: None  # type: ignore[method-assign]
        with pytest.raises(JMSTimeoutException, match="detach of the producer for q"):
            await producer.close()


@pytest.mark.parametrize(
    "options",
    [
        {"connect_timeout_s": -1},
        {"request_timeout_s": -0.1},
        {"idle_timeout_ms": -1},
        {"max_frame_size_bytes": 511},
        {"max_frame_size_bytes": 1 << 32},
    ],
)
def test_numbers_that_are_no_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ConnectionFactory(**options)


@pytest.mark.parametrize("name", ["send_timeout_s", "close_timeout_s", "drain_timeout_s"])
def test_negative_times_are_refused(name: str) -> None:
    times: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=name):
        replace(NONE, **times)


def test_an_outcome_of_the_redelivery_policy_goes_by_number() -> None:
    policy = RedeliveryPolicy(outcome=2)  # type: ignore[arg-type]
    assert policy.outcome is RedeliveryOutcome.REJECTED
    with pytest.raises(ValueError, match="6"):
        RedeliveryPolicy(outcome=6)  # type: ignore[arg-type]
