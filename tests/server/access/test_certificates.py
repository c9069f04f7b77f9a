"""SASL EXTERNAL: users who sign in by their certificates, with real clients, and who tries to be another."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError, convert
from proton import ConnectionException, SSLDomain
from proton.utils import BlockingConnection

from postroom.amqp.frames.sasl import EXTERNAL, PLAIN, plain_response
from postroom.client import ConnectionFactory, ConnectionLostException, Queue, TlsOptions
from postroom.manager.security.principal_definition import USER, PrincipalDefinition
from postroom.manager.security.principals import Principals
from postroom.server.access.sign_in_policy import Arrival, ClientCertificate, SignInPolicy
from postroom.server.configuration.config import Config
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from postroom.server.configuration.sign_in import CertificateUserConfig
from tests.authority import Authority, Issued
from tests.server.harness import BrokerThread, make_config
from tests.server.tls_peer import TlsPeer, sasl

sockets = pytest.mark.sockets
USERS = {"ann": [], "bob": hash_password("sesame", iterations=MIN_ITERATIONS)}
ROLES = [RoleConfig(name="administrator", members=["ann", "bob"])]


def config_with(authority: Authority, server: Issued, listen: dict[str, Any], **changes: Any) -> Config:
    files = {"tls_certificate": str(server.certificate), "tls_key": str(server.key)}
    table = ListenConfig("127.0.0.1:0", tls_client_ca=str(authority.certificate), **files, **listen)
    return make_config(**{"listen": [table], "users": USERS, "role": ROLES, **changes})


@pytest.fixture(scope="module")
def broker(authority: Authority, server: Issued) -> Iterator[BrokerThread]:
    with BrokerThread(config_with(authority, server, {"anonymous": False})) as running:
        yield running


def users(broker: BrokerThread) -> list[str]:
    return broker.call(lambda b: [binding.user for binding in b.connections])


def refusals(broker: BrokerThread) -> list[tuple[str, str]]:
    """Users and descriptions of failed sign-ins, and forget them."""

    def take(of: Any) -> list[tuple[str, str]]:
        counted = of.access.acts._counted
        found = [(act.user, act.description) for act in counted.values()]
        counted.clear()
        return found

    return broker.call(take)


def proton(broker: BrokerThread, authority: Authority, shown: Issued, **options: Any) -> BlockingConnection:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.certificate))
    domain.set_credentials(str(shown.certificate), str(shown.key), None)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    return BlockingConnection(f"amqps://localhost:{broker.port}", timeout=15, ssl_domain=domain, **options)


@sockets
def test_proton_signs_in_by_certificate(broker: BrokerThread, authority: Authority) -> None:
    connection = proton(broker, authority, authority.issue("ann"), allowed_mechs="EXTERNAL")
    connection.create_sender("orders")
    assert users(broker) == ["ann"]
    connection.close()


@sockets
def test_our_client_signs_in_by_certificate(broker: BrokerThread, authority: Authority) -> None:
    shown = authority.issue("ann")
    tls = TlsOptions(ca_file=authority.certificate, certificate_file=shown.certificate, key_file=shown.key)
    for factory in (
        ConnectionFactory(f"amqps://localhost:{broker.port}", tls=tls),
        ConnectionFactory(
            f"amqps://localhost:{broker.port}?amqp.saslMechanisms=EXTERNAL", tls=shown.context(authority)
        ),
    ):
        with factory.create_context() as context:
            context.create_producer().send(Queue("orders"), "a")
            assert "ann" in users(broker)


@sockets
def test_a_user_with_a_password_beside(broker: BrokerThread, authority: Authority) -> None:
    shown = authority.issue("ann")
    connection = proton(broker, authority, shown, user="bob", password="sesame", allowed_mechs="PLAIN")
    assert users(broker) == ["bob"]
    connection.close()


@sockets
@pytest.mark.parametrize(("name", "user"), [("eve", "eve"), ("administrator", "administrator"), ("\n", "\n")])
def test_a_certificate_that_is_no_users(
    broker: BrokerThread, authority: Authority, name: str, user: str
) -> None:
    with pytest.raises(ConnectionException, match="unauthorized"):
        proton(broker, authority, authority.issue(name), allowed_mechs="EXTERNAL")
    (refused,) = refusals(broker)
    assert refused[0] == user
    assert "by EXTERNAL: certificate CN=" in refused[1] and "no such user, or it is locked" in refused[1]


@sockets
def test_a_locked_user(broker: BrokerThread, authority: Authority) -> None:
    locked = PrincipalDefinition("sid", USER, locked=True)
    broker.turn(lambda b, now_us: b.manager.security.define(locked, now_us))
    with pytest.raises(ConnectionException, match="unauthorized"):
        proton(broker, authority, authority.issue("sid"), allowed_mechs="EXTERNAL")
    assert [user for user, _ in refusals(broker)] == ["sid"]


@sockets
def test_a_certificate_of_another_authority(
    broker: BrokerThread, authority: Authority, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path).issue("ann")
    own = {"certificate_file": foreign.certificate, "key_file": foreign.key}
    tls = TlsOptions(ca_file=authority.certificate, **own)
    with pytest.raises(ConnectionLostException):
        ConnectionFactory(f"amqps://localhost:{broker.port}", tls=tls).create_context()
    while not (found := refusals(broker)):
        pass  # the client may have heard of it before it was recorded
    ((user, description),) = found
    assert user == ""
    assert description.startswith("by TLS: client certificate: ")


@sockets
def test_an_authorization_id_is_ones_own(broker: BrokerThread, authority: Authority) -> None:
    context = authority.issue("ann").context(authority)
    for acting_as, refused in ((b"", False), (b"ann", False), (b"bob", True), (b"\xff", True), (b"an", True)):
        peer = TlsPeer(broker.port, context)
        outcome = peer.send(sasl(EXTERNAL, acting_as)).outcome()
        assert outcome == (1 if refused else 0), acting_as
        found = refusals(broker)
        assert [user for user, _ in found] == (["ann"] if refused else [])
        peer.close()


@sockets
def test_without_a_certificate_there_is_no_external(authority: Authority, server: Issued) -> None:
    config = config_with(authority, server, {"tls_client_certificate": "request", "anonymous": False})
    with BrokerThread(config) as broker:
        bare = TlsPeer(broker.port, ssl.create_default_context(cafile=authority.certificate))
        bare.send(sasl(EXTERNAL, b"ann"))
        assert bare.outcome() == 1
        assert EXTERNAL not in bare.mechanisms() and PLAIN in bare.mechanisms()
        bare.close()
        shown = TlsPeer(broker.port, authority.issue("ann").context(authority)).send(sasl(EXTERNAL, b""))
        assert shown.outcome() == 0
        assert shown.mechanisms()[0] == EXTERNAL, "it is the best"
        shown.close()


@sockets
def test_a_listener_for_certificates_takes_no_passwords(authority: Authority, server: Issued) -> None:
    listen = {"mechanisms": ["EXTERNAL"], "anonymous": False}
    with BrokerThread(config_with(authority, server, listen)) as broker:
        peer = TlsPeer(broker.port, authority.issue("ann").context(authority))
        assert peer.send(sasl(PLAIN, plain_response("bob", "sesame"))).outcome() == 1
        assert peer.mechanisms() == [EXTERNAL]
        peer.close()


@sockets
def test_names_of_certificates_map_to_users(authority: Authority, server: Issued) -> None:
    table = [
        CertificateUserConfig(field="subject", pattern="CN=root,OU=Tellers", user="eve"),
        CertificateUserConfig(field="subject", pattern=r"/CN=([^,]*),OU=Shop/", user=r"\1"),
        CertificateUserConfig(field="dns", pattern=r"/(\w+)\.shop\.example/", user=r"\1"),
        CertificateUserConfig(field="email", pattern="bob@shop.example", user="bob"),
        CertificateUserConfig(field="uri", pattern="spiffe://shop/ann", user="ann"),
    ]
    config = config_with(authority, server, {"anonymous": False}, certificate_user=table)
    shop = [x509.DNSName("elsewhere.example"), x509.DNSName("ann.shop.example")]
    shown = [
        (authority.issue("ann", unit="Shop"), "ann"),
        (authority.issue("x", shop), "ann"),
        (authority.issue("x", [x509.RFC822Name("bob@shop.example")]), "bob"),
        (authority.issue("x", [x509.UniformResourceIdentifier("spiffe://shop/ann")]), "ann"),
        (authority.issue("ann"), None),
        (authority.issue("ann", unit="Shop,OU=Shop"), None),
        (authority.issue("x", [x509.DNSName("ann.shop.example.evil.example")]), None),
        (authority.issue("root", unit="Tellers"), None),
    ]
    with BrokerThread(config) as broker:
        for certificate, user in shown:
            peer = TlsPeer(broker.port, certificate.context(authority)).send(sasl(EXTERNAL, b""))
            assert peer.outcome() == (1 if user is None else 0)
            assert users(broker)[-1:] == [user or "anonymous"]
            peer.close()


# Without sockets.


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"field": "dns", "pattern": "/(/", "user": "a"}, "no regular expression"),
        ({"field": "dns", "pattern": "/a/", "user": r"\1"}, "no group"),
        ({"field": "dns", "pattern": "(a)", "user": r"\1"}, "no group"),
        ({"field": "name", "pattern": "a", "user": "a"}, "Invalid enum value"),
        ({"field": "dns", "pattern": "a", "user": ""}, "length"),
    ],
)
def test_tables_that_cant_be(table: dict[str, str], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        convert({"certificate_user": [table]}, Config)


@pytest.mark.parametrize(
    ("listen", "what"),
    [
        ({"mechanisms": ["EXTERNAL"]}, "EXTERNAL without tls_client_ca"),
        ({"tls_client_ca": "ca.pem"}, "without tls_certificate"),
        ({"tls_certificate": "c.pem", "tls_revocation_list": "r.pem"}, "without tls_client_ca"),
        ({"tls_certificate": "c.pem", "tls_client_certificate": "request"}, "without tls_client_ca"),
    ],
)
def test_listeners_that_cant_be(listen: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        convert({"listen": [listen]}, Config)


def test_a_user_without_a_password_needs_a_listener_for_certificates() -> None:
    who = {"users": {"ann": []}, "role": [{"name": "administrator", "members": ["ann"]}]}
    files = {"tls_certificate": "c.pem", "tls_client_ca": "ca.pem"}
    with pytest.raises(ValidationError, match="have a listener take certificates"):
        convert(who, Config)
    with pytest.raises(ValidationError, match="have a listener take certificates"):
        convert({**who, "listen": [{**files, "mechanisms": ["PLAIN"]}]}, Config)
    assert convert({**who, "listen": [files]}, Config).listen[0].sasl_mechanisms({"ann": ()})[0] == EXTERNAL


@given(st.text(), st.text(min_size=1))
def test_an_exact_pattern_is_its_value_alone(value: str, pattern: str) -> None:
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "/":
        return
    config = Config(certificate_user=[CertificateUserConfig(field="uri", pattern=pattern, user="ann")])
    principals = Principals()
    principals.configure([PrincipalDefinition("ann")], {})
    policy = SignInPolicy(principals)
    policy.configure(config)
    certificate = ClientCertificate("CN=x", {"uri": (value,)}, end_us=2)
    user, refusal = policy.holder(Arrival("a:1", "l", certificate), b"", 1)
    assert (user == "ann" and not refusal) == (value == pattern)
    assert policy.holder(Arrival("a:1", "l", certificate), b"", 2)[1], "it has ended by then"
