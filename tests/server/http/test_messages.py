"""Messages over HTTP, on real sockets: bodies only for who may have them, within bounds, as in the folder."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import numpy as np
import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.layout import Array
from postroom.ledger.reading.body_reader import BodyState
from postroom.ledger.reading.message_image import MAX_SERIALS, decode_messages
from postroom.ledger.reading.reader import LedgerReader
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from postroom.spark.export.upload import Upload
from postroom.spark.places.broker import BrokerPlace
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.http_client import BrokerRefused
from postroom.spark.places.place import Messages, Place
from postroom.spark.places.store import StorePlace
from tests.server.harness import BrokerThread
from tests.server.http_client import Answered, Served, get, serving

pytestmark = pytest.mark.sockets

SECRET = b"nobody reads this without the right"
SMALLEST = 64 << 10


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("http") / "data"
    config = HttpConfig("127.0.0.1:0", max_messages_bytes=SMALLEST, request_timeout_ms=2000)
    with serving(folder, config, queues=("orders",)) as running:
        connection = BlockingConnection(running.broker.url, timeout=15)
        sender = connection.create_sender("orders")
        for number in range(40):
            body = SECRET * (100 if number % 3 == 0 else 1)
            sender.send(Message(id=f"id-{number}", body=body, durable=number % 4 != 1))
        connection.close()
        yield running


@pytest.fixture(scope="module")
def reader(served: Served) -> str:
    """A token with both rights."""
    return add_token(served.folder / TOKENS_NAME, "reader", [Right.LEDGER, Right.BODIES])


def serials(served: Served) -> Array:
    chunks = LedgerReader(served.folder, beyond_durable=True).chunks()
    return np.concatenate([chunk.arrivals["position"] for _, _, chunk in chunks])


def fetch(served: Served, wanted: Array, token: str) -> Answered:
    body = np.asarray(wanted, "<u8").tobytes()
    return get(served.url, "/ledger/messages", token, "POST", body)


def all_of(place: Place, wanted: Array) -> list[tuple[bytes | None, int, bytes]]:
    """Sections, state and arrival of each, requested until there are all; and no error."""
    found: list[tuple[bytes | None, int, bytes]] = []
    while len(found) < len(wanted):
        got = place.messages(None, wanted[len(found) :])
        assert len(got) > 0 and not got.errors
        found += zip(got.sections.to_pylist(), got.states.tolist(), names_in(got), strict=True)
    return found


def names_in(got: Messages) -> list[bytes]:
    rows = zip(got.arrivals["message_id_offset"], got.arrivals["message_id_len"], strict=True)
    return [bytes(got.names[at : at + size]) for at, size in rows]


def test_with_the_right_everything_is_as_in_the_folder(served: Served, reader: str) -> None:
    every = serials(served)
    wanted = np.array(Random(1).choices([*every.tolist(), 999_999], k=200), np.uint64)
    there = all_of(FolderPlace(served.folder), wanted)
    assert all_of(BrokerPlace(served.url, reader), wanted) == there
    assert {state for _, state, _ in there} == {0, 1, 2}
    assert any(sections is not None and SECRET in sections for sections, _, _ in there)


def test_without_the_right_nothing_of_a_body_leaves(served: Served) -> None:
    every = serials(served)
    answer = fetch(served, every, served.token)
    assert answer.status == 200 and SECRET not in answer.body
    found = decode_messages(answer.body, "answer")
    assert found.found.all()
    assert set(found.states.tolist()) == {BodyState.WITHHELD, BodyState.NOT_STORED}
    got = BrokerPlace(served.url, served.token).messages(None, every)
    assert got.sections.null_count == len(every)
    assert all(name.startswith(b"id-") for name in names_in(got))


def test_the_right_to_bodies_alone_opens_nothing(served: Served) -> None:
    alone = add_token(served.folder / TOKENS_NAME, "alone", [Right.BODIES])
    for token, status in ((alone, 403), (served.metrics_token, 403), ("", 401), ("x.y", 401)):
        answer = fetch(served, serials(served), token)
        assert answer.status == status and SECRET not in answer.body


def test_an_answer_is_bounded_and_one_message_always_comes(served: Served, reader: str) -> None:
    every = serials(served)
    found = decode_messages(fetch(served, np.tile(every, 100), reader).body, "answer")
    assert 0 < len(found.found) < 100 * len(every)
    assert found.ends[-1] <= SMALLEST


def test_damage_in_the_broker_s_file_is_seen_by_who_reads(tmp_path: Path) -> None:
    with serving(tmp_path / "data", queues=("orders",)) as served:
        connection = BlockingConnection(served.broker.url, timeout=15)
        connection.create_sender("orders").send(Message(body=SECRET, durable=True))
        connection.close()
        token = add_token(served.folder / TOKENS_NAME, "reader", [Right.LEDGER, Right.BODIES])
        [journal] = served.folder.glob("*.journal")
        with journal.open("r+b") as file:
            file.seek(journal.read_bytes().rindex(SECRET))
            file.write(b"N")
        place = BrokerPlace(served.url, token)
        got = place.messages(None, serials(served))
        assert "CRC" in got.errors[0] and got.sections.to_pylist() == [None]
        unchecked = place.messages(None, serials(served), check=False)
        assert not unchecked.errors and b"N" + SECRET[1:] in unchecked.sections[0].as_py()


def test_nothing_behind_the_end_of_a_look_is_given(served: Served, reader: str) -> None:
    every = serials(served)
    for place in (FolderPlace(served.folder), BrokerPlace(served.url, reader)):
        snapshot = place.snapshot()
        cut = replace(snapshot, durable_through=int(every[4]))
        found = place.messages(cut, every[:10]).found.tolist()
        assert found == [True] * 5 + [False] * 5


def test_a_store_has_arrivals_and_no_bodies(tmp_path: Path) -> None:
    with serving(tmp_path / "data", queues=("orders",)) as first:
        connection = BlockingConnection(first.broker.url, timeout=15)
        sender = connection.create_sender("orders")
        for number in range(5):
            sender.send(Message(id=f"id-{number}", body=SECRET, durable=number > 0))
        connection.close()
        wanted = serials(first)
    with BrokerThread(folder=first.folder):  # what is before its own file is sealed
        list(Upload(first.folder, str(tmp_path / "store")).run())
    place = StorePlace(str(tmp_path / "store"), cache=str(tmp_path / "cache"))
    got = place.messages(None, np.concatenate([wanted[::-1], [999_999]]).astype(np.uint64))
    assert got.found.tolist() == [True] * 5 + [False]
    assert got.states.tolist() == [BodyState.NOT_STORED] * 5 + [BodyState.DROPPED]
    assert names_in(got) == [b"id-4", b"id-3", b"id-2", b"id-1", b"id-0", b""]
    assert got.sections.null_count == 6


@pytest.mark.parametrize(
    "size", [0, 1, 7, 9, 8 * MAX_SERIALS + 8], ids=["none", "one byte", "cut", "and a bit", "too many"]
)
def test_a_body_of_another_size_is_refused(served: Served, reader: str, size: int) -> None:
    """From its head: nobody waits for the rest."""
    answer = begun(served, reader, b"content-length: %d\r\n" % size)
    assert answer.startswith(b"HTTP/1.1 413") and b"bad-size" in answer


def begun(served: Served, token: str, headers: bytes, body: bytes = b"") -> bytes:
    """What is answered to a request of which no more comes than this."""
    split = urlsplit(served.url)
    assert split.hostname is not None and split.port is not None
    with socket.create_connection((split.hostname, split.port), timeout=15) as peer:
        head = b"POST /ledger/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + token.encode()
        peer.sendall(head + b"\r\n" + headers + b"\r\n" + body)
        answer = b""
        while b"what" not in answer and (piece := peer.recv(1 << 16)):
            answer += piece
        return answer


def test_methods(served: Served, reader: str) -> None:
    assert get(served.url, "/ledger/messages", reader).status == 405
    assert get(served.url, "/ledger", reader, "POST").status == 405
    assert get(served.url, "/ledger", reader, "POST", bytes(8)).json()["error"] == "no-body"
    assert begun(served, reader, b"transfer-encoding: chunked\r\n").startswith(b"HTTP/1.1 413")


def test_a_body_that_does_not_come_is_given_up(served: Served, reader: str) -> None:
    assert begun(served, reader, b"content-length: 800\r\n", b"1234").startswith(b"HTTP/1.1 408")


def test_a_refusal_is_an_error_and_no_serials_are_no_request(served: Served) -> None:
    with pytest.raises(BrokerRefused):
        BrokerPlace(served.url, "wrong").messages(None, serials(served))
    assert len(BrokerPlace(served.url, "wrong").messages(None, np.zeros(0, np.uint64))) == 0


def test_an_answer_with_more_messages_than_were_asked_for_is_damage(
    served: Served, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = serials(served)
    more = fetch(served, every[:3], reader).body
    place = BrokerPlace(served.url, reader)
    monkeypatch.setattr(place._client, "body", lambda path, body: more)
    with pytest.raises(LedgerCorrupt, match="3 messages are answered where 2"):
        place.messages(None, every[:2])
