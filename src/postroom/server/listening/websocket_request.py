"""Who is let in: the checks of a WebSocket's opening request, and the answer to one that is refused.

A web page of anybody's can have a browser ask here, with no more of its own than the header Origin (RFC 6455,
10.2). So an origin must be configured, or be that of the request's own host: some clients that are no
browsers send it. On a loopback address that host must be this machine's too, as any name may be made to lead
here.
"""

import base64
import binascii
from http import HTTPStatus
from typing import Final

from wsproto import WSConnection
from wsproto.events import RejectConnection, Request
from wsproto.utilities import RemoteProtocolError

from postroom.server.addresses import is_loopback, split_address
from postroom.server.configuration.websocket import WebSocketConfig

SUBPROTOCOL: Final = "amqp"
MAX_HEAD_BYTES: Final = 16 << 10
"""Of the request: its line and its headers."""
MAX_QUOTED_CHARS: Final = 100
"""Of what the peer has sent, in what it is told."""
KEY_BYTES: Final = 16
BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")


class Refused(Exception):
    """The request can't be taken: the status of HTTP, what was wrong, and headers that say what would do."""

    def __init__(self, status: int, what: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.status: Final = status
        self.what: Final = what
        self.headers: Final = headers
        super().__init__(what)


class Door:
    """The checks of one listener."""

    def __init__(self, config: WebSocketConfig, on_loopback: bool) -> None:
        self.path: Final = config.path
        self._origins: Final = [origin.lower() for origin in config.origins]
        self._on_loopback: Final = on_loopback

    def check_beginning(self, head: bytes | bytearray) -> None:
        """Raises `Refused` for what is no HTTP, before all of a head has come: no end of it ever might."""
        if head.startswith(b"AMQP"):
            raise Refused(400, "AMQP came without WebSocket; this port takes it in WebSocket messages only")
        if head and not (b"A"[0] <= head[0] <= b"Z"[0]):
            raise Refused(400, "this is no HTTP request")

    def check(self, protocol: WSConnection, head: bytes) -> None:
        """Raises `Refused` unless ``head`` asks for AMQP over WebSocket here; ``protocol`` has read it."""
        _check_line(head)
        request = _request(protocol, head)
        headers = {name: value.decode("latin-1") for name, value in request.extra_headers}
        if any(name in headers for name in BODY_HEADERS):
            raise Refused(400, "a request for a WebSocket has no body")
        _check_key(headers[b"sec-websocket-key"])
        if request.target.partition("?")[0] != self.path:
            raise Refused(404, f"there is nothing at {_quoted(request.target)}")
        self._check_origin(headers.get(b"origin", ""), request.host)
        if SUBPROTOCOL not in request.subprotocols:
            offered = _quoted(", ".join(request.subprotocols)) if request.subprotocols else "none"
            raise Refused(400, f"Sec-WebSocket-Protocol offers {offered}")

    def _check_origin(self, origin: str, host: str) -> None:
        if not origin or origin.lower() in self._origins:
            return
        if origin.partition("://")[2].lower() == host.lower() and self._is_own(host):
            return
        raise Refused(403, f"the listener's origins do not have {_quoted(origin)}")

    def _is_own(self, host: str) -> bool:
        if not self._on_loopback:
            return True
        try:
            return is_loopback(split_address(host)[0].lower())
        except ValueError:
            return False


def refusal(refused: Refused, path: str) -> bytes:
    """The answer of HTTP; the connection ends with it."""
    status = HTTPStatus(refused.status)
    body = f"{refused.what}\nAMQP over WebSocket is served at {path}, with the subprotocol amqp.\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in refused.headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _check_line(head: bytes) -> None:
    """What would be answered in too general a way by what reads the request afterwards."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    version = rest.rpartition(b" ")[2]
    if version.startswith(b"HTTP/") and version != b"HTTP/1.1":
        raise Refused(505, f"{_quoted(version.decode('latin-1'))}: a WebSocket begins with HTTP/1.1")
    if method != b"GET" and version:
        what = f"the method is {_quoted(method.decode('latin-1'))}: a WebSocket begins with GET"
        raise Refused(405, what, (("Allow", "GET"),))


def _request(protocol: WSConnection, head: bytes) -> Request:
    try:
        protocol.receive_data(head)
        for event in protocol.events():
            if isinstance(event, Request):
                return event
    except RemoteProtocolError as error:
        raise _unreadable(error) from error
    except UnicodeError as error:
        raise Refused(400, "the request's target or one of its headers is not ASCII") from error
    raise Refused(400, "the request is not whole")


def _unreadable(error: RemoteProtocolError) -> Refused:
    hint = error.event_hint
    status, headers = 400, []
    if isinstance(hint, RejectConnection):
        status, headers = hint.status_code, hint.headers
    header_texts = tuple((name.decode(), value.decode()) for name, value in headers)
    return Refused(status, str(error), header_texts)


def _check_key(key: str) -> None:
    try:
        if len(base64.b64decode(key, validate=True)) == KEY_BYTES:
            return
    except (binascii.Error, ValueError):
        pass
    raise Refused(400, f"Sec-WebSocket-Key is {_quoted(key)}, not {KEY_BYTES} bytes in base64")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…")
