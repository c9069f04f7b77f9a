"""Connections: who is there, and what goes over them."""

from collections.abc import Mapping
from typing import ClassVar

from starlette.responses import Response

from postroom.model.entity_types import CONNECTION_TYPE
from postroom.server.console.actions import Action, Confirmation, Outcome
from postroom.server.console.formats import count, path_of
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, SIZE, TIME, Column
from postroom.server.console.page import Figures, Page
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

COLUMNS = (
    Column("name", "Address", link=lambda row: path_of("connections", row["name"])),
    Column("container_id", "Container", wide=True),
    Column("user", "User"),
    Column("opened_us", "Since", TIME, wide=True),
    Column("links", "Links", COUNT),
    Column("transactions", "Transactions", COUNT, wide=True),
    Column("messages_in", "Messages in", COUNT),
    Column("messages_out", "Messages out", COUNT),
    Column("bytes_in", "Bytes in", SIZE, wide=True),
    Column("bytes_out", "Bytes out", SIZE, wide=True),
    Column("state", "State", BADGE),
)


def _with_state(row: Attributes) -> Attributes:
    """With what is shown and no attribute."""
    states = [
        word
        for word, is_so in (
            ("sends blocked", row["blocked_sends"]),
            ("throttled", row["throttled"]),
            ("a channel's", row["outgoing"]),
        )
        if is_so
    ]
    return {**row, "state": ", ".join(states)}


class Close(Action, name="close", label="Close", danger=True):
    """End a client's connection."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        connection = await visit.manage("READ", CONNECTION_TYPE, name)
        if connection["outgoing"]:
            effects = ["This connection is a channel's: stop the channel."]
            return Confirmation(f"Close {name}", effects, possible=False)
        effects = [
            f"The client {connection['container_id']!r} of {connection['user']} is cut off, with "
            f"{count(connection['links'])} links.",
            f"{count(connection['unsettled'])} deliveries that it hasn't settled go back to their queues; "
            f"{count(connection['transactions'])} open transactions are rolled back.",
            "A client with fail-over connects again.",
        ]
        return Confirmation(f"Close the connection from {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("CLOSE", CONNECTION_TYPE, name)
        return Outcome(f"Closed: the connection from {name}.", "/connections")


class ConnectionList(ListPage, path="/connections"):
    """All of them."""

    entity_type: ClassVar = CONNECTION_TYPE
    columns: ClassVar = COLUMNS
    what: ClassVar = "connections"
    searched: ClassVar = ("name", "container_id", "user")

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [_with_state(row) for row in await visit.rows(CONNECTION_TYPE)]


class OneConnection(Page, path="/connections/{name:path}"):
    """One of them, by the remote address."""

    actions: ClassVar = (Close(),)

    async def show(self, visit: Visit) -> Response:
        connection = await self._read(visit)
        live = f"{visit.path}?live=1"
        return visit.page("connection.html", connection=connection, actions=self.actions, live_path=live)

    async def figures(self, visit: Visit) -> Figures:
        connection = await self._read(visit)
        return Figures({"figures": visit.render("connection_figures.html", connection=connection)})

    async def _read(self, visit: Visit) -> Attributes:
        return _with_state(await visit.manage("READ", CONNECTION_TYPE, visit.name))
