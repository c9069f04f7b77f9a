"""Requests over HTTP and their answers.

| path | right | answer |
|---|---|---|
| ``GET /ledger`` | ledger | ledger, epochs, files, how far it is durable |
| ``GET /ledger/files/NAME`` | ledger | a sealed ``.events`` file or a checkpoint; ranges of bytes |
| ``GET /ledger/records?first=&last=`` | ledger | records as an ``.events`` image |
| ``POST /ledger/messages`` | ledger; with bodies: bodies, too | messages by their serials |
| ``GET /ledger/copy`` | replicate | all of the ledger's files, bodies included, as a tar archive |
| ``GET /metrics`` | metrics, or open | what is counted |

A framework that makes OpenAPI from types would describe one answer of JSON (docs/explanation/own-parts.md).
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.ledger.copying.archive import archive_bytes, archive_pieces
from postroom.ledger.copying.frozen import Frozen
from postroom.ledger.errors import LedgerError
from postroom.ledger.reading.message_image import MAX_SERIALS
from postroom.ledger.storage.disk import Bytes
from postroom.replication.copying import COPY_PATH
from postroom.server.clock import wall_us
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.bounds import Pace
from postroom.server.http.callers import Callers
from postroom.server.http.errors import Refusal
from postroom.server.http.ledger_view import LedgerView, ShownFile
from postroom.server.http.metrics import HttpCounters
from postroom.server.http.ranges import ByteRange, RangeNotSatisfiable, parse_range
from postroom.server.http.tokens import Right, Token
from postroom.server.logs import LOGGER_NAME, log

PIECE_BYTES: Final = 1 << 20
"""Of a file, read and sent at a time."""
READ_THREADS: Final = 2
MAX_POSITION: Final = (1 << 63) - 1
MAX_POSITION_DIGITS: Final = len(str(MAX_POSITION))
EVENTS_TYPE: Final = "application/vnd.postroom.events"
MESSAGES_TYPE: Final = "application/vnd.postroom.messages"
ARCHIVE_TYPE: Final = "application/x-tar"
FILES_PATH: Final = "/ledger/files/"
MESSAGES_PATH: Final = "/ledger/messages"
RIGHTS: Final = {
    "/ledger": Right.LEDGER,
    "/ledger/records": Right.LEDGER,
    MESSAGES_PATH: Right.LEDGER,
    "/ledger/files/{name}": Right.LEDGER,
    COPY_PATH: Right.REPLICATE,
    "/metrics": Right.METRICS,
}
"""What each path needs; that of messages more of it, for their bodies."""
SERIAL_BYTES: Final = 8
OPEN_FILE: Final = "postroom.file"
"""Where the request's scope has what is sent of files: it is closed with the answer, however that ends."""
NOT_STORED: Final = {"cache-control": "no-store"}

T = TypeVar("T")


class Application:
    """What is served, of one broker."""

    def __init__(
        self, config: HttpConfig, callers: Callers, ledger_view: LedgerView, registry: CollectorRegistry
    ) -> None:
        self._config: Final = config
        self._callers: Final = callers
        self._ledger_view: Final = ledger_view
        self._registry: Final = registry
        self._counters: Final = HttpCounters(registry)
        self._pace: Final = Pace(config.max_requests_per_s)
        self._in_work = 0
        self._looking: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-http-ledger")
        """One look or image at a time: the shelf is for one thread."""
        self._fetching: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-http-bodies")
        """One answer with bodies at a time."""
        self._reading: Final = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="postroom-http-read")

    def as_asgi(self) -> ASGIApp:
        """The application, within its bounds."""
        ledger = (self._ledger, self._records, self._messages, self._file, self._copy)
        answers = (*ledger, self._metrics)
        routes = [
            Route(
                path,
                _answering(partial(self._admitted, right, answer)),
                methods=["POST" if path == MESSAGES_PATH else "GET"],
            )
            for (path, right), answer in zip(RIGHTS.items(), answers, strict=True)
        ]
        inner = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})

        async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
            await self._bounded(inner, scope, receive, send)

        return bounded

    def close(self) -> None:
        """No more is read."""
        self._looking.shutdown(cancel_futures=True)
        self._fetching.shutdown(cancel_futures=True)
        self._reading.shutdown(cancel_futures=True)

    # Every request.

    async def _bounded(self, inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what is too much, count what isn't."""
        if scope["type"] != "http":
            return
        answer = Answer(self._label(scope["path"]), send)
        self._in_work += 1
        self._counters.in_work.set(self._in_work)
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await _refused(refusal)(scope, receive, answer.send)
            else:
                await inner(scope, receive, answer.send)
        finally:
            if OPEN_FILE in scope:
                scope[OPEN_FILE].close()
            self._in_work -= 1
            self._counters.in_work.set(self._in_work)
            self._counters.count(answer.path, answer.status, answer.size_bytes, answer.seconds())

    def _refusal(self, scope: Scope) -> Refusal | None:
        if self._in_work > self._config.max_requests:
            what = f"{self._config.max_requests} requests are in work, as many as max_requests allows"
            return Refusal(429, "too-many-requests", what, {"retry-after": "1"})
        headers = {name: value for name, value in scope["headers"] if value != b"0"}
        is_post = scope["path"] == MESSAGES_PATH and scope["method"] == "POST"
        if b"transfer-encoding" in headers or (b"content-length" in headers and not is_post):
            return Refusal(413, "no-body", "a request has no body here", {"connection": "close"})
        if is_post and not _is_size(headers.get(b"content-length", b"")):
            what = f"the body is 1 to {MAX_SERIALS} serials, of {SERIAL_BYTES} bytes each"
            return Refusal(413, "bad-size", what, {"connection": "close"})
        return None

    def _label(self, path: str) -> str:
        """The path as it is counted: what doesn't exist isn't told apart."""
        if path.startswith(FILES_PATH):
            return FILES_PATH
        return path if path in RIGHTS else "other"

    async def _admitted(
        self, right: Right, answer: Callable[[Request, bool], Awaitable[Response]], request: Request
    ) -> Response:
        """The answer to who may have it, and whether with bodies. Raises `Refusal`."""
        if right is Right.METRICS and self._config.serves_open_metrics:
            self._keep_pace(None, request)
            return await answer(request, False)
        token = self._admit(request, right)
        return await answer(request, self._callers.may(token, Right.BODIES))

    def _admit(self, request: Request, right: Right) -> Token:
        """The caller's token. Raises `Refusal` unless it may be used, and hasn't been too often."""
        presented = _bearer(request.headers.get("authorization", ""))
        token = self._callers.find(presented, wall_us()) if presented else None
        self._keep_pace(token, request)
        remote = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        path = self._label(request.url.path)
        if token is None:
            raise self._callers.unauthorized(bool(presented), remote, path)
        if not self._callers.may(token, right):
            raise self._callers.forbidden(token, right, remote, request.method, path)
        return token

    def _keep_pace(self, token: Token | None, request: Request) -> None:
        host = request.client.host if request.client is not None else ""
        caller = f"token {token.id}" if token is not None else f"host {host}"
        wait_s = self._pace.wait_s(caller, time.monotonic())
        if wait_s > 0:
            what = f"more than {self._config.max_requests_per_s} requests a second"
            raise Refusal(429, "too-fast", what, {"retry-after": str(max(1, round(wait_s)))})

    # What is served.

    async def _metrics(self, _: Request, __: bool) -> Response:
        text = await self._in(self._reading, lambda: generate_latest(self._registry))
        return Response(text, media_type=None, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _ledger(self, _: Request, __: bool) -> Response:
        shown = await self._in(self._looking, self._ledger_view.current)
        return JSONResponse(shown.as_json(), headers=NOT_STORED)

    async def _records(self, request: Request, _: bool) -> Response:
        first, last = _position(request, "first"), _position(request, "last")
        if last < first:
            raise Refusal(400, "bad-range", f"last={last} is before first={first}")
        bound = self._config.max_records_bytes
        end, parts = await self._in(self._looking, lambda: self._ledger_view.records(first, last, bound))
        headers = {
            "content-length": str(sum(map(len, parts))),
            "postroom-first": str(first),
            "postroom-last": str(end),
            **NOT_STORED,
        }
        return StreamingResponse(_pieces(parts), media_type=EVENTS_TYPE, headers=headers)

    async def _messages(self, request: Request, with_bodies: bool) -> Response:
        with_bodies &= request.query_params.get("bodies") != "false"
        timeout_s = self._config.request_timeout_ms / 1000
        try:
            serials = np.frombuffer(await asyncio.wait_for(request.body(), timeout_s), "<u8")
        except TimeoutError:
            what = f"the body hasn't come within {self._config.request_timeout_ms} ms"
            raise Refusal(408, "too-slow", what, {"connection": "close"}) from None
        bound = self._config.max_messages_bytes
        parts = await self._in(
            self._fetching, lambda: self._ledger_view.messages(serials, with_bodies, bound)
        )
        headers = {"content-length": str(sum(memoryview(part).nbytes for part in parts)), **NOT_STORED}
        return StreamingResponse(_pieces(parts), media_type=MESSAGES_TYPE, headers=headers)

    async def _file(self, request: Request, _: bool) -> Response:
        file = await self._in(self._reading, partial(self._ledger_view.open, request.path_params["name"]))
        request.scope[OPEN_FILE] = file.file
        return self._file_answer(file, request)

    def _file_answer(self, file: ShownFile, request: Request) -> Response:
        headers = {"accept-ranges": "bytes", "etag": file.tag, "cache-control": "private, immutable"}
        range_header = request.headers.get("range")
        if request.headers.get("if-range", file.tag) != file.tag:
            range_header = None
        try:
            part = parse_range(range_header, file.size_bytes)
        except RangeNotSatisfiable as error:
            size = {"content-range": f"bytes */{file.size_bytes}"}
            raise Refusal(416, "range-not-satisfiable", str(error), size) from None
        sent = part or ByteRange(0, file.size_bytes - 1)
        headers["content-length"] = str(sent.size_bytes)
        if part is not None:
            headers["content-range"] = f"bytes {part.first}-{part.last}/{file.size_bytes}"
        body = self._read(file, sent)
        return StreamingResponse(body, 206 if part else 200, headers, media_type=EVENTS_TYPE)

    async def _read(self, shown: ShownFile, part: ByteRange) -> AsyncIterator[bytes]:
        at = part.first
        while at <= part.last:
            size = min(PIECE_BYTES, part.last + 1 - at)
            piece = await self._in(self._reading, partial(shown.file.read_at, at, size))
            if not piece:
                raise OSError(f"the file ends at byte {at}, before its size")
            yield piece
            at += len(piece)

    async def _copy(self, request: Request, _: bool) -> Response:
        frozen = await self._in(self._looking, self._ledger_view.freeze)
        request.scope[OPEN_FILE] = frozen
        headers = {"content-length": str(archive_bytes(frozen)), **NOT_STORED}
        return StreamingResponse(self._archive(frozen), headers=headers, media_type=ARCHIVE_TYPE)

    async def _archive(self, frozen: Frozen) -> AsyncIterator[bytes]:
        for read in archive_pieces(frozen):
            yield await self._in(self._reading, read)

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


class Answer:
    """One answer on its way out: what of it is counted."""

    def __init__(self, path: str, send: Send) -> None:
        self.path: Final = path
        self.status = 0
        """0: the connection went before there was one."""
        self.size_bytes = 0
        self._send: Final = send
        self._began_s: Final = time.monotonic()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size_bytes += len(message.get("body", b""))
        await self._send(message)

    def seconds(self) -> float:
        return time.monotonic() - self._began_s


def _answering(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint, its refusals as answers; a defect is logged and says nothing of itself outside."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except Refusal as refusal:
            return _refused(refusal)
        except (LedgerError, OSError) as error:
            log(logging.ERROR, "http-failed", path=request.url.path, reason=str(error))
            return _refused(Refusal(503, "ledger-unreadable", str(error), {"retry-after": "1"}))
        except Exception as error:
            logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=error)
            return _refused(Refusal(500, "internal-error", "the broker's log says more"))

    return answered


def _refused(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body, refusal.status, refusal.headers)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    word = error.detail.lower().replace(" ", "-")
    what = f"{request.method} {request.url.path}: {error.detail}"
    return _refused(Refusal(error.status_code, word, what, error.headers))


def _bearer(header: str) -> str:
    scheme, _, presented = header.partition(" ")
    return presented.strip() if scheme.lower() == "bearer" else ""


def _is_size(content_length: bytes) -> bool:
    """Whether so many bytes are serials, and not too many."""
    if not content_length.isdigit() or len(content_length) > MAX_POSITION_DIGITS:
        return False
    size = int(content_length)
    return 0 < size <= MAX_SERIALS * SERIAL_BYTES and size % SERIAL_BYTES == 0


def _position(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_POSITION_DIGITS
    if not (is_number and 1 <= int(text) <= MAX_POSITION):
        raise Refusal(400, "bad-position", f"{name}={text!r} is no position (1 to {MAX_POSITION})")
    return int(text)


async def _pieces(parts: Sequence[Bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        view = memoryview(part).cast("B")
        for at in range(0, len(view), PIECE_BYTES):
            yield bytes(view[at : at + PIECE_BYTES])
