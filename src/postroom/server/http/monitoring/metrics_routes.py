"""What is counted, over HTTP: ``GET /metrics``, with the right `metrics` or open."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from postroom.server.http.route_group import RouteGroup, Shared
from postroom.server.http.tokens import Right

METRICS_PATH: Final = "/metrics"


class MetricsRoutes(RouteGroup):
    """The metrics of one broker."""

    prefixes: ClassVar = (METRICS_PATH,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._reading: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-http-metrics")

    def routes(self) -> Sequence[BaseRoute]:
        return [self.route(METRICS_PATH, self._metrics)]

    def label(self, path: str) -> str:
        return path if path == METRICS_PATH else "other"

    def close(self) -> None:
        self._reading.shutdown(cancel_futures=True)

    async def _metrics(self, request: Request) -> Response:
        shared = self.shared
        if shared.config.serves_open_metrics:
            shared.admission.keep_pace("", request)
        else:
            shared.admission.admit(request, Right.METRICS, METRICS_PATH)
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(self._reading, generate_latest, shared.registry)
        return Response(text, media_type=None, headers={"content-type": CONTENT_TYPE_LATEST})
