"""The list of queues."""

from typing import ClassVar, Final

from starlette.responses import Response

from postroom.server.console.formats import path_of
from postroom.server.console.listing import BADGE, COUNT, SIZE, Column, Listing
from postroom.server.console.page import Figures, Page
from postroom.server.console.pages.queue_actions import CreateQueue
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

COLUMNS: Final = (
    Column("name", "Queue", link=lambda row: path_of("queues", row["name"])),
    Column("messages_current", "Current", COUNT),
    Column("messages_pending", "Pending", COUNT),
    Column("bytes_held", "Bytes", SIZE, wide=True),
    Column("consumers", "Consumers", COUNT),
    Column("blocked_sends", "Blocked sends", COUNT, wide=True),
    Column("messages_received", "Put", COUNT, wide=True),
    Column("messages_consumed", "Consumed", COUNT, wide=True),
    Column("state", "State", BADGE),
)
MAX_FOLLOWED: Final = 1000
"""With more queues the list stands still: to follow it would be work for the machine."""


class QueueList(Page):
    """All queues that the user may see."""

    path: ClassVar = "/queues"
    actions: ClassVar = (CreateQueue(),)
    interval_s: ClassVar = 5.0

    async def show(self, visit: Visit) -> Response:
        rows = visit.console.shared.figures.listed(visit.requester)
        listing = Listing(visit, map(_with_sums, rows), COLUMNS, "queues", sort="name")
        if visit.is_fragment:
            return visit.page("listing.html", listing=listing)
        live = f"{visit.path}{listing.url(live=1)}" if len(rows) <= MAX_FOLLOWED else ""
        return visit.page("queues.html", listing=listing, actions=self.actions, live_path=live)

    async def figures(self, visit: Visit) -> Figures:
        rows = map(_with_sums, visit.console.shared.figures.listed(visit.requester))
        listing = Listing(visit, rows, COLUMNS, "queues", sort="name")
        return Figures({"rows": visit.render("listing_rows.html", listing=listing)})


def _with_sums(row: Attributes) -> Attributes:
    """With what is shown and no attribute."""
    switches = ("production", "insertion", "consumption")
    paused = [each for each in switches if row[f"{each}_paused"]]
    state = f"{' and '.join(paused)} paused" if paused else ""
    return {**row, "bytes_held": row["bytes_current"] + row["bytes_pending"], "state": state}
