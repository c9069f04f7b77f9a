"""Whether the broker lives and is ready, for probes: what `postroom status` says, over HTTP.

Nothing secret is told, and nothing of HTTP's libraries is needed: a member that follows answers, too.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from postroom.server.status import ACTIVE, COPYING, FOLLOWING, STARTING, Report, why_not_ready, why_unhealthy

LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
ACTIVE_PATH: Final = "/health/active"
PREFIX: Final = "/health"
MOST_BEHIND_S: Final = 10.0
"""What a follower lacks may be so old, and it is ready to take over."""
RETRY_S: Final = 5

GetReport = Callable[[], Report]


def answer(path: str, found: Report) -> tuple[int, dict[str, Any]] | None:
    """Status and body for a path; None: there is no such."""
    checks = _CHECKS.get(path)
    if checks is None:
        return None
    results = {name: check(found) for name, check in checks.items()}
    failed = any(results.values())
    body = {
        "status": "fail" if failed else "pass",
        "state": found["state"],
        "checks": {
            name: {"status": "fail", "what": why} if why else {"status": "pass"}
            for name, why in results.items()
        },
    }
    return (503 if failed else 200), body


def as_json(body: Mapping[str, Any]) -> bytes:
    """The body of an answer."""
    return json.dumps(body).encode()


def _loop(found: Report) -> str:
    return why_unhealthy(found)


def _recovered(found: Report) -> str:
    return "it opens its files, or recovers" if found["state"] == STARTING else ""


def _listening(found: Report) -> str:
    is_other = found["state"] in (FOLLOWING, COPYING, STARTING)
    return "" if is_other or found.get("urls") else "it takes no connections"


def _disk(found: Report) -> str:
    return "new messages are refused: the disk is nearly full" if found.get("space_low") else ""


def _replication(found: Report) -> str:
    return "" if found["state"] in (ACTIVE, STARTING) else why_not_ready(found, MOST_BEHIND_S)


def _active(found: Report) -> str:
    return "" if found["state"] == ACTIVE else f"it is {found['state']}"


_READY: Final = {
    "loop": _loop,
    "recovered": _recovered,
    "listening": _listening,
    "disk": _disk,
    "replication": _replication,
}
_CHECKS: Final[Mapping[str, Mapping[str, Callable[[Report], str]]]] = {
    LIVE_PATH: {"loop": _loop},
    READY_PATH: _READY,
    ACTIVE_PATH: {**_READY, "active": _active},
}
PATHS: Final = tuple(_CHECKS)
