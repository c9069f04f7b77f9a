"""Connections that the broker opens itself, over real sockets: TLS, credentials, and what goes wrong."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory, Queue
from postroom.server.channels.outbound_connection import Secrets
from postroom.server.configuration.channels import ChannelConfig, CredentialsConfig
from postroom.server.configuration.config import Config, LimitsConfig, QueueConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password
from postroom.server.connection.broker import Broker
from tests.certificates import Certificate, sign
from tests.server.harness import TIMEOUT_S, BrokerThread, make_config

pytestmark = pytest.mark.sockets


@pytest.fixture
def brokers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def receiver(brokers: ExitStack, **changes: object) -> BrokerThread:
    """B, with the receiver and a queue ``in``."""
    channel = ChannelConfig(name="A.B", type="receiver")
    config = make_config(("in",), container_id="B", channel=[channel], **changes)
    return brokers.enter_context(BrokerThread(config))


def sender(
    brokers: ExitStack, connection: str, credentials: CredentialsConfig | None = None, retry_s: int = 60
) -> BrokerThread:
    """A, with the sender."""
    return brokers.enter_context(BrokerThread(sending_config(connection, credentials, retry_s)))


def sending_config(connection: str, credentials: CredentialsConfig | None, retry_s: int = 60) -> Config:
    channel = ChannelConfig(
        name="A.B",
        type="sender",
        transmission_queue="B",
        connection=connection,
        short_retry_interval_s=retry_s,
        credentials="to-b" if credentials is not None else "",
    )
    return make_config(
        container_id="A",
        queue=[QueueConfig(name="B", usage="transmission")],
        channel=[channel],
        credentials={"to-b": credentials} if credentials is not None else {},
        limits=LimitsConfig(open_timeout_ms=2000),
    )


def send(broker: BrokerThread) -> None:
    with ConnectionFactory(broker.url).create_context() as context:
        context.create_producer().send(Queue("in@B"), "hello")


def received(broker: BrokerThread, user: str = "", password: str = "") -> object:
    url = f"amqp://{user}:{password}@{broker.address}" if user else broker.url
    with ConnectionFactory(url).create_context() as context:
        message = context.create_consumer(Queue("in")).receive(TIMEOUT_S)
        return None if message is None else message.get_body(str)


def reason(broker: BrokerThread, state: str) -> str:
    """Why the sender is in ``state``, once it is."""
    broker.wait_until(lambda each: each.channels.find("A.B").state.name == state)
    return broker.call(lambda each: each.channels.find("A.B").reason)


def secrets(broker: BrokerThread) -> Secrets:
    """How the sender has signed in."""

    def read(each: Broker) -> Secrets:
        instance = each.channels.find("A.B").instance
        assert instance is not None and instance.outward is not None
        return instance.outward.secrets

    return broker.call(read)


def test_a_channel_over_plain_tcp(brokers: ExitStack) -> None:
    there = receiver(brokers)
    here = sender(brokers, there.url)
    send(here)
    assert received(there) == "hello"
    (binding,) = here.call(lambda each: [one for one in each.connections if one.outward is not None])
    assert (binding.remote, binding.container_id) == (there.address, "B")


def secure(brokers: ExitStack, signed: Certificate, **changes: object) -> tuple[BrokerThread, str]:
    """B behind TLS, and a plain listener for the test itself; the address to call."""
    tls = ListenConfig("127.0.0.1:0", True, str(signed.certificate), str(signed.key))
    there = receiver(brokers, listen=[ListenConfig("127.0.0.1:0"), tls], **changes)
    port = there.addresses[1].rpartition(":")[2]
    return there, f"amqps://localhost:{port}"


def test_a_channel_over_tls_that_trusts_the_partners_certificate(
    brokers: ExitStack, signed: Certificate
) -> None:
    there, address = secure(brokers, signed)
    here = sender(brokers, address, CredentialsConfig(ca_file=str(signed.certificate)))
    send(here)
    assert received(there) == "hello"


def test_a_certificate_that_nobody_trusts_stops_the_channel(brokers: ExitStack, signed: Certificate) -> None:
    _, address = secure(brokers, signed)
    here = sender(brokers, address)
    send(here)
    assert "its certificate is not trusted: self-signed certificate" in reason(here, "STOPPED")


def test_a_certificate_for_another_host_stops_the_channel(brokers: ExitStack, tmp_path: Path) -> None:
    other = sign(tmp_path, "elsewhere")
    _, address = secure(brokers, other)
    here = sender(brokers, address, CredentialsConfig(ca_file=str(other.certificate)))
    send(here)
    assert "Hostname mismatch" in reason(here, "STOPPED")


def test_user_and_password_sign_in(brokers: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\nand what else is in the file\n")
    listen = [ListenConfig("127.0.0.1:0", anonymous=False)]
    there = receiver(brokers, listen=listen, users={"mover": hash_password("secret")})
    here = sender(brokers, there.url, CredentialsConfig(user="mover", password_file=str(file)))
    send(here)
    assert received(there, "mover", "secret") == "hello"
    users = here.call(lambda each: [one.user for one in each.connections if one.outward is not None])
    assert users == ["mover"]
    assert secrets(here).password == "secret" and "secret" not in repr(secrets(here))


def test_a_wrong_password_stops_the_channel(brokers: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("wrong")
    listen = [ListenConfig("127.0.0.1:0", anonymous=False)]
    there = receiver(brokers, listen=listen, users={"mover": hash_password("secret")})
    here = sender(brokers, there.url, CredentialsConfig(user="mover", password_file=str(file)))
    send(here)
    why = reason(here, "STOPPED")
    assert "refuses user 'mover' (SASL code 1)" in why and "wrong" not in why


def test_a_partner_that_wants_a_password_stops_a_channel_without_one(brokers: ExitStack) -> None:
    there = receiver(brokers, listen=[ListenConfig("127.0.0.1:0", anonymous=False)])
    here = sender(brokers, there.url)
    send(here)
    assert "the server offers SASL PLAIN; allowed here: ANONYMOUS" in reason(here, "STOPPED")


@pytest.mark.parametrize(
    ("credentials", "what"),
    [
        (CredentialsConfig(user="u", password_file="absent"), "file absent can't be read: No such file"),
        (CredentialsConfig(ca_file="absent"), "authorities absent can't be used: No such file"),
        (CredentialsConfig(cert_file="absent"), "certificate absent can't be used: No such file"),
    ],
)
def test_files_that_are_not_there_stop_the_channel(
    brokers: ExitStack, credentials: CredentialsConfig, what: str
) -> None:
    here = sender(brokers, "amqps://127.0.0.1:1", credentials)
    send(here)
    assert what in reason(here, "STOPPED")


def test_a_certificate_of_ours_is_shown(brokers: ExitStack, signed: Certificate) -> None:
    there, address = secure(brokers, signed)
    own = CredentialsConfig(
        ca_file=str(signed.certificate), cert_file=str(signed.certificate), key_file=str(signed.key)
    )
    here = sender(brokers, address, own)
    send(here)
    assert received(there) == "hello"
    assert secrets(here).mechanisms() == ["EXTERNAL", "ANONYMOUS"]


def test_a_host_that_is_no_name_stops_the_channel(brokers: ExitStack) -> None:
    here = sender(brokers, f"amqp://{'a' * 64}.example:5672")
    send(here)
    assert "can't connect to amqp://aaa" in reason(here, "STOPPED")


def test_a_port_where_nobody_listens_is_retried(brokers: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    here = sender(brokers, f"amqp://127.0.0.1:{port}")
    send(here)
    assert f"can't connect to amqp://127.0.0.1:{port}: " in reason(here, "RETRYING")


def test_the_partner_is_sought_at_all_its_addresses(brokers: ExitStack) -> None:
    """Where nobody listens, where nobody speaks, and where it is."""
    there = receiver(brokers)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"amqp://127.0.0.1:{taken.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = f"amqp://127.0.0.1:{silent.getsockname()[1]}"
        here = sender(brokers, f"{free}, {mute}, {there.url}", retry_s=0)
        send(here)
        assert received(there) == "hello"
        used = here.call(lambda each: each.channels.find("A.B").instance)
        assert used is not None and used.outward is not None
        assert used.outward.address == there.url


def test_nobody_at_any_address_is_retried_with_all_reasons(brokers: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    absent = f"amqp://{'a' * 64}.example:5672"
    here = sender(brokers, f"{absent},amqp://127.0.0.1:{port}")
    send(here)
    why = reason(here, "RETRYING")
    assert why.index("can't connect to amqp://aaa") < why.index(
        f"; can't connect to amqp://127.0.0.1:{port}: "
    )


def test_a_partner_that_says_nothing_is_given_up(brokers: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        here = sender(brokers, f"amqp://127.0.0.1:{port}")
        send(here)
        assert "no open within 2000 ms" in reason(here, "RETRYING")


def test_what_is_no_amqp_is_given_up(brokers: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        here = sender(brokers, f"amqp://127.0.0.1:{other.getsockname()[1]}")
        send(here)
        accepted, _ = other.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            assert "127.0.0.1" in reason(here, "RETRYING")


def test_the_broker_stops_while_a_channel_connects(brokers: ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = sending_config(f"amqp://127.0.0.1:{silent.getsockname()[1]}", None)
        began = time.monotonic()
        with BrokerThread(config) as here:
            send(here)
            here.wait_until(lambda each: each.channels.find("A.B").state.name == "INITIALIZING")
        assert time.monotonic() - began < TIMEOUT_S


def test_an_orderly_restart_leaves_nothing_to_retry(brokers: ExitStack, tmp_path: Path) -> None:
    there = receiver(brokers)
    config = sending_config(there.url, None)
    with BrokerThread(config, folder=tmp_path) as here:
        send(here)
        assert received(there) == "hello"
    there.wait_until(lambda each: each.channels.find("A.B").state.name == "INACTIVE")
    with BrokerThread(config, folder=tmp_path) as again:
        assert again.call(lambda each: each.channels.find("A.B").state.name) == "INACTIVE"
        send(again)
        assert received(there) == "hello"
