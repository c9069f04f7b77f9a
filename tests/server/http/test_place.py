"""A ledger read from its broker over HTTP: the same rows as from the folder, beside traffic and over
connections that break."""

import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.server.configuration.config import LedgerConfig
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token, remove_token
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places import broker as broker_place
from postroom.spark.places import http_client as client
from postroom.spark.places.broker import BrokerPlace
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.http_client import BrokerRefused, UrlInvalid
from postroom.spark.places.place import Messages
from postroom.spark.places.slices import plan
from postroom.spark.places.uris import place_of
from tests.server.http_client import Served, serving
from tests.spark.real_ledgers import FORGETFUL, Writer, rows_of

pytestmark = pytest.mark.sockets

FAST = HttpConfig(address="127.0.0.1:0", max_requests_per_s=10_000)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker on a ledger with sealed files of two epochs."""
    writer = Writer(tmp_path / "data")
    writer.write(400)
    writer.close()
    with serving(tmp_path / "data", FAST, queues=("orders",)) as running:
        yield running


def place(served: Served, url: str = "", token: str | None = None) -> BrokerPlace:
    cache = served.folder.parent / "cache"
    return BrokerPlace(url or served.url, served.token if token is None else token, str(cache))


def send(served: Served, count: int) -> None:
    connection = BlockingConnection(served.broker.url, timeout=15)
    sender = connection.create_sender("orders")
    for number in range(count):
        sender.send(Message(id=f"live-{number}", body=b"x" * 100, durable=True))
    connection.close()


def marked_rows(served: Served, end: int) -> pa.Table:
    """The folder's rows, once the broker has written that all is durable."""
    here = FolderPlace(served.folder)
    while here.snapshot().durable_through < end:
        pass
    return rows_of(here, last=end)


def test_the_broker_reads_as_its_folder(served: Served) -> None:
    send(served, 30)
    there = place(served)
    end = there.snapshot().durable_through
    expected = marked_rows(served, end)
    assert rows_of(there, last=end).equals(expected)
    assert rows_of(there, last=end, records=53).equals(expected)


def test_sealed_files_come_whole_into_the_cache_where_much_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = place(served)
    end = there.snapshot().durable_through
    small = rows_of(there, last=end)
    cache = served.folder.parent / "cache"
    assert not list(cache.rglob("*.events"))
    monkeypatch.setattr(broker_place, "SMALL_BYTES", 1)
    assert rows_of(there, last=end).equals(small)
    assert {each.name for each in cache.rglob("*.events")} == {
        each.name for each in served.folder.glob("*.events")
    }


def test_the_live_tail_beside_traffic_has_every_position_once(served: Served) -> None:
    there = place(served)
    sending = threading.Thread(target=send, args=(served, 300))
    sending.start()
    tables, position = [], 0
    while sending.is_alive() or position < there.snapshot().durable_through:
        snapshot = there.snapshot()
        for slice in plan(there, snapshot, position + 1, snapshot.durable_through, 1 << 20):
            tables.extend(read_events(pickle.loads(pickle.dumps(slice))))
        assert snapshot.durable_through >= position
        position = snapshot.durable_through
    sending.join()
    got = pa.Table.from_batches(tables).sort_by([("position", "ascending"), ("ordinal", "ascending")])
    assert got.equals(marked_rows(served, position))
    live = [each for each in got["message_id"].to_pylist() if each and each.startswith("live-")]
    assert live == [f"live-{number}" for number in range(300)]
    opened = got.filter(pa.compute.equal(got["event"], "put")).to_pylist()[-1]
    assert opened["queue"] == "orders" and opened["producer"]


def test_a_restart_of_the_broker_in_between_tells_another_epoch(tmp_path: Path) -> None:
    with serving(tmp_path / "data", FAST, queues=("orders",)) as first:
        send(first, 5)
        before = place(first).snapshot()
    (first.folder / TOKENS_NAME).unlink()
    with serving(tmp_path / "data", FAST, queues=("orders",)) as second:
        after = place(second).snapshot()
        assert [each.number for each in after.epochs] == [1, 2]
        assert after.epochs[0].epoch_id == before.epochs[0].epoch_id
        # what was looked at as a journal is read although it is sealed by now
        old = place(first, second.url, second.token)
        slices = plan(old, before, 1, before.durable_through, 1 << 20)
        assert sum(len(batch) for slice in slices for batch in read_events(slice)) == 5


# --- connections that break ------------------------------------------------------------------------


class TearingProxy:
    """Passes bytes on, and cuts every connection but some after so many of the answer's bytes."""

    def __init__(self, url: str, after_bytes: int, tears: int) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._target = host, int(port)
        self._after_bytes = after_bytes
        self.tears_left = tears
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        left = 1 << 60
        if self.tears_left > 0:
            self.tears_left -= 1
            left = self._after_bytes
        with peer, socket.create_connection(self._target) as there:
            threading.Thread(target=_pass_on, args=(peer, there), daemon=True).start()
            while left > 0 and (data := there.recv(min(left, 65_536))):
                peer.sendall(data)
                left -= len(data)
            peer.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        pass


FIRST_PAUSE_S = client.FIRST_PAUSE_S


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.001)


@pytest.mark.parametrize("after_bytes", [0, 1, 100, 2_000, 20_000])
@pytest.mark.parametrize("whole_files", [False, True])
def test_torn_connections_lose_and_double_nothing(
    served: Served, after_bytes: int, whole_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whole_files:
        monkeypatch.setattr(broker_place, "SMALL_BYTES", 1)
    end = place(served).snapshot().durable_through
    proxy = TearingProxy(served.url, after_bytes, tears=3)
    try:
        assert rows_of(place(served, proxy.url), last=end).equals(marked_rows(served, end))
        assert proxy.tears_left == 0
    finally:
        proxy.close()


def test_a_download_goes_on_where_it_broke(served: Served, tmp_path: Path) -> None:
    sealed = sorted(served.folder.glob("*.events"))[0]
    proxy = TearingProxy(served.url, 6_000, tears=2)
    with (tmp_path / "got").open("w+b") as out:
        client.HttpClient(proxy.url, served.token).download(f"/ledger/files/{sealed.name}", out)
    proxy.close()
    assert (tmp_path / "got").read_bytes() == sealed.read_bytes()


def test_a_broker_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        BrokerPlace(f"http://127.0.0.1:{port}", "x").snapshot()
    for url in ("http://", "http://host:port", "http://host:99999999"):
        with pytest.raises((UrlInvalid, OSError)):
            place_of(url).snapshot()


def test_of_several_members_the_one_that_answers_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever it stands; and a line that tears has the next tried, until it is the same one's turn again."""
    monkeypatch.setattr(client, "FAIL_OVER_PAUSE_S", 0.001)
    monkeypatch.setattr(broker_place, "SMALL_BYTES", 1)
    end = place(served).snapshot().durable_through
    with socket.create_server(("127.0.0.1", 0)) as taken:
        absent = f"http://127.0.0.1:{taken.getsockname()[1]}"
    proxy = TearingProxy(served.url, 2_000, tears=3)
    try:
        for number, urls in enumerate((f"{absent}, {proxy.url}", f"{proxy.url},{absent}")):
            proxy.tears_left = 3
            found = BrokerPlace(urls, served.token, str(tmp_path / f"cache{number}"))
            assert rows_of(found, last=end).equals(marked_rows(served, end))
            assert proxy.tears_left == 0
    finally:
        proxy.close()
    with pytest.raises(BrokerRefused, match="401"):
        place(served, f"{absent},{served.url}", token="").snapshot()
    with pytest.raises(UrlInvalid, match=r"no http:// or https:// before it"):
        place_of(f"{served.url},host:8161")


def test_nobody_among_several_members_is_told_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FAIL_OVER_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        urls = [f"http://127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]
    with pytest.raises(OSError, match=f"{urls[0]}: .*; {urls[1]}: "):
        BrokerPlace(",".join(urls), "x").snapshot()


def test_a_file_that_a_member_has_not_sealed_yet_is_read_as_records(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = place(served).snapshot().durable_through
    monkeypatch.setattr(broker_place, "SMALL_BYTES", 1)
    wanted: list[str] = []

    def missing(self: client.HttpClient, path: str, out: BinaryIO) -> None:
        wanted.append(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(client.HttpClient, "download", missing)
    assert rows_of(place(served), last=end).equals(marked_rows(served, end))
    assert wanted


def test_refusals_are_told_with_what_to_do(served: Served) -> None:
    with pytest.raises(BrokerRefused, match=r"401.*postroom token add"):
        place(served, token="").snapshot()
    with pytest.raises(BrokerRefused, match=r"403.*no right 'ledger'"):
        place(served, token=served.metrics_token).snapshot()
    there = place(served)
    there.snapshot()
    remove_token(served.folder / TOKENS_NAME, "spark")
    with pytest.raises(BrokerRefused, match="removed"):
        there.snapshot()
    again = add_token(served.folder / TOKENS_NAME, "spark", [Right.LEDGER])
    assert place(served, token=again).snapshot().durable_through > 0


def test_a_token_is_not_shown(served: Served) -> None:
    assert served.token not in repr(place(served)) and served.token not in place(served).uri


def test_what_retention_has_dropped_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "data", FORGETFUL)
    for _ in range(4):
        writer.write(300)
    writer.close()
    forgetful = LedgerConfig(journal_file_bytes=1 << 20, retention_bytes=0)
    with serving(tmp_path / "data", FAST, ledger=forgetful) as running:
        there = place(running)
        snapshot = there.snapshot()
        assert snapshot.first_position > 1
        record = there.carried(snapshot, snapshot.durable_through)
        assert record is not None
        serials = sorted(serial for rows in record.blocks for serial in rows["serial"].tolist())
        assert serials == [serial for serial in writer.alive if serial < snapshot.first_position]
        (slice,) = plan(there, snapshot, snapshot.first_position, snapshot.first_position, 1)
        gone = type(slice)(there, slice.segment, 1, 1)
        with pytest.raises(FileNotFoundError, match="history begins"):
            list(there.read(gone))


def test_who_has_too_much_to_do_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", FIRST_PAUSE_S)
    slow = HttpConfig(address="127.0.0.1:0", max_requests_per_s=20)
    with serving(tmp_path / "data", slow, queues=("orders",)) as busy:
        send(busy, 5)
        there = place(busy)
        snapshots = [there.snapshot() for _ in range(30)]
        assert snapshots[0].durable_through == snapshots[-1].durable_through


def test_arrivals_are_those_of_the_folder_without_bodies(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(served, 3)
    there, here = place(served), FolderPlace(served.folder)
    end = there.snapshot().durable_through
    events = marked_rows(served, end)
    arrived = events.filter(pa.compute.equal(events["from_state"], "start"))["serial"].to_numpy()[-40:]
    serials = np.concatenate([arrived[::-1], arrived[:3], [end + 1000]]).astype(np.uint64)
    monkeypatch.setattr(broker_place, "MAX_SERIALS", 7)
    got, expected = there.arrivals(serials, end), here.arrivals(serials, end)
    assert got.found.tolist() == expected.found.tolist() == [True] * (len(serials) - 1) + [False]
    assert not len(got.sections.drop_null())
    for name in ("position", "message_id_len", "message_id_type", "body_serial", "parent_serial"):
        assert got.arrivals[name].tolist() == expected.arrivals[name].tolist()
    assert _ids(got) == _ids(expected)
    assert "live-2" in _ids(got)


def _ids(found: Messages) -> list[str]:
    places = zip(found.arrivals["message_id_offset"], found.arrivals["message_id_len"], strict=True)
    return [bytes(found.names[at : at + size]).decode() for at, size in places]
