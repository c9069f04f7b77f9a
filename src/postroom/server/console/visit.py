"""One request of a page: who makes it, what it shows, and what it does through the management node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.server.console import security_headers
from postroom.server.console.notices import Notices
from postroom.server.console.replays import Replays
from postroom.server.console.samples import Samples
from postroom.server.console.static_files import StaticFiles
from postroom.server.console.templating import Templates
from postroom.server.http.bodies import form_of
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import Shared
from postroom.server.management.request import Attributes, Requester

THEME_COOKIE: Final = "postroom-theme"
THEMES: Final = frozenset({"light", "dark"})
NOTICE: Final = "notice"
"""Parameter of a page's URL: the key of what an action has done."""
SEE_OTHER: Final = 303


@dataclass(frozen=True)
class Console:
    """What all pages share."""

    shared: Shared
    static_files: StaticFiles
    templates: Templates
    notices: Notices
    samples: Samples
    replays: Replays
    paths: frozenset[str]
    """Of the pages without a parameter: the navigation shows no others."""


class Visit:
    """One request by a user who may be here."""

    def __init__(self, console: Console, request: Request, requester: Requester, section: str) -> None:
        """``section``: the path of the navigation's entry that is marked."""
        self.console: Final = console
        self.request: Final = request
        self.requester: Final = requester
        self.section: Final = section
        self.csrf_token: Final = console.shared.requesters.csrf_token(request)

    # What was sent.

    @property
    def path(self) -> str:
        """Of the page, quoted as in its URL."""
        raw: bytes = self.request.scope["raw_path"]
        return raw.decode("ascii", "replace")

    @property
    def name(self) -> str:
        """The path's parameter."""
        return str(self.request.path_params.get("name", ""))

    @property
    def is_fragment(self) -> bool:
        """Whether htmx wants the part of the page that has changed."""
        return self.request.headers.get("hx-request") == "true"

    def parameter(self, key: str, default: str = "") -> str:
        """Of the query."""
        return self.request.query_params.get(key, default)

    async def form(self) -> dict[str, str]:
        """The fields of the form that was sent."""
        return await form_of(self.request, self.console.shared.config)

    # What is known and done.

    async def manage(
        self,
        operation: str,
        entity_type: str = "",
        name: str = "",
        body: Mapping[str, object] | None = None,
        **properties: object,
    ) -> Attributes:
        """The body of the management node's answer, which is a map. Raises `Refusal` where it refuses."""
        answer = await self.console.shared.gateway.request(
            self.requester, operation, entity_type, name, body, **properties
        )
        if answer.status >= 400:
            raise Refusal(answer.status, "refused", answer.description, condition=answer.condition)
        return cast(dict[str, Any], answer.body) if isinstance(answer.body, dict) else {}

    async def rows(self, entity_type: str) -> list[Attributes]:
        """Everything of a type that the user may see. Raises `Refusal`."""
        return await self.console.shared.gateway.all_rows(self.requester, entity_type)

    # What is answered.

    def render(self, template: str, /, **values: object) -> str:
        """HTML of a page or a part of it."""
        return self.console.templates.render(template, {**self._frame(), **values})

    def page(self, template: str, /, status: int = 200, **values: object) -> Response:
        """A page as the answer."""
        return HTMLResponse(self.render(template, **values), status, security_headers.PAGE)

    def go(self, path: str, done: str = "") -> Response:
        """Another page, which says what was done."""
        key = self.console.notices.keep(done, self.csrf_token) if done else ""
        mark = "&" if "?" in path else "?"
        url = f"{path}{mark}{NOTICE}={key}" if key else path
        return RedirectResponse(url, SEE_OTHER, security_headers.PAGE)

    def _frame(self) -> dict[str, object]:
        key = self.parameter(NOTICE)
        return {
            "visit": self,
            "section": self.section,
            "user": self.requester.user,
            "has_session": self.console.shared.requesters.session_of(self.request) is not None,
            "csrf_token": self.csrf_token,
            "theme": theme_of(self.request),
            "paths": self.console.paths,
            "notice": self.console.notices.take(key, self.csrf_token) if key else "",
            "live_path": "",
        }


def theme_of(request: Request) -> str:
    """ "light" or "dark"; "": as the browser has it."""
    theme = request.cookies.get(THEME_COOKIE, "")
    return theme if theme in THEMES else ""
