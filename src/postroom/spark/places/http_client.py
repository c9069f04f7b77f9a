"""Reading over HTTP(S) with a token: one connection that is kept, and what is torn is asked for again. Of the
members of a replicated queue manager whichever answers.

On the standard library: httpx takes 5 times the processor for a small answer, 3 times for a large
one, and resumes no download (docs/explanation/own-parts.md).
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from postroom.client.connection.connector import TlsOptions
from postroom.client.exceptions import JMSSecurityException
from postroom.ledger.errors import LedgerError

TIMEOUT_S: Final = 30
ATTEMPTS: Final = 5
"""A request is tried so often where the connection breaks, or the broker says that it has too much to do."""
FIRST_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 5.0
FAIL_OVER_S: Final = 60.0
"""So long one of several members is sought that answers: more than a take-over and `TIMEOUT_S` last."""
FAIL_OVER_PAUSE_S: Final = 0.5
"""After all of them were tried."""
URL_MARK: Final = ","
"""Between the URLs of several members."""
PIECE_BYTES: Final = 1 << 20
MAX_ERROR_BYTES: Final = 64 << 10
MAX_BODY_BYTES: Final = 4 << 30
"""Of an answer that is held in memory: a list of files, records, a checkpoint."""

URL_FORM: Final = "http://HOST:PORT or https://HOST:PORT, or several with commas between them"

_BUSY: Final = (429, 503)
_GONE: Final = (404, 410)

T = TypeVar("T")


class BrokerRefused(LedgerError):
    """The broker has answered a request with an error; ``status`` is HTTP's."""

    def __init__(self, url: str, status: int, what: str) -> None:
        super().__init__(f"{url}: {status}: {what}")
        self.status: Final = status


class UrlInvalid(LedgerError):
    """A URL that names no broker."""


class CertificateUnusable(LedgerError):
    """The client's own certificate, or its key, can't be read."""


class _Server:
    """One of those that may answer."""

    def __init__(self, url: str) -> None:
        """Raises ``UrlInvalid``, ``CertificateUnusable``."""
        split = urlsplit(url)
        self.url: Final = url
        self.prefix: Final = split.path.rstrip("/")
        try:
            self.connection: Final = _connection(split)
        except (ValueError, http.client.InvalidURL) as error:
            raise UrlInvalid(f"{url}: {error}: a broker is {URL_FORM}") from error
        if split.scheme not in ("http", "https"):
            raise UrlInvalid(f"{url}: no http:// or https:// before it: a broker is {URL_FORM}")
        if not split.hostname:
            raise UrlInvalid(f"{url}: no host: a broker is {URL_FORM}")


class HttpClient:
    """Requests that change nothing at the server; for one thread at a time."""

    def __init__(self, url: str, token: str) -> None:
        """`url`: of the server, or those of all members of a queue manager with commas between them: what one
        doesn't answer goes to the next. Raises ``UrlInvalid``, ``CertificateUnusable``."""
        self._headers: Final = {"authorization": f"Bearer {token}"} if token else {}
        self._servers: Final[list[_Server]] = []
        for each in url.split(URL_MARK):
            self._servers.append(_Server(each.strip()))
        self._server = self._servers[0]
        """The one that has answered last."""

    def __del__(self) -> None:
        for server in getattr(self, "_servers", ()):
            server.connection.close()

    def json(self, path: str) -> Any:
        """The object that a path answers with."""
        return json.loads(self.body(path))

    def body(self, path: str, body: bytes | None = None) -> bytes:
        """What a path answers with, whole; `body` is POSTed if it is given.

        Raises ``BrokerRefused``; FileNotFoundError for what is not there any more; OSError.
        """

        def read(answer: http.client.HTTPResponse) -> bytes:
            pieces, size = [], 0
            for piece in _pieces(answer):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_BODY_BYTES:
                    raise BrokerRefused(
                        self._server.url + path, answer.status, f"over {MAX_BODY_BYTES} bytes"
                    )
            return b"".join(pieces)

        return self._persistently(lambda: self._request(path, {}, read, body))

    def download(self, path: str, out: BinaryIO) -> None:
        """A file, into `out`; where the connection breaks it goes on from there."""
        tag = ""

        def read(answer: http.client.HTTPResponse) -> None:
            nonlocal tag
            if answer.status != 206:  # all of it, perhaps of another content than before
                out.seek(0)
                out.truncate()
            tag = answer.headers.get("etag", "")
            for piece in _pieces(answer):
                out.write(piece)

        def once() -> None:
            headers = {"range": f"bytes={out.tell()}-", "if-range": tag} if tag and out.tell() else {}
            self._request(path, headers, read)

        self._persistently(once)

    def _persistently(self, once: Callable[[], T]) -> T:
        return self._at_any(once) if len(self._servers) > 1 else self._at_one(once)

    def _at_one(self, once: Callable[[], T]) -> T:
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return once()
            except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
                self._server.connection.close()
                if attempt == ATTEMPTS:
                    raise OSError(f"{self._server.url}: {error or type(error).__name__}") from error
            except BrokerRefused as error:
                if error.status not in _BUSY or attempt == ATTEMPTS:
                    raise
            time.sleep(pause_s)
            pause_s = min(MAX_PAUSE_S, pause_s * 2)
        raise AssertionError("not reached")

    def _at_any(self, once: Callable[[], T]) -> T:
        """The members in turn, whatever keeps one from answering: its name may be gone with it."""
        end_s = time.monotonic() + FAIL_OVER_S
        first = at = self._servers.index(self._server)
        failures: dict[str, str] = {}
        while True:
            try:
                return once()
            except FileNotFoundError:
                raise
            except (http.client.HTTPException, OSError) as error:
                self._server.connection.close()
                failures[self._server.url] = str(error) or type(error).__name__
            except BrokerRefused as error:
                if error.status not in _BUSY:
                    raise
                failures[self._server.url] = str(error)
            at = (at + 1) % len(self._servers)
            self._server = self._servers[at]
            if at == first:
                if time.monotonic() >= end_s:
                    raise OSError("; ".join(f"{url}: {what}" for url, what in failures.items()))
                time.sleep(FAIL_OVER_PAUSE_S)

    def _request(
        self,
        path: str,
        headers: dict[str, str],
        read: Callable[[http.client.HTTPResponse], T],
        body: bytes | None = None,
    ) -> T:
        method, sent = "GET" if body is None else "POST", {**self._headers, **headers}
        url, connection = self._server.url, self._server.connection
        connection.request(method, self._server.prefix + path, body, sent)
        answer = connection.getresponse()
        if answer.status in (200, 206):
            return read(answer)
        error = answer.read(MAX_ERROR_BYTES)
        answer.close()
        try:
            what = str(json.loads(error)["what"])  # the line for people
        except (ValueError, KeyError, TypeError):
            what = error[:200].decode("utf-8", "replace")
        if answer.status in _GONE:
            raise FileNotFoundError(f"{url}{path}: {what}")
        raise BrokerRefused(url + path, answer.status, what)


def _connection(split: SplitResult) -> http.client.HTTPConnection:
    host = split.hostname or ""
    if split.scheme != "https":
        return http.client.HTTPConnection(host, split.port, timeout=TIMEOUT_S)
    try:
        tls = TlsOptions.of_environment().context()
    except JMSSecurityException as error:
        raise CertificateUnusable(str(error)) from error
    return http.client.HTTPSConnection(host, split.port, timeout=TIMEOUT_S, context=tls)


def _pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body, piece by piece. Raises ``HTTPException`` where it breaks off."""
    while piece := answer.read(PIECE_BYTES):
        yield piece
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
