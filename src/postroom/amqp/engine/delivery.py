"""A message under way, as the sending end keeps it."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.frames.outcomes import DeliveryState


@final
class Delivery:
    """A message that this end has sent; ``context`` is the application's own.

    ``settled`` turns True when either end settles, ``state`` is what the peer said last.
    """

    __slots__ = ("context", "id", "link", "message_format", "settled", "state", "tag")

    def __init__(
        self, id: i64, link: LinkState, tag: bytes, message_format: i64, settled: bool, context: object
    ) -> None:
        self.id = id
        self.link = link
        self.tag = tag
        self.message_format = message_format
        self.settled = settled
        self.state: DeliveryState | None = None
        self.context = context


@final
class Received:
    """A message of the peer that is not settled, and the link that it came on."""

    __slots__ = ("id", "link", "tag")

    def __init__(self, id: i64, link: LinkState, tag: bytes) -> None:
        self.id = id
        self.link = link
        self.tag = tag


@final
class Piece:
    """Payload of a delivery that waits for the session's window, or doesn't fit into one frame."""

    __slots__ = ("aborted", "delivery", "first", "more", "offset", "payload", "resume", "state")

    def __init__(
        self,
        delivery: Delivery,
        payload: bytes,
        first: bool,
        more: bool,
        aborted: bool,
        resume: bool,
        state: DeliveryState | None,
    ) -> None:
        self.delivery = delivery
        self.payload = payload
        self.offset: i64 = 0
        self.first = first
        self.more = more
        self.aborted = aborted
        self.resume = resume
        self.state = state


def present_ids(
    known: dict[int, Delivery] | dict[int, Received] | dict[int, None], first: i64, last: i64
) -> list[int]:
    """The ids of the range ``first`` .. ``last`` (serials, both included) that are in ``known``, oldest
    first.

    Costs the smaller of the range and the map, so that a range of 2³¹ costs a peer more than us.
    """
    count: i64 = ((last - first) & 0xFFFF_FFFF) + 1
    if count <= len(known):
        return _present_in_range(known, first, count)
    return [id for id in known if ((id - first) & 0xFFFF_FFFF) < count]


def _present_in_range(
    known: dict[int, Delivery] | dict[int, Received] | dict[int, None], first: i64, count: i64
) -> list[int]:
    found: list[int] = []
    id: i64 = first
    while count > 0:
        if id in known:
            found.append(id)
        id = (id + 1) & 0xFFFF_FFFF
        count -= 1
    return found
