"""Reading over HTTP(S) with a token: one connection that is kept, and what is torn is asked for again.

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
PIECE_BYTES: Final = 1 << 20
MAX_ERROR_BYTES: Final = 64 << 10
MAX_BODY_BYTES: Final = 4 << 30
"""Of an answer that is held in memory: a list of files, records, a checkpoint."""

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


class HttpClient:
    """Requests to one server that change nothing there; for one thread at a time."""

    def __init__(self, url: str, token: str) -> None:
        """Raises ``UrlInvalid``, ``CertificateUnusable``."""
        split = urlsplit(url)
        self._url: Final = url
        self._prefix: Final = split.path.rstrip("/")
        self._headers: Final = {"authorization": f"Bearer {token}"} if token else {}
        try:
            self._connection: Final = _connection(split)
        except (ValueError, http.client.InvalidURL) as error:
            raise UrlInvalid(f"{url}: {error}: a broker is http://HOST:PORT or https://HOST:PORT") from error
        if not split.hostname:
            raise UrlInvalid(f"{url}: no host: a broker is http://HOST:PORT or https://HOST:PORT")

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

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
                    raise BrokerRefused(self._url + path, answer.status, f"over {MAX_BODY_BYTES} bytes")
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
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return once()
            except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
                self._connection.close()
                if attempt == ATTEMPTS:
                    raise OSError(f"{self._url}: {error or type(error).__name__}") from error
            except BrokerRefused as error:
                if error.status not in _BUSY or attempt == ATTEMPTS:
                    raise
            time.sleep(pause_s)
            pause_s = min(MAX_PAUSE_S, pause_s * 2)
        raise AssertionError("not reached")

    def _request(
        self,
        path: str,
        headers: dict[str, str],
        read: Callable[[http.client.HTTPResponse], T],
        body: bytes | None = None,
    ) -> T:
        method, sent = "GET" if body is None else "POST", {**self._headers, **headers}
        self._connection.request(method, self._prefix + path, body, sent)
        answer = self._connection.getresponse()
        if answer.status in (200, 206):
            return read(answer)
        error = answer.read(MAX_ERROR_BYTES)
        answer.close()
        try:
            what = str(json.loads(error)["what"])  # the line for people
        except (ValueError, KeyError, TypeError):
            what = error[:200].decode("utf-8", "replace")
        if answer.status in _GONE:
            raise FileNotFoundError(f"{self._url}{path}: {what}")
        raise BrokerRefused(self._url + path, answer.status, what)


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
