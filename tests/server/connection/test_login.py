"""Who may connect: ANONYMOUS, PLAIN, TLS."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from librt.strings import BytesWriter
from proton import ConnectionException, SSLDomain
from proton.utils import BlockingConnection

from postroom.amqp.frames.frames import AMQP_HEADER, SASL_HEADER, write_sasl_frame
from postroom.amqp.frames.sasl import SaslInit, plain_response
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password
from postroom.server.exits import Exit, StartError
from postroom.server.listening.listeners import Listener
from tests.certificates import Certificate
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import OPENING, EnginePeer, RawPeer

pytestmark = pytest.mark.sockets

ANN = {"ann": hash_password("sesame")}
GUESSES = 60
CLOSED_LISTENER = ListenConfig(address="127.0.0.1:0", anonymous=False)


@pytest.fixture(scope="module")
def closed_broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(listen=[CLOSED_LISTENER], users=ANN)) as running:
        yield running


def log_in(broker: BrokerThread, **options: str) -> BlockingConnection:
    return BlockingConnection(broker.url, timeout=15, **options)


def test_the_right_password(closed_broker: BrokerThread) -> None:
    connection = BlockingConnection(
        closed_broker.url, timeout=15, user="ann", password="sesame", allowed_mechs="PLAIN"
    )
    assert closed_broker.call(lambda b: [binding.user for binding in b.connections]) == ["ann"]
    connection.close()


@pytest.mark.parametrize(("user", "password"), [("ann", "Sesame"), ("ann", ""), ("bob", "sesame")])
def test_a_wrong_password_or_user(closed_broker: BrokerThread, user: str, password: str) -> None:
    with pytest.raises(ConnectionException, match="unauthorized"):
        log_in(closed_broker, user=user, password=password, allowed_mechs="PLAIN")


def test_anonymous_is_not_offered(closed_broker: BrokerThread) -> None:
    with pytest.raises(ConnectionException, match="unauthorized"):
        log_in(closed_broker, allowed_mechs="ANONYMOUS")


def test_no_way_around_sasl(closed_broker: BrokerThread) -> None:
    answer = RawPeer(closed_broker.port).send(OPENING).read_to_the_end()
    assert answer[:8] == b"AMQP\x03\x01\x00\x00"
    assert AMQP_HEADER not in answer


def test_a_mechanism_that_is_none(closed_broker: BrokerThread) -> None:
    with pytest.raises(ConnectionException, match="unauthorized"):
        BlockingConnection(
            closed_broker.url, timeout=15, user="ann", password="x", allowed_mechs="SCRAM-SHA-1 PLAIN"
        )


def test_with_or_without_sasl_on_loopback(broker: BrokerThread) -> None:
    log_in(broker, allowed_mechs="ANONYMOUS").close()
    with EnginePeer(broker.port) as peer:
        peer.open()


def test_frames_behind_the_password_are_not_lost(closed_broker: BrokerThread) -> None:
    with EnginePeer(closed_broker.port, sasl_mechanisms=["PLAIN"], username="ann", password="sesame") as peer:
        peer.engine.open()
        peer.engine.begin()
        peer.pump(lambda: peer.engine.peer_open is not None)
        peer.round_trip()


def test_who_guesses_keeps_nobody_waiting(closed_broker: BrokerThread) -> None:
    writer = BytesWriter()
    writer.write(SASL_HEADER)
    write_sasl_frame(writer, SaslInit("PLAIN", plain_response("eve", "wrong")))
    with ExitStack() as guesses:
        for _ in range(GUESSES):
            guesses.enter_context(closing(RawPeer(closed_broker.port).send(writer.getvalue()).socket))
        closed_broker.wait_until(lambda b: len(b.sign_ins.logins) >= GUESSES // 2)
        log_in(closed_broker, user="ann", password="sesame", allowed_mechs="PLAIN").close()
        assert closed_broker.call(lambda b: len(b.sign_ins.logins)) > 0, "guesses wait still"


def test_tls(signed: Certificate) -> None:
    listen = ListenConfig(
        address="127.0.0.1:0",
        tls_certificate=str(signed.certificate),
        tls_key=str(signed.key),
    )
    with BrokerThread(make_config(listen=[listen])) as broker:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(signed.certificate))
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
        connection = BlockingConnection(f"amqps://localhost:{broker.port}", timeout=15, ssl_domain=domain)
        connection.create_sender("over-tls")
        connection.close()
        assert RawPeer(broker.port).send(AMQP_HEADER).read_to_the_end()[:4] != b"AMQP"


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    with pytest.raises(StartError, match="No such file") as caught:
        Listener(ListenConfig(address="127.0.0.1:0", tls_certificate=str(file)))
    assert caught.value.code == Exit.CONFIGURATION
    file.write_text("nonsense")
    with pytest.raises(StartError, match="can't be used"):
        Listener(ListenConfig(address="127.0.0.1:0", tls_certificate=str(file)))
