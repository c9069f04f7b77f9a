"""Probes of a broker that serves: open where the configuration says so, else for a token of metrics."""

from collections.abc import Sequence
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from postroom.server.http.bodies import JSON_TYPE
from postroom.server.http.health import PATHS, PREFIX, answer, as_json
from postroom.server.http.route_group import NOT_STORED, RouteGroup
from postroom.server.http.tokens import Right


class HealthRoutes(RouteGroup):
    """The probes of one broker."""

    prefixes: ClassVar = (PREFIX,)

    def routes(self) -> Sequence[BaseRoute]:
        return [self.route(path, self._answer) for path in PATHS]

    def label(self, path: str) -> str:
        return path if path in PATHS else "other"

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        if self.shared.config.serves_open_health:
            self.shared.admission.keep_pace("", request)
        else:
            self.shared.admission.admit(request, Right.METRICS, path)
        found = answer(path, self.shared.report())
        assert found is not None
        return Response(as_json(found[1]), found[0], NOT_STORED, JSON_TYPE)
