"""Refusals over HTTP: a status, a word for programs, a line for people."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

PROBLEM_TYPE: Final = "application/problem+json"
URN: Final = "urn:postroom:problem:"


class Refusal(Exception):
    """A request is answered so: JSON with ``error`` and ``what``."""

    def __init__(
        self, status: int, error: str, what: str, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(what)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, object] = {"error": error, "what": what, **more}


def problem_details(refusal: Refusal, path: str) -> dict[str, object]:
    """What RFC 9457 has of a request on that path that is refused."""
    known = dict(refusal.body)
    word, what = str(known.pop("error")), str(known.pop("what"))
    return {
        "type": URN + word,
        "title": _title(refusal.status),
        "status": refusal.status,
        "detail": what,
        "instance": path,
        **known,
    }


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
