"""What a page is: a path, what it shows, how its figures follow, and what can be done from it.

A page is one class derived from `Page`, named in `pages.PAGES`. Its actions are classes derived from
`actions.Action`: ``GET PATH?act=NAME`` says what it will do and asks for a confirmation, ``POST`` does it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from starlette.responses import Response

from postroom.server.console.actions import Action, shown_confirmation
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal

ACT: Final = "act"
"""Parameter of a page's URL: which of its actions."""


@dataclass(frozen=True)
class Figures:
    """What of a page has changed."""

    parts: dict[str, str] = field(default_factory=dict)
    """HTML by the id of the element whose content it is."""
    series: str = ""
    """The key of what `samples` has of it, for its charts; "": none."""


class Page:
    """A page of the console."""

    path: ClassVar[str]
    """As a route has it; a parameter is ``{name:path}``."""
    section: ClassVar[str]
    """The path of the navigation's entry that is marked: as far as a page's own begins with it."""
    actions: ClassVar[Sequence[Action]] = ()
    interval_s: ClassVar[float] = 2.0
    """Between two looks at its figures while it is open."""

    def __init_subclass__(cls, path: str = "") -> None:
        if path:
            cls.path, cls.section = path, "/" + path.split("/")[1]

    async def show(self, visit: Visit) -> Response:
        """The answer to GET."""
        raise NotImplementedError

    async def figures(self, visit: Visit) -> Figures:
        """What has to follow while the page is open; pages that stand still leave it so."""
        raise Refusal(404, "not-found", "this page has no figures that follow")

    async def get(self, visit: Visit) -> Response:
        """The page, or one of its actions to be confirmed."""
        name = visit.parameter(ACT)
        if not name:
            return await self.show(visit)
        return await shown_confirmation(visit, self._action(name))

    async def post(self, visit: Visit) -> Response:
        """One of its actions is carried out."""
        action, form = self._action(visit.parameter(ACT)), await visit.form()
        try:
            outcome = await action.carry_out(visit, visit.name, form)
        except Refusal as refusal:
            return await shown_confirmation(visit, action, form, refusal)
        return visit.go(outcome.location, outcome.text)

    def _action(self, name: str) -> Action:
        for action in self.actions:
            if action.name == name:
                return action
        raise Refusal(404, "not-found", f"nothing called {name!r:.80} can be done here")
