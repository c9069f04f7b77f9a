"""Refusals as problem details (RFC 9457)."""

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from postroom.server.http.api.messages import to_json
from postroom.server.http.errors import Refusal

PROBLEM_TYPE: Final = "application/problem+json"
URN: Final = "urn:postroom:problem:"


def problem(refusal: Refusal, path: str) -> Response:
    """The answer to a request on that path that is refused."""
    known = dict(refusal.body)
    word, what = str(known.pop("error")), str(known.pop("what"))
    body: dict[str, Any] = {
        "type": URN + word,
        "title": _title(refusal.status),
        "status": refusal.status,
        "detail": what,
        "instance": path,
        **known,
    }
    headers = {**refusal.headers, "content-type": PROBLEM_TYPE, "cache-control": "no-store"}
    return Response(to_json(body), refusal.status, headers)


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
