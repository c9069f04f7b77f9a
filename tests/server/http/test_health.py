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


def test_probes_that_need_a_token_are_refused_before_there_are_any() -> None:
    front = Front(lambda: dict(GOOD), is_open=False)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    asyncio.run(front({"type": "http", "path": LIVE_PATH}, receive, send))
    assert sent[0]["status"] == 503 and json.loads(sent[1]["body"])["error"] == "not-active"
