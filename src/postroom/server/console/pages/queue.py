"""One queue: its figures now and over time, who uses it, its messages, its settings."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from starlette.responses import Response

from postroom.manager.destinations.switches import SWITCHES
from postroom.manager.kernel.options import QUEUE_SETTINGS
from postroom.model.entity_types import QUEUE_TYPE
from postroom.server.clock import wall_us
from postroom.server.console import figures
from postroom.server.console.actions import Action
from postroom.server.console.formats import words
from postroom.server.console.page import Figures, Page
from postroom.server.console.pages import queue_actions as actions
from postroom.server.console.pages.browse import browsed
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

VIEW: Final = "view"
MESSAGES, SETTINGS = "messages", "settings"
ENDS: Final = (
    "consumed", "expired", "deleted", "purged", "moved", "dead_lettered", "redirected", "returned_to_sender",
    "forwarded", "discarded", "rolled_back", "lost",
)  # fmt: skip


class OneQueue(Page, path="/queues/{name:path}"):
    """One of them, by its name. ``?view=messages`` shows what is on it, ``?view=settings`` how it is set."""

    entity_type: ClassVar = QUEUE_TYPE
    actions: ClassVar[Sequence[Action]] = (
        actions.PutMessage(),
        actions.MoveMessages(),
        actions.Pause(),
        actions.Resume(),
        actions.ChangeSettings(),
        actions.DeleteMessages(),
        actions.Purge(),
        actions.DeleteQueue(),
    )

    async def show(self, visit: Visit) -> Response:
        queue = await visit.manage("READ", self.entity_type, visit.name)
        frame: Attributes = {
            "queue": queue,
            "actions": offered(self.actions, queue),
            "list_path": self.section,
            "list_title": self.section[1:].capitalize(),
        }
        view = visit.parameter(VIEW)
        if view == MESSAGES:
            return visit.page("queue_messages.html", **frame, **await browsed(visit, visit.name))
        if view == SETTINGS:
            settings = [(words(name), shown_setting(queue[name])) for name in QUEUE_SETTINGS]
            return visit.page("queue_settings.html", **frame, settings=settings)
        return visit.page(
            "queue.html",
            **frame,
            **await self._values(visit, queue),
            rates=figures.chart("rate", figures.RATES, "messages/s"),
            depths=figures.chart("depth", figures.DEPTHS, "messages"),
            live_path=f"{visit.path}?live=1",
        )

    async def figures(self, visit: Visit) -> Figures:
        queue = await visit.manage("READ", self.entity_type, visit.name)
        values = {"queue": queue, **await self._values(visit, queue)}
        parts = {name: visit.render(f"queue_{name}.html", **values) for name in ("figures", "users")}
        return Figures(parts, _series_of(visit.name))

    async def _values(self, visit: Visit, queue: Attributes) -> dict[str, Any]:
        series = await visit.console.samples.watch(_series_of(visit.name), partial(self._sample, visit))
        held = await visit.manage("HOLDERS", self.entity_type, visit.name)
        return {
            "rates_now": {share.counter: series.rate(share.counter) for share in figures.RATES},
            "bar": figures.depth_bar(queue),
            "holders": held["holders"],
            "more_holders": held["more"],
            "producers": held["producers"],
            "now_us": wall_us(),
            "ends": [(each, queue[f"messages_{each}"]) for each in ENDS if queue[f"messages_{each}"]],
        }

    async def _sample(self, visit: Visit) -> Mapping[str, float]:
        return figures.sample_of(await visit.manage("READ", self.entity_type, visit.name))


def _series_of(name: str) -> str:
    return f"queue {name}"


def offered(known: Sequence[Action], queue: Attributes) -> list[Action]:
    """Those that make sense: nothing paused can't be resumed."""
    is_paused = any(queue[f"{switch}_paused"] for switch in SWITCHES)
    return [each for each in known if is_paused or not isinstance(each, actions.Resume)]


def shown_setting(value: object) -> str:
    """A setting's value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value in ("", -1) else f"{value:,}" if isinstance(value, int) else str(value)
