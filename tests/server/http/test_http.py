"""The broker over HTTP, on real sockets: who may read what, what is answered, and what is refused."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from msgspec import ValidationError, convert
from proton import Message
from proton.utils import BlockingConnection
from uvicorn.server import ServerState

from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import SegmentReader
from postroom.ledger.storage.events_image import decode_image
from postroom.server.configuration.config import Config
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.http_server import BoundedConfig, BoundedConnection
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token, remove_token
from postroom.server.listening.listeners import Listener
from postroom.spark.places.http_client import CertificateUnusable, HttpClient
from tests.authority import Authority, Issued
from tests.certificates import sign
from tests.server.http_client import Served, get, serving

pytestmark = pytest.mark.sockets

SECRET_BODY = b"nobody reads this over HTTP" * 10


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http") / "data", queues=("orders",)) as running:
        send(running, 20)
        yield running


def send(served: Served, count: int, first: int = 0) -> None:
    """Durable messages to the queue "orders", each with an id."""
    connection = BlockingConnection(served.broker.url, timeout=15)
    sender = connection.create_sender("orders")
    for number in range(first, first + count):
        sender.send(Message(id=f"id-{number}", body=SECRET_BODY, durable=True))
    connection.close()


def image_of(body: bytes, number: int) -> SegmentReader:
    return SegmentReader(decode_image(memoryview(body), "answer", number))


# --- the ledger -----------------------------------------------------------------------------------


def test_the_look_says_what_a_reader_of_the_folder_sees(served: Served) -> None:
    record = served.get("/ledger").json()
    seen = LedgerReader(served.folder, beyond_durable=True)
    assert record["ledger_id"] == str(seen.ledger_id)
    assert [each["number"] for each in record["segments"]] == [each.number for each in seen.segments]
    assert record["epoch_id"] == seen.segments[-1].epoch_id.hex()
    assert 20 < record["durable_through"] == record["segments"][-1]["last_position"]


def test_records_of_the_journal_are_those_of_the_folder_without_bodies(served: Served) -> None:
    end = served.get("/ledger").json()["durable_through"]
    answer = served.get(f"/ledger/records?first=1&last={end}")
    assert answer.status == 200 and answer.headers["postroom-last"] == str(end)
    assert SECRET_BODY[:20] not in answer.body
    got = image_of(answer.body, 1)
    seen = LedgerReader(served.folder)
    expected = [row for rows in seen.rows(1, end) for row in rows["position"].tolist()]
    assert sorted(expected) == sorted([*got.image.arrivals["position"].tolist(), *rows_of_entries(got)])
    ids = [
        bytes(got.image.names[at : at + length])
        for at, length in zip(
            got.image.arrivals["message_id_offset"], got.image.arrivals["message_id_len"], strict=True
        )
    ]
    assert ids == [f"id-{number}".encode() for number in range(20)]
    assert "orders" in got.definitions(end).queue_names.values()


def rows_of_entries(reader: SegmentReader) -> list[int]:
    own = reader.image.own_transitions()
    return [int(each) for each in own["position"][own["type"] == 1]]


@pytest.mark.parametrize("first", [2, 7, 15, 22])
def test_a_range_has_the_definitions_that_it_speaks_of(served: Served, first: int) -> None:
    end = int(served.get("/ledger").json()["durable_through"])
    got = image_of(served.get(f"/ledger/records?first={first}&last={end}").body, 1)
    assert got.image.first_position == first and got.image.last_position == end
    whole = image_of(served.get(f"/ledger/records?first=1&last={end}").body, 1)
    expected = whole.definitions(end)
    found = got.definitions(end)
    arrivals = got.image.arrivals
    for queue in set(arrivals["routing_set"].tolist()):
        assert found.queue_names[queue] == expected.queue_names[queue]
    for producer in set(arrivals["producer"].tolist()):
        assert found.producer_names[producer] == expected.producer_names[producer]
    assert len(got.definitions(first - 1).queue_names) >= (1 if first > 2 else 0)


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("", 400, "bad-position"),
        ("first=0&last=1", 400, "bad-position"),
        ("first=1", 400, "bad-position"),
        ("first=x&last=1", 400, "bad-position"),
        ("first=-1&last=1", 400, "bad-position"),
        ("first=٣&last=4", 400, "bad-position"),
        (f"first=1&last={1 << 63}", 400, "bad-position"),
        ("first=" + "9" * 5000 + "&last=1", 400, "bad-position"),
        ("first=" + "0" * 19 + "1" + "9" * 4400 + "&last=1", 400, "bad-position"),
        ("first=2&last=1", 400, "bad-range"),
        (f"first={1 << 40}&last={1 << 41}", 416, "not-yet"),
    ],
)
def test_positions_that_are_none(served: Served, query: str, status: int, error: str) -> None:
    from urllib.parse import quote

    answer = served.get("/ledger/records?" + quote(query, safe="=&-"))
    assert (answer.status, answer.json()["error"]) == (status, error)


def test_an_answer_has_bounded_records_and_says_how_far_it_goes(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", max_records_bytes=64 << 10)
    with serving(tmp_path / "data", config, queues=("orders",)) as small:
        send(small, 400)
        end = int(small.get("/ledger").json()["durable_through"])
        first, answers = 1, 0
        while first <= end:
            answer = small.get(f"/ledger/records?first={first}&last={end}")
            assert len(answer.body) <= 64 << 10
            first, answers = int(answer.headers["postroom-last"]) + 1, answers + 1
        assert answers > 1


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two runs of a broker: the first file is sealed."""
    with serving(tmp_path_factory.mktemp("sealed") / "first", queues=("orders",)) as running:
        send(running, 10)
        folder = running.folder
    (folder / TOKENS_NAME).unlink()
    with serving(folder, queues=("orders",)) as running:
        send(running, 5, 10)
        yield running


def test_a_sealed_file_whole_and_in_ranges(with_sealed: Served) -> None:
    content = (with_sealed.folder / "00000001.events").read_bytes()
    path = "/ledger/files/00000001.events"
    whole = with_sealed.get(path)
    assert (whole.status, whole.body) == (200, content)
    part = with_sealed.get(path, range="bytes=10-99")
    assert (part.status, part.body) == (206, content[10:100])
    assert part.headers["content-range"] == f"bytes 10-99/{len(content)}"
    assert with_sealed.get(path, range="bytes=-7").body == content[-7:]
    assert with_sealed.get(path, range="bytes=5-").body == content[5:]
    assert with_sealed.get(path, range="bytes=9-5").body == content  # no range: ignored
    assert with_sealed.get(path, range="lines=1-2").status == 200
    beyond = with_sealed.get(path, range=f"bytes={len(content)}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(content)}")


def test_a_range_of_another_content_is_not_mixed_in(with_sealed: Served) -> None:
    path = "/ledger/files/00000001.events"
    tag = with_sealed.get(path).headers["etag"]
    assert with_sealed.get(path, range="bytes=0-9", if_range=tag).status == 206
    assert with_sealed.get(path, range="bytes=0-9", if_range='"other"').status == 200


def test_records_of_a_sealed_file_too(with_sealed: Served) -> None:
    record = with_sealed.get("/ledger").json()
    sealed, journal = record["segments"]
    assert sealed["is_sealed"] and not journal["is_sealed"] and sealed["epoch_id"] != journal["epoch_id"]
    assert sealed["seal"]["position"] == sealed["last_position"]
    answer = with_sealed.get(f"/ledger/records?first=3&last={record['durable_through']}")
    assert answer.headers["postroom-last"] == str(sealed["last_position"])  # one file at a time
    assert image_of(answer.body, 1).image.epoch_id.hex() == sealed["epoch_id"]


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        ("00000001.bodies", 403, "has-bodies"),
        ("00000002.journal", 403, "has-bodies"),
        ("00000001-00000002.0001.packed", 403, "has-bodies"),
        ("00000009.events", 404, "no-such-file"),
        ("http-tokens.json", 404, "no-such-file"),
        ("lock", 404, "no-such-file"),
        ("..%2F..%2Fetc%2Fpasswd", 404, "not-found"),
        ("%2e%2e", 404, "no-such-file"),
        ("00000001.events%00", 404, "no-such-file"),
        ("00000001.events%0a", 404, "no-such-file"),
    ],
)
def test_names_that_are_not_served(with_sealed: Served, name: str, status: int, error: str) -> None:
    answer = with_sealed.get(f"/ledger/files/{name}")
    assert (answer.status, answer.json()["error"]) == (status, error)
    assert SECRET_BODY[:20] not in answer.body


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/ledger", "/ledger/files/00000001.events", "/ledger/records?first=1&last=2"]
)
def test_the_ledger_needs_a_token_with_its_right(served: Served, path: str) -> None:
    nobody = served.get(path, token="")
    assert nobody.status == 401 and nobody.headers["www-authenticate"].startswith("Bearer")
    id, _, secret = served.token.partition(".")
    for wrong in ("x", f"{id}.", f"{id}.{secret}x", f"x.{secret}", f".{secret}", "a" * 9000):
        assert served.get(path, token=wrong).status == 401
    other = served.get(path, token=served.metrics_token)
    assert (other.status, other.json()["right"]) == (403, "ledger")


def test_a_token_ends_when_it_is_removed_and_when_its_time_is_over(served: Served) -> None:
    file = served.folder / TOKENS_NAME
    made = add_token(file, "for a while", [Right.LEDGER])
    assert served.get("/ledger", token=made).status == 200
    remove_token(file, "for a while")
    assert served.get("/ledger", token=made).status == 401
    tokens = json.loads(file.read_bytes())
    over = add_token(file, "over", [Right.LEDGER], duration_s=60)
    changed = json.loads(file.read_bytes())
    changed[-1]["expires_us"] = changed[-1]["created_us"] + 1
    file.write_text(json.dumps(changed))
    assert served.get("/ledger", token=over).status == 401
    file.write_text(json.dumps(tokens))


def test_a_damaged_file_of_tokens_lets_nobody_in(served: Served) -> None:
    file = served.folder / TOKENS_NAME
    good = file.read_bytes()
    file.write_bytes(good[:-20])
    refused = served.get("/ledger")
    assert refused.status == 401 and "file of tokens" in refused.json()["what"]
    file.write_bytes(good)
    assert served.get("/ledger").status == 200


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_tell_of_queues_ledger_and_http(served: Served) -> None:
    text = get(served.url, "/metrics").body.decode()  # on loopback without a token
    assert 'postroom_queue_messages{queue="orders",state="current"} 20.0' in text
    assert 'postroom_queue_received_total{queue="orders"} 20.0' in text
    end = served.get("/ledger").json()["durable_through"]
    assert f"postroom_ledger_durable_through {end}.0" in text or end > 20
    assert (
        'postroom_http_requests_total{path="/ledger",status="200"}'
        in get(served.url, "/metrics").body.decode()
    )
    assert "postroom_connections_total" in text
    assert "postroom_throttled_seconds" in text
    assert "postroom_sign_in_refusals_waiting 0.0" in text


def test_metrics_need_their_right_where_they_are_not_open(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", open_metrics=False)
    with serving(tmp_path / "data", config) as closed:
        assert closed.get("/metrics", token="").status == 401
        assert closed.get("/metrics").status == 403
        assert closed.get("/metrics", token=closed.metrics_token).status == 200


# --- bounds and bad peers -------------------------------------------------------------------------


def test_other_methods_and_paths(served: Served) -> None:
    assert served.get("/ledger", method="DELETE").status == 405
    assert served.get("/ledger", method="POST", body=b"x").status == 413
    assert served.get("/nothing").json()["error"] == "not-found"


def test_who_asks_too_often_waits(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", max_requests_per_s=3)
    with serving(tmp_path / "data", config) as slow:
        answers = [slow.get("/ledger") for _ in range(12)]
        refused = [answer for answer in answers if answer.status == 429]
        assert refused and refused[0].json()["error"] == "too-fast" and refused[0].headers["retry-after"]
        assert slow.get("/metrics", token="").status == 200  # another caller


def raw(served: Served) -> socket.socket:
    host, port = served.url.partition("://")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=15)


def test_a_request_that_does_not_come_is_cut(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", request_timeout_ms=200)
    with serving(tmp_path / "data", config) as short:
        for begun in (b"", b"GET /ledger HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            with raw(short) as peer:
                peer.sendall(begun)
                assert ended(peer)


def ended(peer: socket.socket) -> bool:
    """The other side has closed, in whatever way."""
    try:
        while peer.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return True


def test_an_answer_that_nobody_takes_is_given_up(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", send_timeout_ms=200)
    with serving(tmp_path / "data", config, queues=("orders",)) as short:
        large = short.folder / "00000099.events"
        large.write_bytes(b"\0" * (32 << 20))
        with raw(short) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            request = (
                f"GET /ledger/files/{large.name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {short.token}"
            )
            peer.sendall(request.encode() + b"\r\n\r\n")
            assert peer.recv(15).startswith(b"HTTP/1.1 200")
            wait_for(short, "postroom_http_requests_in_work", 1)  # /metrics itself
        large.unlink()


def wait_for(served: Served, metric: str, value: int) -> None:
    """Until the metric has that value."""
    import time

    deadline = time.monotonic() + 15
    while f"\n{metric} {value}.0" not in get(served.url, "/metrics").body.decode():
        assert time.monotonic() < deadline, f"{metric} never became {value}"


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"AMQP\x00\x01\x00\x00",
        b"GET /ledger HTTP/9.9\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET /ledger HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /ledger HTTP/1.1\r\n" + b"X: " + b"y" * (64 << 10),
        b"POST /ledger HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request(tmp_path: Path, served: Served, bytes_sent: bytes) -> None:
    with raw(served) as peer:
        peer.sendall(bytes_sent)
        peer.shutdown(socket.SHUT_WR)
        assert ended(peer)
    assert served.get("/ledger").status == 200


def test_a_reader_that_goes_in_the_middle_harms_nobody(served: Served) -> None:
    large = served.folder / "00000098.events"
    large.write_bytes(b"\0" * (8 << 20))
    for taken in (0, 1, 5000):
        with raw(served) as peer:
            request = (
                f"GET /ledger/files/{large.name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token}"
            )
            peer.sendall(request.encode() + b"\r\n\r\n")
            peer.recv(taken) if taken else None
    large.unlink()
    assert served.get("/ledger").status == 200
    wait_for(served, "postroom_http_requests_in_work", 1)
    open_files = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in open_files if large.name in each]


# --- TLS ------------------------------------------------------------------------------------------


def test_over_tls(tmp_path: Path) -> None:
    signed = sign(tmp_path, address="127.0.0.1")
    config = HttpConfig(
        address="127.0.0.1:0", tls_certificate=str(signed.certificate), tls_key=str(signed.key)
    )
    with serving(tmp_path / "data", config) as secure:
        assert secure.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=signed.certificate)
        assert secure.get("/ledger", tls=trusting).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            secure.get("/ledger", tls=ssl.create_default_context())
        with raw(secure) as plain:
            plain.sendall(b"GET /ledger HTTP/1.1\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
        secure.broker.wait_until(lambda b: bool(b.access.acts._counted))
        (act,) = secure.broker.call(lambda b: list(b.access.acts._counted.values()))
        assert (act.type, act.name, act.status) == ("listener", "127.0.0.1:0", 401)
        assert act.description == "by TLS: it speaks HTTP without TLS"
        end = x509.load_pem_x509_certificate(signed.certificate.read_bytes()).not_valid_after_utc
        sample = 'postroom_certificate_expiry_timestamp_seconds{listen="127.0.0.1:0"} '
        lines = secure.get("/metrics", tls=trusting).body.decode().splitlines()
        assert [float(line[len(sample) :]) for line in lines if line.startswith(sample)] == [end.timestamp()]


@pytest.mark.parametrize("mode", ["require", "request"])
def test_client_certificates_are_those_of_a_listener(
    authority: Authority, server: Issued, tmp_path: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, revoked = authority.issue("spark"), authority.issue("eve")
    foreign = Authority(tmp_path / "other", "other authority").issue("spark")
    config = HttpConfig(
        address="127.0.0.1:0",
        tls_certificate=str(server.certificate),
        tls_key=str(server.key),
        tls_client_ca=str(authority.certificate),
        tls_client_certificate=mode,
        tls_revocation_list=str(authority.revoke(tmp_path / "crl.pem", revoked)),
    )
    with serving(tmp_path / "data", config) as secure:
        url = secure.url.replace("127.0.0.1", "localhost")
        reached = partial(get, url, "/ledger")
        assert reached(secure.token, tls=good.context(authority)).status == 200
        assert reached(tls=good.context(authority)).status == 401, "a certificate is no token"
        for bad in (revoked, foreign):
            with pytest.raises((ssl.SSLError, ConnectionResetError, RemoteDisconnected)):
                reached(secure.token, tls=bad.context(authority))
        without = ssl.create_default_context(cafile=authority.certificate)
        if mode == "request":
            assert reached(secure.token, tls=without).status == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionResetError, RemoteDisconnected)):
                reached(secure.token, tls=without)
        secure.broker.wait_until(lambda b: len(b.access.acts._counted) >= (2 if mode == "request" else 3))
        recorded = secure.broker.call(lambda b: [act.description for act in b.access.acts._counted.values()])
        assert "by TLS: client certificate: certificate revoked" in recorded
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        monkeypatch.setenv("POSTROOM_CERTIFICATE", str(good.certificate))
        monkeypatch.setenv("POSTROOM_KEY", str(good.key))
        assert "ledger_id" in HttpClient(url, secure.token).json("/ledger"), "the reader's own client"
        monkeypatch.setenv("POSTROOM_KEY", str(tmp_path / "absent.key"))
        with pytest.raises(CertificateUnusable, match=r"No such file"):
            HttpClient(url, secure.token)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"tls_key": "k.pem"}, "without tls_certificate"),
        ({"tls_client_ca": "ca.pem"}, "without tls_certificate"),
        ({"tls_certificate": "c.pem", "tls_revocation_list": "r.pem"}, "without tls_client_ca"),
    ],
)
def test_files_of_tls_that_dont_go_together(files: dict[str, str], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        convert({"http": files}, Config)


# --- the process ----------------------------------------------------------------------------------


def test_the_process_serves_and_ends_in_order_beside_open_connections(tmp_path: Path) -> None:
    from tests.server.broker_process import Process

    config = tmp_path / "postroom.toml"
    config.write_text('[[listen]]\naddress = "127.0.0.1:0"\n[http]\naddress = "127.0.0.1:0"\n')
    (tmp_path / "data").mkdir()
    token = add_token(tmp_path / "data" / TOKENS_NAME, "spark", [Right.LEDGER])
    process = Process(tmp_path, "--config", str(config))
    try:
        process.ready()
        assert process.process.stdout is not None
        line = process.process.stdout.readline().strip()
        assert line.startswith("serving http://127.0.0.1:")
        url = line.removeprefix("serving ")
        assert get(url, "/ledger", token).status == 200
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=15) as idle:
            idle.sendall(f"GET /ledger HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            assert idle.recv(15).startswith(b"HTTP/1.1 200")
            assert process.end() == 0
        assert "uvicorn" not in process.log_text() and "Traceback" not in process.log_text()
    finally:
        if process.process.poll() is None:
            process.end(9)


def test_a_taken_address_is_told_before_the_ledger_is_touched(tmp_path: Path) -> None:
    from tests.server.broker_process import Process

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = tmp_path / "postroom.toml"
        config.write_text(f'[[listen]]\naddress = "127.0.0.1:0"\n[http]\naddress = "127.0.0.1:{port}"\n')
        process = Process(tmp_path, "--config", str(config))
        assert process.wait() == 3
    assert f"can't listen on 127.0.0.1:{port}" in process.log_text()
    assert not (tmp_path / "data").exists()


def test_small_answers_wait_for_no_acknowledgement() -> None:
    """The head and the body of an answer are two writes: the second must not wait for the peer."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nothing is requested")

    async def no_delay() -> int:
        made: asyncio.Queue[BoundedConnection] = asyncio.Queue()
        config = BoundedConfig(answer, HttpConfig())
        config.load()

        def accepted() -> BoundedConnection:
            connection = BoundedConnection(config, ServerState(), {})
            made.put_nowait(connection)
            return connection

        (bound,) = Listener(HttpConfig(address="127.0.0.1:0").listen()).sockets
        server = await asyncio.get_running_loop().create_server(accepted, sock=bound)
        _, writer = await asyncio.open_connection(*bound.getsockname())
        connection = await made.get()
        while connection.transport is None:
            await asyncio.sleep(0)
        found: int = connection.transport.get_extra_info("socket").getsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY
        )
        writer.close()
        connection.transport.abort()
        server.close()
        return found

    assert asyncio.run(asyncio.wait_for(no_delay(), 15)) != 0
