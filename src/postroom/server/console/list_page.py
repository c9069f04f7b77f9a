"""Pages that are a list of all things of one type, each with a page of its own."""

from collections.abc import Sequence
from typing import ClassVar

from starlette.responses import Response

from postroom.server.console.listing import Column, Listing
from postroom.server.console.page import Figures, Page
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes


class ListPage(Page):
    """Everything of a type that the user may see."""

    entity_type: ClassVar[str]
    columns: ClassVar[Sequence[Column]]
    what: ClassVar[str]
    """The rows' plural."""
    title: ClassVar[str] = ""
    """Unless it is ``what``."""
    searched: ClassVar[Sequence[str]] = ("name",)
    sort: ClassVar[str] = "name"
    about: ClassVar[str] = ""
    """What such a thing is, in a sentence."""
    interval_s: ClassVar[float] = 5.0
    max_followed: ClassVar[float] = 1000
    """With more rows the list stands still: to follow it would be work for the broker."""

    async def rows(self, visit: Visit) -> list[Attributes]:
        """What is listed, with everything that its columns show."""
        return await visit.rows(self.entity_type)

    async def show(self, visit: Visit) -> Response:
        rows = await self.rows(visit)
        listing = self._listing(visit, rows)
        if visit.is_fragment:
            return visit.page("listing.html", listing=listing)
        live = f"{visit.path}{listing.url(live=1)}" if len(rows) <= self.max_followed else ""
        return visit.page(
            "list.html",
            title=self.title or self.what.capitalize(),
            about=self.about,
            listing=listing,
            actions=self.actions,
            live_path=live,
        )

    async def figures(self, visit: Visit) -> Figures:
        listing = self._listing(visit, await self.rows(visit))
        return Figures({"rows": visit.render("listing_rows.html", listing=listing)})

    def _listing(self, visit: Visit, rows: list[Attributes]) -> Listing:
        return Listing(visit, rows, self.columns, self.what, self.searched, self.sort)
