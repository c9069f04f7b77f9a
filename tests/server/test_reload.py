"""SIGHUP: the configuration is read anew, without a connection that breaks."""

import signal
import ssl
from pathlib import Path

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection, LinkDetached, SendException
from scramp import ScramClient  # type: ignore[import-untyped]

from postroom.amqp.frames.frames import AMQP_HEADER
from postroom.amqp.frames.sasl import SASL_AUTH, SASL_OK, SCRAM_SHA_256_PLUS, TLS_SERVER_END_POINT
from postroom.ledger.reading.acts import read_acts
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from tests.authority import Authority
from tests.certificates import sign
from tests.server.broker_process import Process, begin
from tests.server.tls_peer import TlsPeer, sasl, scram_outcome
from tests.waiting import wait_for

pytestmark = pytest.mark.sockets

USERS = "\n".join(f'{name} = "{hash_password(name, iterations=MIN_ITERATIONS)}"' for name in ("root", "ann"))
BASE = f"""
[users]
{USERS}

[[role]]
name = "administrator"
members = ["root"]
"""
SENDER = """
[[role]]
name = "sender"
members = ["ann"]
grants = ["put, create on orders"]
"""


def reload(broker: Process, file: Path, text: str) -> str:
    """The line of the log that says what has come of it."""
    before = len(broker.log_text())
    file.write_text(text)
    broker.process.send_signal(signal.SIGHUP)
    wait_for(lambda: " reload" in broker.log_text()[before:])
    return next(line for line in broker.log_text()[before:].splitlines() if " reload" in line)


def signed_in(url: str, user: str) -> BlockingConnection:
    return BlockingConnection(url, timeout=15, user=user, password=user, allowed_mechs="PLAIN")


def test_users_and_roles_come_and_go(start: list[Process], tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(BASE)
    broker = begin(start, tmp_path, "--config", str(file), "--listen", "127.0.0.1:0")
    ann = signed_in(url := broker.ready(), "ann")
    with pytest.raises(LinkDetached):
        ann.create_sender("orders")
    assert "changed=role" in reload(broker, file, BASE + SENDER)
    sender = ann.create_sender("orders")
    sender.send(Message(body="a", durable=True))
    line = reload(
        broker,
        file,
        BASE + SENDER + '\n[[queue]]\nname = "made"\n[limits]\nlink_credit = 5\n'
        "[sign_in]\nfailure_delay_ms = 0\n",
    )
    assert "changed=sign_in,queue" in line
    assert "needs_restart=limits" in line
    signed_in(url, "root").create_receiver("made")
    reload(broker, file, BASE)
    with pytest.raises((LinkDetached, SendException)):
        sender.send(Message(body="b", durable=True))
    broker.end()
    acts = [act["status"] for act in read_acts(tmp_path / "data") if act["operation"] == "RELOAD"]
    assert acts == [200, 200, 200]


@pytest.mark.parametrize(
    "defect", ["[users", '[users]\nann = "clear"', "[limits]\nlink_credit = 0", "[nothing]\nx = 1"]
)
def test_a_defective_file_changes_nothing(start: list[Process], tmp_path: Path, defect: str) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(BASE + SENDER)
    broker = begin(start, tmp_path, "--config", str(file), "--listen", "127.0.0.1:0")
    ann = signed_in(broker.ready(), "ann")
    sender = ann.create_sender("orders")
    assert "reload-refused" in reload(broker, file, defect)
    sender.send(Message(body="a", durable=True))
    ann.create_sender("orders", name="another")


def test_a_certificate_is_renewed_and_connections_stay(start: list[Process], tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = map(sign, folders)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    file = tmp_path / "postroom.toml"
    text = f'[[listen]]\naddress = "127.0.0.1:0"\ntls_certificate = "{certificate}"\ntls_key = "{key}"\n'
    file.write_text(text)
    broker = begin(start, tmp_path, "--config", str(file))
    host, port = broker.ready().removeprefix("amqps://").split(":")

    def presented() -> str:
        return ssl.get_server_certificate((host, int(port)))

    before = presented()
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(first.certificate))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    connection = BlockingConnection(f"amqps://{host}:{port}", timeout=15, ssl_domain=domain)
    sender = connection.create_sender("orders")
    certificate.write_bytes(b"nonsense")
    assert "reload-refused" in reload(broker, file, text)
    assert presented() == before
    certificate.write_bytes(second.certificate.read_bytes())
    key.write_bytes(second.key.read_bytes())
    assert "certificates=1" in reload(broker, file, text)
    assert presented() != before
    sender.send(Message(body="a", durable=True))


def test_a_connection_is_bound_to_the_certificate_that_it_has_seen(
    start: list[Process], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    first, second = authority.server(), authority.server()
    certificate, key, file = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "postroom.toml"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    listen = f'''
[[listen]]
address = "127.0.0.1:0"
anonymous = false
tls_certificate = "{certificate}"
tls_key = "{key}"
'''
    file.write_text(text := BASE + listen)
    broker = begin(start, tmp_path, "--config", str(file))
    port = int(broker.ready().rpartition(":")[2])
    context = ssl.create_default_context(cafile=authority.certificate)

    def outcome(peer: TlsPeer, seen: ssl.SSLSocket) -> int:
        client = ScramClient([SCRAM_SHA_256_PLUS], "root", "root", (TLS_SERVER_END_POINT, seen))
        return scram_outcome(peer, client)[1]

    with TlsPeer(port, context) as waits, TlsPeer(port, context) as lies:
        certificate.write_bytes(second.certificate.read_bytes())
        key.write_bytes(second.key.read_bytes())
        assert "certificates=1" in reload(broker, file, text)
        with TlsPeer(port, context) as renewed:
            assert renewed.socket.getpeercert(True) != waits.socket.getpeercert(True)
            assert outcome(renewed, renewed.socket) == SASL_OK
            assert outcome(lies, renewed.socket) == SASL_AUTH
        assert outcome(waits, waits.socket) == SASL_OK


def test_a_revoked_certificate_is_refused_and_connections_stay(start: list[Process], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    server, ann, bob = authority.server(), authority.issue("ann"), authority.issue("bob")
    lists, file = authority.revoke(tmp_path / "crl.pem"), tmp_path / "postroom.toml"
    text = f"""
[[listen]]
address = "127.0.0.1:0"
tls_certificate = "{server.certificate}"
tls_key = "{server.key}"
tls_client_ca = "{authority.certificate}"
tls_revocation_list = "{lists}"
"""
    file.write_text(text)
    broker = begin(start, tmp_path, "--config", str(file))
    port = int(broker.ready().rpartition(":")[2])
    refused = (ssl.SSLError, ConnectionResetError, AssertionError)

    def outcome(shown: ssl.SSLContext, session: ssl.SSLSession | None = None) -> int:
        with TlsPeer(port, shown, session) as peer:
            return peer.send(sasl("ANONYMOUS", b"")).outcome()

    context = ann.context(authority)
    with TlsPeer(port, context) as stays:
        assert stays.send(sasl("ANONYMOUS", b"")).outcome() == 0
        lists.write_bytes(b"nonsense")
        assert "reload-refused" in reload(broker, file, text)
        assert outcome(context, stays.session()) == 0
        authority.revoke(lists, ann)
        assert "certificates=1" in reload(broker, file, text)
        for session in (None, stays.session()):
            with pytest.raises(refused):
                outcome(context, session)
        assert "handshake-refused" in broker.log_text()
        assert outcome(bob.context(authority)) == 0
        assert stays.send(AMQP_HEADER).more().startswith(AMQP_HEADER), "who is in stays in"
    line = reload(broker, file, text + 'tls_client_certificate = "request"\n')
    assert "needs_restart=listen" in line and "certificates=0" in line
    broker.end()
    acts = [act for act in read_acts(tmp_path / "data") if act["type"] == "listener"]
    assert sum(act.get("count", 1) for act in acts) == 2
    for act in acts:
        assert act["remote"].startswith("127.0.0.1:") and act["name"] == "127.0.0.1:0"
        assert act["status"] == 401 and act["description"].endswith("certificate revoked")


def test_the_certificate_of_http_is_renewed(start: list[Process], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    first, second = authority.server(), authority.server()
    certificate, key, file = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "postroom.toml"
    certificate.write_bytes(first.certificate.read_bytes())
    key.write_bytes(first.key.read_bytes())
    text = f"""
[[listen]]
address = "127.0.0.1:0"
[http]
address = "127.0.0.1:0"
tls_certificate = "{certificate}"
tls_key = "{key}"
"""
    file.write_text(text)
    broker = begin(start, tmp_path, "--config", str(file))
    broker.ready()
    assert broker.process.stdout is not None
    host, _, port = broker.process.stdout.readline().strip().removeprefix("serving https://").partition(":")
    assert ssl.get_server_certificate((host, int(port))) == first.certificate.read_text()
    certificate.write_bytes(second.certificate.read_bytes())
    key.write_bytes(second.key.read_bytes())
    assert "certificates=1" in reload(broker, file, text)
    assert ssl.get_server_certificate((host, int(port))) == second.certificate.read_text()


def test_limits_come_and_go(start: list[Process], tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    listen = '[[listen]]\naddress = "127.0.0.1:0"\nmax_connections = 2\n'
    of_user = '[[user_limit]]\nuser = "root"\nmax_connections = 1\n'
    file.write_text(text := listen + BASE + of_user)
    broker = begin(start, tmp_path, "--config", str(file))
    first = signed_in(url := broker.ready(), "root")
    with pytest.raises(ConnectionException, match=r"user 'root' has 1 connections of 1 \(max_connections\)"):
        signed_in(url, "root")
    line = reload(broker, file, text.replace("max_connections = 1", "max_connections = 0"))
    assert "changed=user_limit" in line and "needs_restart=nothing" in line
    second = signed_in(url, "root")
    with pytest.raises(ConnectionException, match=r"has 2 connections of 2 \(max_connections\)"):
        signed_in(url, "ann")
    assert "needs_restart=nothing" in reload(broker, file, text.replace("connections = 2", "connections = 3"))
    signed_in(url, "ann").close()
    with pytest.raises(ConnectionException, match=r"user 'root' has 2 connections of 1"):
        signed_in(url, "root")
    first.create_sender("orders").send(Message(body="who is in stays in"))
    second.close()


def test_sign_in_rules_and_certificate_users_come_and_go(start: list[Process], tmp_path: Path) -> None:
    file = tmp_path / "postroom.toml"
    file.write_text(BASE + SENDER)
    broker = begin(start, tmp_path, "--config", str(file), "--listen", "127.0.0.1:0")
    ann = signed_in(url := broker.ready(), "ann")
    rule = "\n[[sign_in_rule]]\nmechanisms = "
    closed = f'{rule}[]\nusers = ["ann"]\n{rule}["PLAIN"]\n'
    assert "changed=sign_in_rule" in reload(broker, file, BASE + SENDER + closed)
    with pytest.raises(ConnectionException, match="unauthorized"):
        signed_in(url, "ann")
    signed_in(url, "root")
    ann.create_sender("orders")
    reload(broker, file, BASE + SENDER)
    signed_in(url, "ann")
