"""The table ``websocket`` of a listener in the configuration."""

import re
from typing import Final

from msgspec import Struct

from postroom.server.configuration.values import PlacedError

_PATH: Final = re.compile(r"/[!-~]*")
_ORIGIN: Final = re.compile(r"https?://[!-~]+")


class WebSocketConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """AMQP over WebSocket on this listener, and on nothing else of it."""

    path: str = "/amqp"
    """The resource that clients ask for."""
    origins: list[str] = []
    """Web pages that may connect, by their origins: `["https://shop.example"]`. A request without `Origin`,
    or with that of its own `Host`, always may; on a loopback address that host must be `localhost` or a
    loopback address, too."""

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path) or "?" in self.path or "#" in self.path:
            what = f"{self.path!r} is no path: it begins with '/' and has neither spaces nor '?' nor '#'"
            raise PlacedError(("path",), what)
        for index, origin in enumerate(self.origins):
            if not _ORIGIN.fullmatch(origin) or "/" in origin.partition("://")[2]:
                what = (
                    f"{origin!r} is no origin: write it as in https://shop.example or http://localhost:8080"
                )
                raise PlacedError(("origins", index), what)
