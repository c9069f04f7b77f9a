"""Bodies of requests, bounded in size and time."""

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from postroom.server.configuration.http import HttpConfig
from postroom.server.http.errors import Refusal

BODY: Final = "postroom.body"
"""Where the request's scope has its body once it has been read."""
FORM_TYPE: Final = "application/x-www-form-urlencoded"
JSON_TYPE: Final = "application/json"
MAX_FORM_FIELDS: Final = 1000
CUT: Final = {"connection": "close"}


def content_type(request: Request) -> str:
    """Of the request's body, without parameters; "" none is said."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request, config: HttpConfig) -> bytes:
    """The whole of it, any number of times. Raises `Refusal` for one too long or too slow."""
    if BODY not in request.scope:
        try:
            limit_s = config.request_timeout_ms / 1000
            request.scope[BODY] = await asyncio.wait_for(_read(request, config.max_body_bytes), limit_s)
        except TimeoutError:
            what = f"the body hasn't come within {config.request_timeout_ms} ms"
            raise Refusal(408, "too-slow", what, CUT) from None
        except ClientDisconnect:
            raise Refusal(400, "gone", "the client has gone") from None
    body: bytes = request.scope[BODY]
    return body


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refusal(413, "too-long", f"a body has {most} bytes at most (max_body_bytes)", CUT)
        parts.append(part)
    return b"".join(parts)


async def form_of(request: Request, config: HttpConfig) -> dict[str, str]:
    """The fields of a form, the last of each name; none where the body is none. Raises `Refusal`."""
    if content_type(request) != FORM_TYPE:
        return {}
    try:
        text = (await body_of(request, config)).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError as error:
        raise Refusal(400, "bad-form", f"the form can't be read: {error}") from None
