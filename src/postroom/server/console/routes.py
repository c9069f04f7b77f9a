"""The console's paths: pages, their streams, static files, and how refusals look."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from postroom.server.console import security_headers
from postroom.server.console.live import follow
from postroom.server.console.notices import Notices
from postroom.server.console.page import Page
from postroom.server.console.pages import PAGES
from postroom.server.console.pages.sign_in import SIGN_IN_PATH, SIGN_OUT_PATH, SignIn
from postroom.server.console.replays import Replays
from postroom.server.console.samples import Samples
from postroom.server.console.static_files import STATIC_PATH, StaticFiles
from postroom.server.console.visit import SEE_OTHER, Console, Visit, theme_of
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import RouteGroup, Shared

LIVE_PARAMETER: Final = "live"
"""In a page's URL: its stream instead."""
TITLES: Final = {
    400: "This can't be read",
    401: "Sign in first",
    403: "This is not allowed",
    404: "There is nothing here",
    409: "Not as things are",
    421: "A name of another place",
    429: "Too much at once",
    503: "Not at the moment",
    504: "No answer in time",
}


def _prefixes() -> tuple[str, ...]:
    """The first segments of all paths but that of the overview, which begins as everybody's."""
    segments = {page.path.split("/")[1] for page in PAGES} - {""}
    return (STATIC_PATH, SIGN_IN_PATH, SIGN_OUT_PATH, *sorted(f"/{each}" for each in segments))


class _OtherPaths(Route):
    """Paths that nobody has, of browsers: programs get what they always get."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_browser = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
        return super().matches(scope) if is_browser else (Match.NONE, {})


class ConsoleRoutes(RouteGroup):
    """The console of one broker."""

    prefixes: ClassVar = _prefixes()

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._sign_in: Final = SignIn()

    @cached_property
    def console(self) -> Console:
        """Made with the first request, in the thread that serves it: templates take a while."""
        from postroom.server.console.templating import Templates

        files = StaticFiles()
        paths = frozenset(page.path for page in PAGES)
        return Console(self.shared, files, Templates(files), Notices(), Samples(), Replays(), paths)

    def routes(self) -> Sequence[BaseRoute]:
        found: list[BaseRoute] = [
            self.route(STATIC_PATH + "/{name:path}", self._static, label=STATIC_PATH),
            self.route(SIGN_IN_PATH, self._sign_in_page),
            self.route(SIGN_IN_PATH, self._signed_in, "POST"),
            self.route(SIGN_OUT_PATH, self._signed_out, "POST"),
        ]
        for page in PAGES:
            label = page.path.replace("{name:path}", "{name}")
            found.append(self.route(page.path, self._answer(self._get, page), label=label))
            found.append(self.route(page.path, self._answer(self._post, page), "POST", label=label))
        return [*found, _OtherPaths("/{rest:path}", self._nothing)]

    def early_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Forms have bodies, which have a bound of their own."""
        return None

    def refused(self, refusal: Refusal, path: str) -> Response:
        """A page that says why, also to who hasn't signed in."""
        return self._refusal_page("refusal_bare.html", refusal)

    # Answers.

    def _answer(
        self, answer: Callable[[Page, Visit], Awaitable[Response]], page: Page
    ) -> Callable[[Request], Awaitable[Response]]:
        """Of a page, to whoever may be here; refusals have the page's frame."""

        async def answered(request: Request) -> Response:
            requesters = self.shared.requesters
            try:
                requester = await requesters.requester_of(request)
            except Refusal as refusal:
                return self._not_let_in(request, refusal)
            visit = Visit(self.console, request, requester, page.section)
            try:
                return await answer(page, visit)
            except Refusal as refusal:
                return self._refused_in_frame(visit, refusal)

        return answered

    async def _get(self, page: Page, visit: Visit) -> Response:
        if LIVE_PARAMETER in visit.request.query_params:
            return await follow(page, visit)
        return await page.get(visit)

    async def _post(self, page: Page, visit: Visit) -> Response:
        return await page.post(visit)

    def _not_let_in(self, request: Request, refusal: Refusal) -> Response:
        if refusal.status != 401:
            raise refusal
        if LIVE_PARAMETER in request.query_params or "hx-request" in request.headers:
            return Response(status_code=401, headers={**security_headers.PAGE, "hx-refresh": "true"})
        path = request.scope["raw_path"].decode("ascii", "replace")
        query = f"?{request.url.query}" if request.url.query and request.method == "GET" else ""
        target = f"{SIGN_IN_PATH}?next={quote(path + query, safe='')}"
        return RedirectResponse(target, SEE_OTHER, security_headers.PAGE)

    def _refused_in_frame(self, visit: Visit, refusal: Refusal) -> Response:
        template = "refusal_dialog.html" if visit.is_fragment else "refusal.html"
        html = visit.render(template, **_refusal_values(refusal))
        headers = {**security_headers.PAGE, **refusal.headers}
        return HTMLResponse(html, refusal.status, headers)

    def _refusal_page(self, template: str, refusal: Refusal) -> Response:
        html = self.console.templates.render(template, {**_refusal_values(refusal), "theme": ""})
        return HTMLResponse(html, refusal.status, {**security_headers.PAGE, **refusal.headers})

    async def _nothing(self, request: Request) -> Response:
        path = request.url.path
        return self.refused(Refusal(404, "not-found", f"{path:.200}: there is no such page"), path)

    async def _static(self, request: Request) -> Response:
        found = self.console.static_files.find(request.url.path)
        if found is None:
            raise Refusal(404, "not-found", "there is no such file; load the page again")
        headers = {**security_headers.FOREVER, "content-type": found.media_type}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.zipped, headers={**headers, "content-encoding": "gzip"})
        return Response(found.content, headers=headers)

    # Signing in and out.

    async def _sign_in_page(self, request: Request) -> Response:
        return await self._sign_in.show(self.console, request, theme_of(request))

    async def _signed_in(self, request: Request) -> Response:
        return await self._sign_in.signed_in(self.console, request, theme_of(request))

    async def _signed_out(self, request: Request) -> Response:
        return await self._sign_in.signed_out(self.console, request)


def _refusal_values(refusal: Refusal) -> dict[str, object]:
    status = refusal.status
    title = TITLES.get(status, "This didn't work")
    return {"status": status, "title": title, "what": str(refusal.body["what"])}
