"""Probes over HTTP: what is checked, who may ask, and a process that doesn't serve yet."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from postroom.server.configuration.http import HttpConfig
from postroom.server.console.parts import console_parts
from postroom.server.http.front import Front
from postroom.server.http.health import ACTIVE_PATH, LIVE_PATH, PATHS, READY_PATH, answer
from postroom.server.http.http_service import Http
from postroom.server.status import ACTIVE, COPYING, FOLLOWING, STARTING
from tests.server.harness import make_config
from tests.server.http_client import get, serving

GOOD = {"state": ACTIVE, "urls": ["amqp://x"], "space_low": False, "loop_s": 0.5}
FOLLOWER = {"state": FOLLOWING, "behind_s": 0.1}
MEMBER = FOLLOWER | {
    "member": "b",
    "behind": 1234,
    "active_member": "<a>",
    "active_urls": ["amqp://a.example", "javascript://a.example/%0aalert(1)", "https://a.example:8161"],
}


@pytest.mark.parametrize(
    ("report", "failed", "statuses"),
    [
        (GOOD, set(), (200, 200, 200)),
        (GOOD | {"loop_s": 31.0}, {"loop"}, (503, 503, 503)),
        (GOOD | {"space_low": True}, {"disk"}, (200, 503, 503)),
        (GOOD | {"urls": []}, {"listening"}, (200, 503, 503)),
        ({"state": STARTING}, {"recovered"}, (200, 503, 503)),
        (FOLLOWER, set(), (200, 200, 503)),
        (FOLLOWER | {"behind_s": 11.0}, {"replication"}, (200, 503, 503)),
        ({"state": COPYING}, {"replication"}, (200, 503, 503)),
    ],
)
def test_each_check_fails_for_its_reason(
    report: dict[str, Any], failed: set[str], statuses: tuple[int, int, int]
) -> None:
    answers = [answer(path, report) for path in (LIVE_PATH, READY_PATH, ACTIVE_PATH)]
    assert tuple(each[0] for each in answers if each is not None) == statuses
    assert answers[1] is not None
    body = answers[1][1]
    assert (body["status"] == "fail") == bool(failed) and body["state"] == report["state"]
    assert {name for name, check in body["checks"].items() if check["status"] == "fail"} == failed
    assert all(body["checks"][name]["what"] for name in failed)
    assert answer("/health", report) is None


@pytest.mark.sockets
def test_a_broker_that_serves_lives_and_is_ready(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        for path in PATHS:
            shown = served.get(path, token="")
            assert (shown.status, shown.json()["status"]) == (200, "pass")
        served.broker.call(lambda broker: setattr(broker, "space_low", True))
        assert served.get(LIVE_PATH, token="").status == 200
        shown = served.get(READY_PATH, token="")
        assert shown.status == 503 and "disk" in shown.json()["checks"]["disk"]["what"]
        assert served.get("/health/other", token="").status == 404


@pytest.mark.sockets
def test_probes_are_open_where_the_configuration_says_so(tmp_path: Path) -> None:
    with serving(tmp_path / "data", HttpConfig(address="127.0.0.1:0", open_health=False)) as served:
        assert served.get(LIVE_PATH, token="").status == 401
        assert served.get(LIVE_PATH, token=served.token).status == 403
        assert served.get(LIVE_PATH, token=served.metrics_token).status == 200
    assert not HttpConfig(address="0.0.0.0:1", plain=True).serves_open_health


@pytest.mark.sockets
def test_a_process_that_does_not_serve_yet_answers_probes_and_refuses_all_else() -> None:
    http = Http(make_config(http=HttpConfig(address="127.0.0.1:0")), console_parts)
    assert http.listener is not None
    (url,) = http.listener.http_urls()
    report = dict(FOLLOWER)
    http.begin(lambda: report)
    try:
        shown = get(url, READY_PATH)
        assert (shown.status, shown.json()["state"]) == (200, FOLLOWING)
        assert get(url, ACTIVE_PATH).status == 503
        refused = get(url, "/ledger")
        assert refused.status == 503 and refused.headers["retry-after"]
        assert refused.json() == {"error": "not-active", "what": "the broker is following"}
        report["state"] = STARTING
        assert get(url, READY_PATH).status == 503
    finally:
        http.stop()


def answered(
    front: Front, path: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    asyncio.run(front({"type": "http", "path": path, "headers": headers}, receive, send))
    shown = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], shown, sent[1]["body"].decode()


def test_probes_that_need_a_token_are_refused_before_there_are_any() -> None:
    front = Front(lambda: dict(GOOD), is_open=False)
    status, _, body = answered(front, LIVE_PATH)
    assert status == 503 and json.loads(body)["error"] == "not-active"


BROWSER = ((b"accept", b"text/html,*/*;q=0.8"),)


@pytest.mark.parametrize("path", ["/", "/queues/q"])
def test_a_follower_leads_browsers_to_the_active_member(path: str) -> None:
    status, headers, body = answered(Front(lambda: dict(MEMBER), True, True), path, BROWSER)
    assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["content-security-policy"] and headers["retry-after"]
    assert '&lt;a&gt;: <a href="https://a.example:8161">' in body and "javascript:" not in body
    assert "1,234 entries, 0.1 s" in body and "ready to take over" in body
    behind = MEMBER | {"behind_s": 11.0}
    assert "replication: it is 11 s behind" in answered(Front(lambda: behind, True, True), path, BROWSER)[2]


@pytest.mark.parametrize("urls", [["amqp://a.example"], ["http://[", "amqps://a.example"], []])
def test_without_a_console_of_the_active_member_there_is_no_link(urls: list[str]) -> None:
    body = answered(Front(lambda: MEMBER | {"active_urls": urls}, True, True), "/", BROWSER)[2]
    assert "isn't known" in body and "href" not in body
    nobody = MEMBER | {"active_urls": urls, "active_member": ""}
    assert "nobody, as far as was read" in answered(Front(lambda: nobody, True, True), "/", BROWSER)[2]


def test_a_member_that_has_just_become_active_asks_a_browser_to_come_again() -> None:
    """Its report is that of an active member already, and the application isn't there yet."""
    report = GOOD | {"member": "b", "sequence": 7, "members": {}}
    status, headers, body = answered(Front(lambda: report, True, True), "/queues", BROWSER)
    assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert headers["retry-after"] and "It is starting" in body and "not the active" not in body.lower()


def test_the_api_of_a_follower_answers_with_a_problem_that_names_the_active_member() -> None:
    front = Front(lambda: dict(MEMBER), True, True)
    status, headers, body = answered(front, "/api/v1/queues", BROWSER)
    assert (status, headers["content-type"]) == (503, "application/problem+json")
    problem = json.loads(body)
    assert problem["type"] == "urn:postroom:problem:not-active" and problem["instance"] == "/api/v1/queues"
    assert (problem["active_member"], problem["active_url"]) == ("<a>", "https://a.example:8161")
    assert json.loads(answered(front, "/ledger")[2])["active_url"] == "https://a.example:8161"


def test_a_follower_that_may_not_say_names_nobody() -> None:
    front = Front(lambda: dict(MEMBER), False, False)
    for path in ("/", "/api/v1/queues", "/ledger"):
        for headers in ((), BROWSER):
            body = answered(front, path, headers)[2]
            assert "a.example" not in body and "1,234" not in body and "a&gt;" not in body
