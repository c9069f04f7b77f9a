"""The API on real sockets, at a broker without users: things, messages, pages, and what is refused."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.manager.message_store.pending_requests import store_requests_of
from postroom.server.configuration.http import HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.http.api.answers import Page
from postroom.server.http.api.messages import NewMessage, encoded, shown
from postroom.server.http.api.routes import all_operations
from tests.server.http.api.client import Api
from tests.server.http_client import Served, get, serving

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("api") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def api(served: Served) -> Api:
    return Api(served.url)


def test_what_is_published_goes_to_whom_it_is_for(served: Served, api: Api) -> None:
    """As a client's: selectors, the ledger, and a client that nobody here wrote gets it; what can't be taken
    is refused with the reason of a send."""
    api.done("POST", "/topics", {"name": "news", "max_message_bytes": 100})
    for client, selector in (("a", ""), ("b", "n > 1"), ("c", "n > 2")):
        body = {"topic": "news", "client": client, "subscription": "s", "selector": selector}
        api.done("POST", "/subscriptions", {"name": f"news::{client}/s", **body})
    message = {"body": "hello", "properties": {"n": 2}, "message_id": "m1"}
    assert api.done("POST", "/topics/news/messages", message) == {"subscriptions": 2}
    with closing(BlockingConnection(served.broker.url, timeout=15)) as connection:
        got = connection.create_receiver("news::b/s").receive(15)
        assert (got.body, got.id, got.properties, got.durable) == ("hello", "m1", {"n": 2}, True)
    found = {name: api.done("GET", f"/subscriptions/news::{name}%2Fs")["messages_current"] for name in "ac"}
    assert found == {"a": 1, "c": 0}
    topic = api.done("GET", "/topics/news")
    assert (topic["messages_received"], topic["messages_unrouted"]) == (1, 0)
    for given, status, condition in (
        ({"body": "x" * 200}, 429, "amqp:link:message-size-exceeded"),
        ({"amqp": "AAAA"}, 400, "amqp:invalid-field"),
    ):
        problem = api.problem("POST", "/topics/news/messages", given)
        assert problem["status"] == status
        assert problem["condition"] == condition
    api.done("POST", "/topics/news/pause", {"switch": "production"})
    assert api.problem("POST", "/topics/news/messages", message)["condition"] == "amqp:illegal-state"
    assert api.problem("POST", "/topics/nobody/messages", message)["status"] == 404
    api.done("POST", "/topics", {"name": "unwanted"})
    assert api.done("POST", "/topics/unwanted/messages", message) == {"subscriptions": 0}
    assert api.done("GET", "/topics/unwanted")["messages_unrouted"] == 1
    assert [api.done("DELETE", f"/topics/{name}")["subscriptions"] for name in ("news", "unwanted")] == [3, 0]


def test_a_queue_from_its_making_to_its_end(api: Api) -> None:
    made = api.done("POST", "/queues", {"name": "a/b c", "max_messages": 5, "quota_policy": "preemptive"})
    assert (made["name"], made["max_messages"], made["quota_policy"]) == ("a/b c", 5, "preemptive")
    path = "/queues/a%2Fb%20c"
    assert api.done("GET", path) == made
    assert api.done("PATCH", path, {"max_messages": 7})["max_messages"] == 7
    put = api.done("POST", f"{path}/messages", {"body": "hello", "properties": {"n": 1}})
    assert put["origin"] == "postroom" and put["time"] > 0
    assert api.problem("DELETE", f"{path}?if_empty=true")["condition"] == "amqp:precondition-failed"
    assert api.done("POST", f"{path}/purge") == {"purged": 1}
    assert api.done("POST", f"{path}/pause", {"switch": "production", "durable": True}) == {
        "production_paused": True,
        "production_state": "Production-Paused",
        "insertion_paused": False,
        "insertion_state": "Insertion-Enabled",
        "consumption_paused": False,
        "consumption_state": "Consumption-Enabled",
        "durably_paused": "production",
    }
    assert api.problem("POST", f"{path}/messages", {"body": ""})["status"] == 409
    assert api.done("POST", f"{path}/resume", {"switch": "production"})["production_paused"] is False
    assert api.done("POST", f"{path}/reset-statistics")["messages_purged"] == 1
    assert api.done("GET", f"{path}/holders") == {"holders": [], "more": False, "producers": []}
    assert api.done("DELETE", f"{path}?if_empty=true") is None
    assert api.problem("GET", path)["type"].endswith(":not-found")


def test_lists_come_in_pages_and_are_filtered_and_sorted(api: Api) -> None:
    for number in range(5):
        api.done("POST", "/quotas", {"name": f"Quota{number}", "bytes_maximum": 100 - number})
    seen: list[str] = []
    path = "/quotas?limit=2"
    while path:
        page = api.done("GET", path)
        assert page["total"] == 5
        seen += [each["name"] for each in page["items"]]
        path = (page["next"] or "").removeprefix("/api/v1")
    assert seen == [f"Quota{number}" for number in range(5)]

    def names(query: str) -> list[str]:
        return [each["name"] for each in api.done("GET", f"/quotas?{query}")["items"]]

    assert names("prefix=Quota3") == ["Quota3"]
    assert names("contains=OTA1") == ["Quota1"]
    assert names("sort=bytes_maximum&limit=2") == ["Quota4", "Quota3"]
    assert names("sort=-bytes_maximum&offset=3") == ["Quota3", "Quota4"]
    assert names("state=running") == []
    filtered = api.done("GET", "/quotas?prefix=Quota&limit=2&sort=-name")
    assert (filtered["total"], len(filtered["items"])) == (5, 2)
    rest = api.done("GET", filtered["next"].removeprefix("/api/v1"))
    assert [each["name"] for each in rest["items"]] == ["Quota2", "Quota1"]


def test_more_than_a_thousand_come_page_by_page(tmp_path: Path) -> None:
    names = tuple(f"q{number:04}" for number in range(1203))
    with serving(tmp_path / "data", queues=names) as served:
        api = Api(served.url)
        page = api.done("GET", "/queues?limit=1000&offset=500")
        assert (page["total"], len(page["items"]), page["next"]) == (1203, 703, None)
        found = api.done("GET", "/queues?sort=-name&limit=1")
        assert (found["total"], found["items"][0]["name"]) == (1203, "q1202")


def test_messages_are_browsed_read_moved_and_deleted(api: Api) -> None:
    for name in ("from", "to"):
        api.done("POST", "/queues", {"name": name})
    for number in range(5):
        body: dict[str, Any] = {
            "message_id": f"id{number}",
            "body": {"n": number},
            "properties": {"n": number},
        }
        api.done("POST", "/queues/from/messages", body)
    page = api.done("GET", "/queues/from/messages?limit=2&bodies=true")
    assert page["total"] == 5 and [each["body"] for each in page["items"]] == [{"n": 0}, {"n": 1}]
    rest = api.done("GET", page["next"].removeprefix("/api/v1"))
    assert [each["message_id"] for each in rest["items"]] == ["id2", "id3"]
    found = api.done("GET", "/queues/from/messages?selector=n%3D4")["items"]
    assert [each["message_id"] for each in found] == ["id4"]
    assert api.done("GET", "/queues/from/messages?message_id=id3&states=visible")["total"] == 1
    assert api.done("GET", "/queues/from/messages?states=delayed")["items"] == []
    one = api.done("GET", f"/queues/from/messages/{found[0]['serial']}")
    assert one["body"] == {"n": 4} and one["states"] == ["visible"]
    assert api.done("DELETE", f"/queues/from/messages/{one['serial']}")["count"] == 1
    assert api.done("POST", "/queues/from/messages/move", {"to": "to", "selector": "n >= 2"})["count"] == 2
    assert api.done("POST", "/queues/to/messages/replay", {"message_id": "id2"})["count"] == 1
    assert api.done("POST", "/queues/from/messages/delete", {})["count"] == 3
    lives = api.done("GET", f"/messages?serial={one['serial']}")
    assert lives["serials"] == [one["serial"]]
    life = api.done("GET", f"/messages/{one['serial']}/life")
    assert [each["event"] for each in life["lines"]][-1:] == ["delete"]
    assert api.done("POST", "/messages/follow", {"serials": [one["serial"]]})["lines"] == life["lines"]


def test_a_cursor_keeps_what_was_meant(api: Api) -> None:
    api.done("POST", "/queues", {"name": "cursors"})
    for _ in range(3):
        api.done("POST", "/queues/cursors/messages", {"body": "x"})
    opened = api.done("POST", "/queues/cursors/message-cursors")
    assert opened["count"] == 3
    api.done("POST", "/queues/cursors/purge")
    path = f"/queues/cursors/message-cursors/{opened['cursor']}"
    page = api.done("GET", f"{path}?limit=2&offset=1")
    assert page["total"] == 3 and [each["gone"] for each in page["items"]] == [True, True]
    assert api.done("DELETE", path) is None
    assert api.problem("GET", path)["status"] == 404


def test_what_is_exported_can_be_imported(api: Api) -> None:
    for name in ("export", "import"):
        api.done("POST", "/queues", {"name": name})
    message = {"body_base64": "AP8=", "message_id": {"uuid": "12345678-1234-5678-1234-567812345678"}}
    api.done("POST", "/queues/export/messages", {**message, "priority": 7, "ttl_ms": 3_600_000})
    (exported,) = api.done("GET", "/queues/export/messages?bodies=true")["items"]
    taken = {"amqp": exported["amqp"], "expires_us": exported["expires_us"]}
    assert api.done("POST", "/queues/import/messages/import", {"messages": [taken]}) == {
        "created": 1,
        "replaced": 0,
    }
    (imported,) = api.done("GET", "/queues/import/messages?bodies=true")["items"]
    for name in ("message_id", "body_base64", "priority", "expires_us"):
        assert imported[name] == exported[name]


def test_the_message_store_is_there(api: Api) -> None:
    api.done("POST", "/queues", {"name": "store"})
    path = "/queues/store/message-store"
    put = api.done("POST", f"{path}/put-message", {"message": {"body": "x"}, "confirm_id": 7})
    unique = {"origin": put["origin"], "time": put["time"]}
    (holder,) = api.done("GET", "/store-holders")["items"]
    assert (holder["kind"], holder["confirm_id"]) == ("confirm-id", 7)
    assert api.done("GET", f"/store-holders/{holder['name']}") == holder
    assert api.done("POST", f"{path}/confirm-put", {**unique, "confirm_id": 7})["count"] == 1
    got = api.done("POST", f"{path}/wait", {"timeout_ms": 10_000})["messages"]
    assert [each["body"] for each in got] == ["x"]
    assert api.problem("POST", f"{path}/get-message", {})["status"] == 404


def test_a_wait_ends_with_its_client(served: Served, api: Api) -> None:
    api.done("POST", "/queues", {"name": "waited"})
    split = urlsplit(served.url)
    assert split.hostname and split.port
    body = b'{"timeout_ms": 60000}'
    with socket.create_connection((split.hostname, split.port)) as waiting:
        head = "POST /api/v1/queues/waited/message-store/wait HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        waiting.sendall(head.encode() + body)
        served.broker.wait_until(lambda b: waits(b) == 1)
    served.broker.wait_until(lambda b: waits(b) == 0)
    api.done("POST", "/queues/waited/messages", {"body": "still there"})
    assert api.done("GET", "/queues/waited/messages")["total"] == 1


def waits(broker: Broker) -> int:
    return len(store_requests_of(broker.manager.core).deadlines)


def test_channels_users_leases_and_the_broker(api: Api, served: Served) -> None:
    made = api.done("POST", "/channels", {"name": "TO.X", "channel_type": "receiver"})
    assert made["channel_type"] == "receiver" and made["state"]
    assert api.done("POST", "/channels/TO.X/stop")["state"] == "stopped"
    assert api.done("POST", "/channels/TO.X/reset", {"sequence": 5})["name"] == "TO.X"
    assert api.problem("POST", "/channels/TO.X/resolve", {"action": "commit"})["status"] == 409
    lease = api.done("POST", "/leases", {"name": "reader", "duration_s": 600, "queues": ["x"]})
    assert lease["state"] == "in force" and lease["queues"] == ["x"]
    assert api.done("PATCH", "/leases/reader", {"duration_s": 700})["duration_s"] == 700
    with closing(BlockingConnection(served.broker.url, timeout=15)) as connection:
        connection.create_receiver("there")
        (shown,) = api.done("GET", "/connections")["items"]
        name = shown["name"].replace(":", "%3A")
        assert api.done("GET", f"/connections/{name}")["links"] == 1
        assert api.done("POST", f"/connections/{name}/close") is None
    broker = api.done("GET", "/broker")
    assert broker["leases"] == 1 and api.done("GET", "/alarms") == {"alarms": []}
    acts = api.done("GET", "/acts?limit=2")
    assert len(acts["acts"]) == 2 and acts["next"] > acts["acts"][-1]["position"]
    assert api.done("GET", f"/acts?first={acts['next']}&limit=1")["acts"][0]["position"] == acts["next"]


def test_a_topic_and_its_subscriptions(api: Api, served: Served) -> None:
    api.done("POST", "/topics", {"name": "news/all"})
    with closing(BlockingConnection(served.broker.url, timeout=15)) as connection:
        receiver = connection.create_receiver("news/all")
        (name,) = [each["name"] for each in api.done("GET", "/subscriptions")["items"]]
        connection.create_sender("news/all").send(Message(body="hi"))
        path = "/subscriptions/" + name.replace("/", "%2F").replace(":", "%3A")
        assert api.done("GET", path)["topic"] == "news/all"
        assert api.done("GET", f"{path}/messages")["total"] == 1
        holders = api.done("GET", f"{path}/holders")["holders"]
        assert [each["held_by"] for each in holders] == ["consumer"]
        receiver.close()
    made = {"name": "news/all::later", "topic": "news/all", "subscription": "later", "shared": True}
    assert api.done("POST", "/subscriptions", {**made, "max_messages": 9})["max_messages"] == 9
    assert api.done("GET", "/subscriptions/news%2Fall%3A%3Alater")["durable"] is True
    assert api.done("GET", "/topics/news%2Fall")["messages_received"] == 1
    assert api.done("DELETE", "/topics/news%2Fall") == {"subscriptions": 1}


def test_answers_are_of_their_types(api: Api) -> None:
    """Every list, and what it has: nothing is there that the description doesn't have."""
    api.done("POST", "/queues", {"name": "typed"})
    api.done("POST", "/remote-queues", {"name": "far", "remote_queue": "x", "remote_queue_manager": "FAR"})
    lists = [each for each in all_operations() if each.id.startswith("list_")]
    seen = set()
    for each in lists:
        answer = api.send("GET", each.path)
        found = msgspec.json.decode(answer.body, type=each.answer)
        assert msgspec.json.decode(msgspec.json.encode(found)) == answer.json(), each.id
        if found.__class__ is Page and found.items:
            seen.add(each.id)
    assert {"list_queues", "list_remote_queues", "list_roles", "list_channels"} <= seen
    broker = next(each for each in all_operations() if each.id == "read_broker")
    answer = api.send("GET", "/broker")
    found = msgspec.json.decode(answer.body, type=broker.answer)
    assert set(answer.json()) == set(msgspec.json.decode(msgspec.json.encode(found)))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("GET", "/nothing", None, 404, "no-path"),
        ("GET", "/queues/a/b", None, 404, "no-path"),
        ("GET", "/queues/a/b/c/d/e/f/g/h/i", None, 404, "no-path"),
        ("GET", "/queues/%ff", None, 400, "bad-path"),
        ("GET", "/queues/", None, 404, "no-path"),
        ("POST", "/broker", {}, 405, "method-not-allowed"),
        ("PUT", "/queues", {}, 405, "method-not-allowed"),
        ("GET", "/queues?limit=0", None, 400, "bad-query"),
        ("GET", "/queues?limit=1001", None, 400, "bad-query"),
        ("GET", "/queues?limit=x", None, 400, "bad-query"),
        ("GET", "/queues?unknown=1", None, 400, "bad-query"),
        ("GET", "/queues?sort=secret", None, 400, "bad-query"),
        ("GET", "/broker?x=1", None, 400, "bad-query"),
        ("POST", "/queues", b"{", 400, "bad-body"),
        ("POST", "/queues", b"[" * 100_000, 400, "bad-body"),
        ("POST", "/queues", b'{"name": "\xff"}', 400, "bad-body"),
        ("POST", "/queues", {}, 400, "bad-body"),
        ("POST", "/queues", {"name": ""}, 400, "bad-body"),
        ("POST", "/queues", {"name": "x", "other": 1}, 400, "bad-body"),
        ("POST", "/queues", {"name": "x", "max_messages": "1"}, 400, "bad-body"),
        ("POST", "/queues", {"name": "x", "access": "open"}, 400, "bad-body"),
        ("POST", "/queues", {"name": "$management"}, 403, "not-allowed"),
        ("POST", "/channels", {"name": "X", "message_retry_exit": "os:system"}, 400, "bad-body"),
        ("POST", "/queues/nope/purge", {"x": 1}, 400, "bad-body"),
        ("POST", "/queues/nope/purge", None, 404, "not-found"),
        ("POST", "/queues/nope/messages", {"body": 1}, 404, "not-found"),
        ("POST", "/queues/nope/messages", {"amqp": "?"}, 400, "bad-base64"),
        ("POST", "/queues/nope/messages", {"body": 1, "body_base64": ""}, 400, "bad-message"),
        ("POST", "/queues/nope/messages", {"message_id": {"uuid": "x"}}, 400, "bad-id"),
        ("POST", "/queues/nope/messages", {"message_id": {"ulong": -1}}, 400, "bad-id"),
        ("POST", "/queues/nope/messages", {"body": 1 << 80}, 400, "bad-message"),
        ("GET", "/queues/nope/messages/x", None, 404, "not-found"),
        ("GET", "/messages", None, 400, "bad-request"),
        ("GET", "/messages?message_id=x&message_id_type=ulong", None, 400, "bad-id"),
        ("GET", "/messages/0/life", None, 400, "bad-request"),
        ("DELETE", "/tokens/none", None, 409, "conflict"),
        ("GET", "/events?" + "&".join(f"queue={number}" for number in range(21)), None, 400, "bad-query"),
    ],
)
def test_bad_requests_are_problems(
    api: Api, method: str, path: str, body: Any, status: int, word: str
) -> None:
    found = api.problem(method, path, body)
    assert (found["status"], found["type"]) == (status, f"urn:postroom:problem:{word}"), found
    assert found["title"] and found["detail"] and found["instance"].startswith("/api/v1")


def test_a_body_is_of_json_and_bounded(served: Served, api: Api) -> None:
    assert api.problem("POST", "/queues", b"x=1", content_type="text/plain")["status"] == 415
    answer = get(served.url, "/api/v1/queues", "", "POST", b"x", content_length=str(1 << 40))
    assert answer.status == 413 and answer.headers["connection"] == "close"


def test_too_many_requests_to_the_management_node_are_refused(tmp_path: Path) -> None:
    config = HttpConfig(address="127.0.0.1:0", max_management_requests=1)
    with serving(tmp_path / "data", config, queues=("orders",)) as served:
        api = Api(served.url)
        path = "/queues/orders/message-store/wait"
        waiting = threading.Thread(target=lambda: api.send("POST", path, {"timeout_ms": 30_000}))
        waiting.start()
        served.broker.wait_until(lambda b: waits(b) == 1)
        assert api.problem("GET", "/queues")["type"].endswith(":too-many-requests")
        with closing(BlockingConnection(served.broker.url, timeout=15)) as connection:
            connection.create_sender("orders").send(Message(body="x"))
        waiting.join()
        assert api.send("GET", "/queues").status == 200


def test_tokens_are_made_and_ended(api: Api, served: Served) -> None:
    made = api.done("POST", "/tokens", {"name": "robot", "rights": ["manage"], "duration_s": 60})
    assert Api(served.url, made["token"]).send("GET", "/broker").status == 200
    assert "robot" in [each["name"] for each in api.done("GET", "/tokens")["tokens"]]
    api.done("DELETE", "/tokens/robot")
    assert Api(served.url, made["token"]).send("GET", "/broker").status == 401


def test_a_message_in_json_is_the_message_in_amqp() -> None:
    given: dict[str, Any] = {
        "body": {"a": [1, 2.5, None, True, "x"]},
        "message_id": {"binary": "AAE="},
        "correlation_id": {"ulong": 7},
        "subject": "s",
        "reply_to": "back",
        "content_type": "text/plain",
        "properties": {"n": 1, "t": True, "s": "x", "f": 1.5},
    }
    raw = encoded(msgspec.convert(given, NewMessage))
    found = shown({"message": raw, "message_id": b"\x00\x01", "correlation_id": 7})
    assert found.pop("amqp") == base64.b64encode(raw).decode()
    assert found == given
