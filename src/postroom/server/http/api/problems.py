"""Refusals as problem details (RFC 9457)."""

from starlette.responses import Response

from postroom.server.http.api.messages import to_json
from postroom.server.http.errors import PROBLEM_TYPE, Refusal, problem_details


def problem(refusal: Refusal, path: str) -> Response:
    """The answer to a request on that path that is refused."""
    headers = {**refusal.headers, "content-type": PROBLEM_TYPE, "cache-control": "no-store"}
    return Response(to_json(problem_details(refusal, path)), refusal.status, headers)
