"""A small client of the API for tests."""

import json
from typing import Any

from tests.server.http_client import Answered, Served, get

PREFIX = "/api/v1"


class Api:
    """Requests of one caller: a token, a session or nobody."""

    def __init__(self, url: str, token: str = "", **headers: str) -> None:
        self._url = url
        self._token = token
        self._headers = headers

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """A request, whatever comes of it."""
        sent = {**self._headers, **headers}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("content_type", "application/json")
        return get(self._url, PREFIX + path, self._token, method, data, **sent)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """What is answered to a request that is carried out."""
        answer = self.send(method, path, body)
        assert 200 <= answer.status < 300, (method, path, answer.body)
        return json.loads(answer.body) if answer.body else None

    def problem(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        """What is answered to a request that is refused."""
        answer = self.send(method, path, body, **headers)
        assert answer.status >= 400, (method, path, answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
        found = answer.json()
        assert found["status"] == answer.status and found["type"].startswith("urn:postroom:problem:")
        return found


def session(served: Served, user: str, password: str = "") -> Api:
    """That of a user who signs in."""
    answer = Api(served.url).send("POST", "/session", {"user": user, "password": password or user})
    assert answer.status == 201, answer.body
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return Api(served.url, cookie=cookie, x_csrf_token=answer.json()["csrf_token"])
