"""TLS of listeners: what is spoken, whose client certificates are taken, and files that can't be."""

import os
import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from postroom.amqp.frames.frames import SASL_HEADER
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.websocket import WebSocketConfig
from postroom.server.connection.broker import Broker
from postroom.server.exits import Exit, StartError
from postroom.server.listening.tls import load_tls
from tests.authority import DAY, Authority, Issued
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

TIMEOUT_S = 15


def listen_with(server: Issued, **changes: Any) -> ListenConfig:
    files = {"tls_certificate": str(server.certificate), "tls_key": str(server.key)}
    texts = {key: str(value) if isinstance(value, Path) else value for key, value in changes.items()}
    return ListenConfig("127.0.0.1:0", anonymous=True, **files, **texts)


def greeting(port: int, context: ssl.SSLContext) -> tuple[bytes, str]:
    """The broker's answer to a SASL header, and the TLS cipher; raises OSError where it lets nobody in."""
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(SASL_HEADER)
        answer = wrapped.recv(8)
        if not answer:
            raise ConnectionResetError
        cipher = wrapped.cipher()
        assert cipher is not None
        return answer, cipher[0]


def refused(broker: BrokerThread, count: int) -> dict[str, int]:
    """What is recorded of refused handshakes once there are ``count``, and how often."""

    def counted(of: Broker) -> dict[str, int]:
        return {act.description: act.count + 1 for act in of.access.acts._counted.values()}

    broker.wait_until(lambda of: sum(counted(of).values()) >= count)
    return broker.call(counted)


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_modern_tls_is_spoken(authority: Authority, server: Issued, version: ssl.TLSVersion) -> None:
    client = trusting(authority)
    client.minimum_version = client.maximum_version = version
    with BrokerThread(make_config(listen=[listen_with(server)])) as broker:
        assert greeting(broker.port, client)[0] == SASL_HEADER


def _tls_1_1(context: ssl.SSLContext) -> None:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")


def _cbc(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AES:!AESGCM:!AESCCM")


def _no_forward_secrecy(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("kRSA+AESGCM")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize(
    ("weaken", "why"),
    [
        (_tls_1_1, "by TLS: its TLS is too old: 1.2 or 1.3 is spoken here"),
        (_cbc, "by TLS: it has none of the ciphers that are spoken here"),
        (_no_forward_secrecy, "by TLS: it has none of the ciphers that are spoken here"),
    ],
)
def test_a_downgrade_is_refused(
    authority: Authority, server: Issued, weaken: Callable[[ssl.SSLContext], None], why: str
) -> None:
    client = trusting(authority)
    weaken(client)
    with BrokerThread(make_config(listen=[listen_with(server)])) as broker:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            greeting(broker.port, client)
        assert greeting(broker.port, trusting(authority))[0] == SASL_HEADER
        assert refused(broker, 1) == {why: 1}


@pytest.mark.parametrize("websocket", [None, WebSocketConfig()])
def test_only_good_client_certificates_get_in(
    authority: Authority, server: Issued, tmp_path: Path, websocket: WebSocketConfig | None
) -> None:
    good, revoked, expired = authority.issue("ann"), authority.issue("bob"), authority.issue("eve", left=-DAY)
    foreign = Authority(tmp_path / "other").issue("ann")
    lists = authority.revoke(tmp_path / "crl.pem", revoked)
    client_files = {"tls_client_ca": authority.certificate, "tls_revocation_list": lists}
    listen = listen_with(server, websocket=websocket, **client_files)

    def tls(port: int, context: ssl.SSLContext) -> None:
        if websocket is None:
            greeting(port, context)
            return
        with (
            socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as wrapped,
        ):
            wrapped.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if not wrapped.recv(100).startswith(b"HTTP/1.1 4"):
                raise ConnectionResetError

    with BrokerThread(make_config(listen=[listen])) as broker:
        tls(broker.port, good.context(authority))
        for bad in (revoked, expired, foreign):
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                tls(broker.port, bad.context(authority))
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            tls(broker.port, trusting(authority))
        assert refused(broker, 4) == {
            "by TLS: client certificate: certificate revoked": 1,
            "by TLS: client certificate: certificate has expired": 1,
            "by TLS: client certificate: certificate signature failure": 1,
            "by TLS: no client certificate was shown": 1,
        }


def test_a_flood_of_refused_handshakes_is_counted(authority: Authority, server: Issued) -> None:
    with BrokerThread(make_config(listen=[listen_with(server)])) as broker:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as plain:
                plain.sendall(SASL_HEADER)
                while plain.recv(100):
                    pass
        assert refused(broker, 20) == {"by TLS: it speaks no TLS": 20}
        recorded = broker.call(lambda b: list(b.access.acts._counted.values()))
        assert [(act.remote.partition(":")[0], act.type, act.name, act.status) for act in recorded] == [
            ("127.0.0.1", "listener", "127.0.0.1:0", 401)
        ], "one record until the window is over"


def test_who_goes_away_is_not_refused(authority: Authority, server: Issued) -> None:
    with BrokerThread(make_config(listen=[listen_with(server)])) as broker:
        with pytest.raises(ssl.SSLCertVerificationError):  # it is the client who refuses
            greeting(broker.port, ssl.create_default_context())
        socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S).close()
        with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.recv(100)
        assert refused(broker, 1) == {"by TLS: it speaks HTTP without TLS": 1}


def test_a_certificate_that_is_only_requested(authority: Authority, server: Issued, tmp_path: Path) -> None:
    foreign = Authority(tmp_path / "other").issue("ann")
    listen = listen_with(server, tls_client_ca=authority.certificate, tls_client_certificate="request")
    with BrokerThread(make_config(listen=[listen])) as broker:
        assert greeting(broker.port, trusting(authority))[0] == SASL_HEADER
        assert greeting(broker.port, authority.issue("ann").context(authority))[0] == SASL_HEADER
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            greeting(broker.port, foreign.context(authority))


def test_files_that_cant_be_used(authority: Authority, server: Issued, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "other authority")
    both = tmp_path / "both.pem"
    both.write_bytes(authority.certificate.read_bytes() + other.certificate.read_bytes())
    lists = authority.revoke(tmp_path / "crl.pem")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(lists.read_bytes() + other.certificate.read_bytes())
    absent, none = tmp_path / "absent.pem", tmp_path / "none.pem"
    none.write_text("nonsense")
    forged = tmp_path / "forged.pem"
    Authority(tmp_path / "forger").revoke(forged)
    ca = {"tls_client_ca": authority.certificate}
    for changes, what in (
        ({"tls_client_ca": absent}, "authorities .*absent.pem can't be used: No such file"),
        ({"tls_client_ca": none}, "no certificates in PEM"),
        ({"tls_client_ca": lists}, "no certificates in PEM"),
        ({**ca, "tls_revocation_list": absent}, "revocation list .*absent.pem can't be used: No such file"),
        ({**ca, "tls_revocation_list": none}, "nothing else"),
        ({**ca, "tls_revocation_list": mixed}, "nothing else"),
        ({**ca, "tls_revocation_list": forged}, "no list signed by CN=test authority"),
        ({"tls_client_ca": both, "tls_revocation_list": lists}, "no list signed by CN=other authority"),
    ):
        with pytest.raises(StartError, match=what) as caught:
            load_tls(listen_with(server, **changes))
        assert caught.value.code == Exit.CONFIGURATION


@pytest.mark.parametrize(
    ("mode", "event"),
    [(0o600, ""), (0o400, ""), (0o640, "file-open"), (0o644, "file-open"), (0o660, "refused")],
)
def test_who_may_read_the_key(
    authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture, mode: int, event: str
) -> None:
    server.key.chmod(mode)
    try:
        if event == "refused":
            with pytest.raises(StartError, match="can be written by others"):
                load_tls(listen_with(server))
            return
        load_tls(listen_with(server))
        assert [record.message for record in caplog.records] == (["file-open-to-others"] if event else [])
    finally:
        server.key.chmod(0o600)


def test_a_key_that_its_group_reads_may_be_roots(
    authority: Authority, server: Issued, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = server.key.stat().st_uid
    if owner == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    else:
        monkeypatch.setattr("postroom.server.configuration.file_modes.ROOT", owner)
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    server.key.chmod(0o640)
    try:
        load_tls(listen_with(server))
        assert not caplog.records
    finally:
        server.key.chmod(0o600)


@pytest.mark.parametrize(
    ("left", "event"), [(13 * DAY, "certificate-ends"), (-DAY, "certificate-ended"), (15 * DAY, "")]
)
def test_a_certificate_that_ends(
    authority: Authority, caplog: pytest.LogCaptureFixture, left: timedelta, event: str
) -> None:
    load_tls(listen_with(authority.server(left)))
    assert [record.message for record in caplog.records] == ([event] if event else [])


def test_a_revocation_list_that_has_ended(
    authority: Authority, server: Issued, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lists = authority.revoke(tmp_path / "crl.pem", left=-DAY)
    ca = authority.certificate
    load_tls(listen_with(server, tls_client_ca=ca, tls_revocation_list=lists))
    assert [record.message for record in caplog.records] == ["revocation-list-ended"]


def test_an_encrypted_key_asks_nobody(authority: Authority, server: Issued, tmp_path: Path) -> None:
    encrypted = tmp_path / "key.pem"
    encrypted.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(StartError, match="can't be used"):
        load_tls(listen_with(Issued(server.certificate, encrypted, 0)))
