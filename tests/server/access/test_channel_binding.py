"""SCRAM bound to the channel: our client over real TLS, and who stands between it and the broker."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from msgspec import ValidationError, convert
from proton import SSLDomain
from proton.utils import BlockingConnection
from scramp import ScramClient  # type: ignore[import-untyped]

from postroom.amqp.frames.sasl import PLUS, SASL_AUTH, SASL_OK, TLS_SERVER_END_POINT
from postroom.client import ConnectionFactory, JMSSecurityException, Queue, TlsOptions
from postroom.server.configuration.config import Config
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import (
    BOUND_MECHANISMS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    hash_password,
)
from postroom.server.configuration.sign_in import SignInRuleConfig
from postroom.server.configuration.websocket import WebSocketConfig
from postroom.server.exits import StartError
from postroom.server.listening.tls import load_tls
from tests.authority import Authority, Issued
from tests.server.harness import BrokerThread, make_config
from tests.server.tls_peer import TIMEOUT_S, TlsPeer, sasl, sasl_response, scram_outcome

sockets = pytest.mark.sockets
PASSWORD = "sesame"
USERS = {"ann": [hash_password(PASSWORD, each, iterations=MIN_ITERATIONS) for each in SCRAM_MECHANISMS]}


def config_with(server: Issued, listen: dict[str, Any] | None = None, **changes: Any) -> Config:
    files = {"tls_certificate": str(server.certificate), "tls_key": str(server.key)}
    table = ListenConfig("127.0.0.1:0", **{"anonymous": False, **files, **(listen or {})})
    return make_config(**{"listen": [table], "users": USERS, **changes})


@pytest.fixture(scope="module")
def broker(server: Issued) -> Iterator[BrokerThread]:
    with BrokerThread(config_with(server)) as running:
        yield running


def used(broker: BrokerThread) -> list[str]:
    """Mechanisms of who is in."""
    return broker.call(lambda b: [each.engine._handshake.mechanism for each in b.connections])


def refusals(broker: BrokerThread) -> list[str]:
    """What the record of acts says of failed sign-ins; it is forgotten, and so are the failures."""

    def take(of: Any) -> list[str]:
        counted = of.access.acts._counted
        found = [act.description for act in counted.values()]
        counted.clear()
        of.sign_ins.failures._failures.clear()
        return found

    return broker.call(take)


def factory(port: int, authority: Authority, *mechanisms: str, password: str = PASSWORD) -> ConnectionFactory:
    options = f"?amqp.saslMechanisms={','.join(mechanisms)}" if mechanisms else ""
    url = f"amqps://ann:{password}@localhost:{port}{options}"
    return ConnectionFactory(url, tls=TlsOptions(ca_file=authority.certificate))


class ManInTheMiddle:
    """Ends TLS with a certificate of its own, and talks TLS with the broker; may change what the broker says.

    A context manager; ``port`` is where clients are to come. All of it happens in one thread: OpenSSL's
    connections may not be read and written by two at a time.
    """

    def __init__(self, shown: Issued, authority: Authority, broker_port: int) -> None:
        self.change: Callable[[bytes], bytes] = lambda data: data
        self._broker_port = broker_port
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.load_cert_chain(shown.certificate, shown.key)
        self._client = ssl.create_default_context(cafile=authority.certificate)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        relays: set[asyncio.Task[None]] = set()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            relays.add(cast("asyncio.Task[None]", asyncio.current_task()))
            there_reader, there = await asyncio.open_connection(
                "127.0.0.1", self._broker_port, ssl=self._client, server_hostname="localhost"
            )
            pumps = self._pump(reader, there), self._pump(there_reader, writer, self.change)
            try:
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                for each in (writer, there):
                    each.transport.abort()
                    with suppress(OSError):
                        await each.wait_closed()

        server = await asyncio.start_server(relay, sock=self._listening, ssl=self._server)
        async with server:
            await self._over.wait()
            for each in relays:
                each.cancel()
            await asyncio.wait(relays)

    @staticmethod
    async def _pump(
        one: asyncio.StreamReader,
        other: asyncio.StreamWriter,
        change: Callable[[bytes], bytes] | None = None,
    ) -> None:
        with closing(other):
            while data := await one.read(1 << 16):
                other.write(data if change is None else change(data))
                await other.drain()


def without_plus(data: bytes) -> bytes:
    """As if the broker offered no mechanism that binds: others of as many letters stand there."""
    return data.replace(PLUS.encode(), b"-NONE")


@sockets
@pytest.mark.parametrize("mechanism", [*BOUND_MECHANISMS, *SCRAM_MECHANISMS, "PLAIN"])
def test_our_client_signs_in_by_each(broker: BrokerThread, authority: Authority, mechanism: str) -> None:
    with factory(broker.port, authority, mechanism).create_context() as context:
        context.create_producer().send(Queue("orders"), "a")
        assert used(broker) == [mechanism]


@sockets
def test_our_client_binds_by_itself(broker: BrokerThread, authority: Authority) -> None:
    with factory(broker.port, authority).create_context():
        assert used(broker) == ["SCRAM-SHA-512-PLUS"]
    with TlsPeer(broker.port, ssl.create_default_context(cafile=authority.certificate)) as peer:
        peer.send(sasl("SCRAM-SHA-256", b"n,,n=ann,r=abc")).challenge()
        assert peer.mechanisms() == [*BOUND_MECHANISMS, *SCRAM_MECHANISMS, "PLAIN"], "best first"


@sockets
@pytest.mark.parametrize("mechanism", BOUND_MECHANISMS)
def test_a_wrong_password_is_refused(broker: BrokerThread, authority: Authority, mechanism: str) -> None:
    with pytest.raises(JMSSecurityException):
        factory(broker.port, authority, mechanism, password="Sesame").create_context()
    (refused,) = refusals(broker)
    assert refused.startswith(f"by {mechanism}: ") and refused.endswith(": invalid-proof")


@sockets
@pytest.mark.parametrize("mechanism", [*BOUND_MECHANISMS, None])
def test_a_man_in_the_middle_is_refused(
    broker: BrokerThread, authority: Authority, mechanism: str | None
) -> None:
    named = [] if mechanism is None else [mechanism]
    with ManInTheMiddle(authority.server(), authority, broker.port) as between:
        with pytest.raises(JMSSecurityException, match="another certificate than the one"):
            factory(between.port, authority, *named).create_context()
        (refused,) = refusals(broker)
        assert refused.startswith(f"by {mechanism or BOUND_MECHANISMS[0]}: ")
        assert refused.endswith(": channel-bindings-dont-match")
        with factory(between.port, authority, "SCRAM-SHA-256").create_context():
            assert used(broker) == ["SCRAM-SHA-256"], "without binding nobody would have noticed"


@sockets
def test_a_proxy_with_the_brokers_own_certificate_is_none(
    broker: BrokerThread, authority: Authority, server: Issued
) -> None:
    with (
        ManInTheMiddle(server, authority, broker.port) as between,
        factory(between.port, authority).create_context(),
    ):
        assert used(broker) == [BOUND_MECHANISMS[0]]


@sockets
def test_who_takes_the_offer_away_is_refused(
    broker: BrokerThread, authority: Authority, server: Issued
) -> None:
    with ManInTheMiddle(server, authority, broker.port) as between:
        between.change = without_plus
        with pytest.raises(JMSSecurityException, match="the offer has not come here"):
            factory(between.port, authority).create_context()
        (refused,) = refusals(broker)
        assert refused.startswith("by SCRAM-SHA-512: ")
        assert refused.endswith(": server-does-support-channel-binding")
        with pytest.raises(JMSSecurityException, match="the server offers SASL"):
            factory(between.port, authority, *BOUND_MECHANISMS).create_context()


@sockets
def test_proton_goes_on_to_sign_in(broker: BrokerThread, authority: Authority) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.certificate))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    login = {"user": "ann", "password": PASSWORD, "ssl_domain": domain}
    BlockingConnection(f"amqps://localhost:{broker.port}", timeout=TIMEOUT_S, **login).close()


@sockets
def test_where_it_isnt_offered_nobody_misses_it(authority: Authority, server: Issued) -> None:
    config = config_with(server, {"mechanisms": ["SCRAM-SHA-256", "PLAIN"]})
    with BrokerThread(config) as broker, factory(broker.port, authority).create_context():
        assert used(broker) == ["SCRAM-SHA-256"]


@sockets
@pytest.mark.parametrize(
    ("mechanism", "first", "error"),
    [
        ("SCRAM-SHA-256-PLUS", "p=tls-unique,,n=ann,r=abc", "unsupported-channel-binding-type"),
        ("SCRAM-SHA-256-PLUS", "p=tls-exporter,,n=ann,r=abc", "unsupported-channel-binding-type"),
        ("SCRAM-SHA-256-PLUS", "p=tls-server-end-points,,n=ann,r=abc", "unsupported-channel-binding-type"),
        ("SCRAM-SHA-256-PLUS", "y,,n=ann,r=abc", "server-does-support-channel-binding"),
        ("SCRAM-SHA-256-PLUS", "n,,n=ann,r=abc", "server-does-support-channel-binding"),
        ("SCRAM-SHA-256", "y,,n=ann,r=abc", "server-does-support-channel-binding"),
        ("SCRAM-SHA-256", "p=tls-unique,,n=ann,r=abc", "unsupported-channel-binding-type"),
    ],
)
def test_what_the_first_message_may_not_say(
    broker: BrokerThread, authority: Authority, mechanism: str, first: str, error: str
) -> None:
    with TlsPeer(broker.port, ssl.create_default_context(cafile=authority.certificate)) as peer:
        assert peer.send(sasl(mechanism, first.encode())).challenge() == f"e={error}".encode()
        assert peer.send(sasl_response(b"")).outcome() == SASL_AUTH
    (refused,) = refusals(broker)
    assert refused.startswith(f"by {mechanism}: ") and refused.endswith(f": {error}")


def outcome(peer: TlsPeer, mechanism: str, bound_to: bytes | ssl.SSLSocket) -> tuple[bytes, int]:
    client = ScramClient([mechanism], "ann", PASSWORD, (TLS_SERVER_END_POINT, bound_to))
    return scram_outcome(peer, client)


@sockets
@pytest.mark.parametrize("mechanism", BOUND_MECHANISMS)
def test_another_hash_is_refused(broker: BrokerThread, authority: Authority, mechanism: str) -> None:
    context = ssl.create_default_context(cafile=authority.certificate)
    with TlsPeer(broker.port, context) as peer:
        assert outcome(peer, mechanism, peer.socket) == (b"", SASL_OK)
    with TlsPeer(broker.port, context) as peer:
        assert outcome(peer, mechanism, b"x" * 32) == (b"e=channel-bindings-dont-match", SASL_AUTH)
    assert len(refusals(broker)) == 1


@sockets
def test_over_a_websocket_it_is_offered_too(authority: Authority, server: Issued) -> None:
    config = config_with(server, {"websocket": WebSocketConfig()})
    with BrokerThread(config) as broker:
        plain = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)
        context = ssl.create_default_context(cafile=authority.certificate)
        with context.wrap_socket(plain, server_hostname="localhost"):
            broker.wait_until(lambda b: bool(b.connections))
            (offered,) = broker.call(
                lambda b: [each.engine.options.sasl_mechanisms for each in b.connections]
            )
            assert offered[:2] == list(BOUND_MECHANISMS)


@sockets
@pytest.mark.parametrize(
    ("allowed", "mechanism"),
    [
        (["SCRAM-SHA-256"], "SCRAM-SHA-256-PLUS"),
        (["SCRAM-SHA-256-PLUS"], "SCRAM-SHA-256-PLUS"),
        (["SCRAM-SHA-256-PLUS"], "SCRAM-SHA-256"),
    ],
)
def test_a_rule_demands_binding_or_allows_it(
    authority: Authority, server: Issued, allowed: list[Any], mechanism: str
) -> None:
    rules = [SignInRuleConfig(users=["ann"], mechanisms=allowed), SignInRuleConfig(mechanisms=["PLAIN"])]
    with BrokerThread(config_with(server, sign_in_rule=rules)) as broker:
        if mechanism not in allowed and not mechanism.endswith(PLUS):
            with pytest.raises(JMSSecurityException):
                factory(broker.port, authority, mechanism).create_context()
            return
        with factory(broker.port, authority, mechanism).create_context():
            assert used(broker) == [mechanism]


def test_without_tls_there_is_nothing_to_bind_to() -> None:
    with pytest.raises(ValidationError, match="SCRAM-SHA-256-PLUS without tls_certificate"):
        convert({"listen": [{"mechanisms": ["SCRAM-SHA-256-PLUS"]}]}, Config)
    users = {"ann": tuple(USERS["ann"])}
    assert ListenConfig("10.0.0.1:1").sasl_mechanisms(users) == list(SCRAM_MECHANISMS)
    with pytest.raises(JMSSecurityException, match="only TLS can be bound to"):
        ConnectionFactory("amqp://ann:x@localhost:1?amqp.saslMechanisms=SCRAM-SHA-512-PLUS").create_context()


def test_a_verifier_serves_both() -> None:
    users = {"ann": tuple(USERS["ann"][:1])}
    with pytest.raises(ValidationError, match="no SCRAM-SHA-256 verifier"):
        listen = {"tls_certificate": "c.pem", "mechanisms": ["SCRAM-SHA-256-PLUS"]}
        convert(
            {"listen": [listen], "users": users, "role": [{"name": "administrator", "members": ["ann"]}]},
            Config,
        )
    listening = ListenConfig(tls_certificate="c.pem", anonymous=False)
    assert listening.sasl_mechanisms(users) == ["SCRAM-SHA-512-PLUS", "SCRAM-SHA-512", "PLAIN"]


# By which hash.


def self_signed(folder: Path, key: Any, algorithm: Any, pss: bool = False) -> Issued:
    name = x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=30))
    options = {}
    if pss:
        options["rsa_padding"] = padding.PSS(padding.MGF1(algorithm), padding.PSS.MAX_LENGTH)
    made = builder.sign(key, algorithm, **options)
    file = folder / "cert.pem"
    key_file = folder / "key.pem"
    key_file.touch(0o600)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    file.write_bytes(made.public_bytes(pem))
    return Issued(file, key_file, 1)


@sockets
@pytest.mark.parametrize("kind", ["rsa-sha256", "rsa-sha512", "rsa-pss-sha384", "ec-sha384", "ed25519"])
def test_the_hash_is_that_of_the_certificates_signature(tmp_path: Path, kind: str) -> None:
    rsa_key = rsa.generate_private_key(65537, 2048) if kind.startswith("rsa") else None
    shown = {
        "rsa-sha256": lambda: self_signed(tmp_path, rsa_key, hashes.SHA256()),
        "rsa-sha512": lambda: self_signed(tmp_path, rsa_key, hashes.SHA512()),
        "rsa-pss-sha384": lambda: self_signed(tmp_path, rsa_key, hashes.SHA384(), pss=True),
        "ec-sha384": lambda: self_signed(tmp_path, ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
        "ed25519": lambda: self_signed(tmp_path, ed25519.Ed25519PrivateKey.generate(), None),
    }[kind]()
    context = ssl.create_default_context(cafile=shown.certificate)
    context.check_hostname = False
    with BrokerThread(config_with(shown)) as broker:
        url = f"amqps://ann:{PASSWORD}@localhost:{broker.port}"
        with ConnectionFactory(url, tls=context).create_context():
            assert used(broker) == ["SCRAM-SHA-512" if kind == "ed25519" else "SCRAM-SHA-512-PLUS"]
    listen = ListenConfig(
        tls_certificate=str(shown.certificate), tls_key=str(shown.key), mechanisms=["SCRAM-SHA-256-PLUS"]
    )
    if kind == "ed25519":
        with pytest.raises(StartError, match="its signature has no hash"):
            load_tls(listen)
    else:
        assert load_tls(listen).context.end_point
