"""The list of queues."""

from typing import ClassVar

from postroom.server.console.formats import path_of
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, SIZE, Column
from postroom.server.console.pages.queue_actions import CreateQueue, with_sums
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes


class QueueList(ListPage, path="/queues"):
    """All queues that the user may see."""

    what: ClassVar = "queues"
    actions: ClassVar = (CreateQueue(),)
    columns: ClassVar = (
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

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [with_sums(row) for row in visit.console.shared.figures.listed(visit.requester)]
