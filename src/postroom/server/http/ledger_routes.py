"""The ledger over HTTP, for readers on other machines.

| path | right | answer |
|---|---|---|
| ``GET /ledger`` | ledger | ledger, epochs, files, how far it is durable |
| ``GET /ledger/files/NAME`` | ledger | a sealed ``.events`` file or a checkpoint; ranges of bytes |
| ``GET /ledger/records?first=&last=`` | ledger | records as an ``.events`` image |
| ``POST /ledger/messages`` | ledger; with bodies: bodies, too | messages by their serials |
| ``GET /ledger/copy`` | replicate | all of the ledger's files, bodies included, as a tar archive |
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, Final, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute
from starlette.types import Scope

from postroom.ledger.copying.archive import archive_bytes, archive_pieces
from postroom.ledger.copying.frozen import Frozen
from postroom.ledger.reading.message_image import MAX_SERIALS
from postroom.ledger.storage.disk import Bytes
from postroom.replication.copying import COPY_PATH
from postroom.server.http.errors import Refusal
from postroom.server.http.ledger_view import ShownFile
from postroom.server.http.ranges import ByteRange, RangeNotSatisfiable, parse_range
from postroom.server.http.route_group import NOT_STORED, OPEN_FILE, RouteGroup, Shared
from postroom.server.http.tokens import Right

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
}
"""What each path needs; that of messages more of it, for their bodies."""
SERIAL_BYTES: Final = 8

T = TypeVar("T")


class LedgerRoutes(RouteGroup):
    """The ledger of one broker."""

    prefixes: ClassVar = ("/ledger",)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._config: Final = shared.config
        self._ledger_view: Final = shared.ledger_view
        self._looking: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-http-ledger")
        """One look or image at a time: the shelf is for one thread."""
        self._fetching: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-http-bodies")
        """One answer with bodies at a time."""
        self._reading: Final = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="postroom-http-read")

    def routes(self) -> Sequence[BaseRoute]:
        answers = (self._ledger, self._records, self._messages, self._file, self._copy)
        return [
            self.route(
                path,
                partial(self._admitted, right, answer),
                "POST" if path == MESSAGES_PATH else "GET",
                self.label(path),
            )
            for (path, right), answer in zip(RIGHTS.items(), answers, strict=True)
        ]

    def label(self, path: str) -> str:
        if path.startswith(FILES_PATH):
            return FILES_PATH
        return path if path in RIGHTS else "other"

    def early_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Only that of messages has a body, of serials."""
        if scope["path"] != MESSAGES_PATH or scope["method"] != "POST":
            return super().early_refusal(scope, headers)
        if b"transfer-encoding" in headers or not _is_size(headers.get(b"content-length", b"")):
            what = f"the body is 1 to {MAX_SERIALS} serials, of {SERIAL_BYTES} bytes each"
            return Refusal(413, "bad-size", what, {"connection": "close"})
        return None

    def close(self) -> None:
        self._looking.shutdown(cancel_futures=True)
        self._fetching.shutdown(cancel_futures=True)
        self._reading.shutdown(cancel_futures=True)

    async def _admitted(
        self, right: Right, answer: Callable[[Request, bool], Awaitable[Response]], request: Request
    ) -> Response:
        """The answer to who may have it, and whether with bodies. Raises `Refusal`."""
        admission = self.shared.admission
        token = admission.admit(request, right, self.label(request.url.path))
        return await answer(request, admission.callers.may(token, Right.BODIES))

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
