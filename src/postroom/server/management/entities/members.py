"""The members of a replicated queue manager, as the active one shows them, lets them go, and hands over."""

from collections.abc import Iterable, Mapping
from typing import Final

from postroom.model.entity_types import MEMBER_TYPE
from postroom.replication.log import MemberNote
from postroom.server.kernel.members import members_of
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    CONFLICT,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    Request,
    RequestError,
    Response,
)

ACTIVE: Final = "active"
FOLLOWER: Final = "follower"


class MemberEntities(ListedEntityType[MemberNote]):
    """What the members have said of themselves last."""

    type: Final = MEMBER_TYPE

    def name_of(self, thing: MemberNote) -> str:
        return thing.member

    def make_columns(self) -> Columns[MemberNote]:
        members = members_of(self.broker)
        return {
            **same_named("state", "sequence", "position", "time_us", "version"),
            "behind": lambda note: members.lag(note).entries,
            "behind_bytes": lambda note: members.lag(note).size_bytes,
            "behind_s": lambda note: round(members.lag(note).seconds),
            "urls": lambda note: list(note.urls),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {"READ": self.read, "DELETE": self._forget, "HAND-OVER": self._hand_over}

    def all(self) -> Iterable[MemberNote]:
        return members_of(self.broker).notes()

    def find(self, request: Request) -> MemberNote:
        name = request.required_name()
        for note in self.all():
            if note.member == name:
                return note
        raise RequestError(NOT_FOUND, f"there is no member {name!r}")

    def _forget(self, request: Request, now_us: int) -> Response:
        """The log waits for it no longer; one that still runs says soon that it is there."""
        note = self.find(request)
        if note.state == ACTIVE:
            raise RequestError(CONFLICT, f"{note.member!r} is the active member: hand over to another first")
        members_of(self.broker).forget(note.member)
        return Response(NO_CONTENT, "removed", {})

    def _hand_over(self, request: Request, now_us: int) -> Response:
        note = self.find(request)
        if note.state == ACTIVE:
            raise RequestError(CONFLICT, f"{note.member!r} is the active member already")
        if note.state != FOLLOWER:
            raise RequestError(CONFLICT, f"{note.member!r} is {note.state}: wait until it follows")
        members_of(self.broker).hand_over(note.member)
        return Response(OK, "hands over", self.shown(note))
