"""Figures as server-sent events: what is told, to whom, how many, and until when."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from postroom.server.configuration.http import HttpConfig
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token, remove_token
from tests.server.access.test_matrix import ALL_BUT, config
from tests.server.http.api.client import Api, session
from tests.server.http_client import TIMEOUT_S, Served, serving

pytestmark = pytest.mark.sockets

PATH = "/api/v1/events"


class Stream:
    """One stream, event by event."""

    def __init__(self, served: Served, query: str = "", **headers: str) -> None:
        split = urlsplit(served.url)
        assert split.hostname is not None
        self._connection = http.client.HTTPConnection(split.hostname, split.port, timeout=TIMEOUT_S)
        self._connection.request("GET", PATH + query, headers=headers)
        self.answer = self._connection.getresponse()

    def next(self) -> dict[str, Any]:
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        raise EOFError

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def opened(served: Served, **headers: str) -> Stream:
    """One that is let in: those before may take a second to end."""
    deadline = time.monotonic() + TIMEOUT_S
    while (stream := Stream(served, **headers)).answer.status == 429:
        assert time.monotonic() < deadline
        stream.close()
    return stream


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    http_config = HttpConfig(address="127.0.0.1:0", max_streams=2, max_requests_per_s=1000)
    with serving(
        tmp_path_factory.mktemp("events") / "data",
        http_config,
        queues=("orders", "elsewhere"),
        users=ALL_BUT,
        role=config().role,
    ) as running:
        yield running


@pytest.fixture
def token(served: Served) -> Iterator[str]:
    file = served.folder / TOKENS_NAME
    yield add_token(file, "stream", [Right.MANAGE], user="root")
    remove_token(file, "stream")


def test_figures_follow_what_happens(served: Served, token: str) -> None:
    headers = {"authorization": f"Bearer {token}"}
    with closing(Stream(served, "?queue=orders&queue=nope", **headers)) as stream:
        assert stream.answer.status == 200
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        first = stream.next()
        assert [each["name"] for each in first["queues"]] == ["orders"]
        assert first["broker"]["queues"] == 2 and first["alarms"] == []
        before = first["queues"][0]["messages_received"]
        Api(served.url, token).done("POST", "/queues/orders/messages", {"body": "x"})
        while (figures := stream.next()["queues"][0])["messages_received"] == before:
            pass
        assert figures["messages_current"] >= 1 and figures["messages_received_per_s"] > 0


def test_the_biggest_queues_are_told_of_where_none_is_named(served: Served, token: str) -> None:
    Api(served.url, token).done("POST", "/queues/elsewhere/messages", {"body": "x"})
    with closing(Stream(served, authorization=f"Bearer {token}")) as stream:
        names = [each["name"] for each in stream.next()["queues"]]
        assert sorted(names) == ["elsewhere", "orders"]


def test_who_may_see_nothing_is_told_nothing(served: Served) -> None:
    cookie = session(served, "nobody")._headers["cookie"]
    with closing(Stream(served, "?queue=orders", cookie=cookie)) as stream:
        shown = stream.next()
        assert (shown["broker"], shown["alarms"], shown["queues"]) == (None, None, [])


def test_streams_have_a_bound_and_are_no_requests_in_work(served: Served, token: str) -> None:
    headers = {"authorization": f"Bearer {token}"}
    with closing(opened(served, **headers)) as one, closing(opened(served, **headers)) as other:
        assert one.next() and other.next()
        with closing(Stream(served, **headers)) as third:
            assert third.answer.status == 429 and b"max_streams" in third.answer.read()
        assert Api(served.url, token).send("GET", "/queues").status == 200


def test_a_stream_ends_with_its_session(served: Served) -> None:
    signed_in = session(served, "root")
    cookie = signed_in._headers["cookie"]
    with closing(Stream(served, cookie=cookie)) as stream:
        stream.next()
        signed_in.done("DELETE", "/session")
        with pytest.raises(EOFError):
            while True:
                stream.next()


def test_a_stream_ends_with_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        stream = Stream(served)
        stream.next()
    with pytest.raises((EOFError, http.client.IncompleteRead)):
        while True:
            stream.next()
    stream.close()
