"""Refusals over HTTP: a status, a word for programs, a line for people."""

from collections.abc import Mapping


class Refusal(Exception):
    """A request is answered so: JSON with ``error`` and ``what``."""

    def __init__(
        self, status: int, error: str, what: str, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(what)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, object] = {"error": error, "what": what, **more}
