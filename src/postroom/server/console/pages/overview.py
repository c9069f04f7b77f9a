"""The overview: whether all is well, and how much is going on."""

import shutil
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE, MEMBER_TYPE
from postroom.server.console import figures
from postroom.server.console.page import Figures, Page
from postroom.server.console.samples import Series
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

SERIES: Final = "broker"
MAX_QUEUES_RANKED: Final = 2000
"""With more queues the overview doesn't go through them; the list of queues does."""
DEEPEST: Final = 8


class Overview(Page, path="/"):
    """Of the whole broker."""

    async def show(self, visit: Visit) -> Response:
        try:
            values = await _values(visit)
        except Refusal as refusal:
            if refusal.status != 403:
                raise
            return visit.go("/queues")  # who may not see the broker sees what is theirs
        return visit.page(
            "overview.html",
            **values,
            live_path="/?live=1",
            rates=figures.chart("rate", figures.RATES, "messages/s"),
            depths=figures.chart("depth", figures.DEPTHS, "messages"),
            deepest=_deepest(visit, values["broker"]["queues"]),
        )

    async def figures(self, visit: Visit) -> Figures:
        values = await _values(visit)
        parts = {name: visit.render(f"overview_{name}.html", **values) for name in ("figures", "ledger")}
        return Figures(parts, SERIES)


async def _values(visit: Visit) -> dict[str, Any]:
    broker = await _broker(visit)
    series = await visit.console.samples.watch(SERIES, partial(_sample, visit))
    return {
        "broker": broker,
        "rates_now": _rates(series),
        "bar": figures.depth_bar(broker),
        "members": await visit.rows(MEMBER_TYPE),
        "disk": shutil.disk_usage(visit.console.shared.data_folder),
    }


async def _sample(visit: Visit) -> dict[str, float]:
    return figures.sample_of(await _broker(visit))


async def _broker(visit: Visit) -> Attributes:
    """Raises `Refusal`, which the management node records."""
    row = visit.console.shared.figures.broker_row(visit.requester)
    return row if row is not None else await visit.manage("READ", BROKER_TYPE, BROKER_NAME)


def _rates(series: Series) -> dict[str, float | None]:
    return {share.counter: series.rate(share.counter) for share in figures.RATES}


def _deepest(visit: Visit, queues: int) -> list[Attributes]:
    """The queues with most messages."""
    if queues > MAX_QUEUES_RANKED:
        return []
    rows = visit.console.shared.figures.listed(visit.requester)
    held = [row for row in rows if row["messages_current"] + row["messages_pending"]]
    held.sort(key=lambda row: -(row["messages_current"] + row["messages_pending"]))
    return held[:DEEPEST]
