"""Signing in and out: ``/api/v1/session``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Scope

from postroom.server.http.bodies import body_of
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import NOT_STORED, RouteGroup

SESSION_PATH: Final = "/api/v1/session"


class Credentials(Struct, forbid_unknown_fields=True):
    """A user's name and password."""

    user: Annotated[str, Meta(min_length=1)]
    password: str


class SessionShown(Struct):
    """Who has signed in, and what unsafe requests show beside the cookie."""

    user: str
    csrf_token: str


class SessionRoutes(RouteGroup):
    """Sessions of one broker's users."""

    prefixes: ClassVar = (SESSION_PATH,)

    def routes(self) -> Sequence[BaseRoute]:
        return [
            self.route(SESSION_PATH, self._create, "POST"),
            self.route(SESSION_PATH, self._read, "GET"),
            self.route(SESSION_PATH, self._delete, "DELETE"),
        ]

    def early_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        return None

    async def _create(self, request: Request) -> Response:
        try:
            given = msgspec.json.decode(await body_of(request, self.shared.config), type=Credentials)
        except msgspec.DecodeError as error:
            raise Refusal(400, "bad-body", str(error)) from None
        session, cookie = await self.shared.requesters.sign_in(request, given.user, given.password)
        shown = {"user": session.user, "csrf_token": session.csrf_token}
        return JSONResponse(shown, 201, {"set-cookie": cookie, **NOT_STORED})

    async def _read(self, request: Request) -> Response:
        requesters = self.shared.requesters
        requester = await requesters.requester_of(request)
        shown = {"user": requester.user, "csrf_token": requesters.csrf_token(request)}
        return JSONResponse(shown, headers=NOT_STORED)

    async def _delete(self, request: Request) -> Response:
        await self.shared.requesters.requester_of(request)
        return Response(status_code=204, headers={"set-cookie": self.shared.requesters.sign_out(request)})
