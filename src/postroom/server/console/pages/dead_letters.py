"""Dead letters: which queues have them, why, and back with them."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_of
from postroom.manager.undeliverable.dead_letters import DESCRIPTION_KEY, ORIGIN_KEY, REASON_KEY
from postroom.model.entity_types import MESSAGE_TYPE, QUEUE_TYPE
from postroom.model.mq import reason_name
from postroom.model.names import full_address
from postroom.server.console.actions import Action, Confirmation, Field, Outcome
from postroom.server.console.formats import count, path_of
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import COUNT, SIZE, Column
from postroom.server.console.page import Figures, Page
from postroom.server.console.pages.queue_actions import matching, messages, queue_names, whole_number
from postroom.server.console.replays import Piece, Replay
from postroom.server.console.visit import Visit
from postroom.server.http.api.messages import shown
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

MAX_LETTERS: Final = 200
"""Read, with their bodies, for one page: groups and rows are of these."""
MAX_CHOSEN: Final = 1000
"""Serials of one selection."""
MAX_BODY_CHARS: Final = 80
JOB: Final = "replay"
"""Parameter of a page's URL: the key of a replay."""


class Letter(NamedTuple):
    """One dead letter, as a row."""

    serial: int
    reason: str
    origin: str
    description: str
    message_id: str
    body: str
    is_held: bool


class Group(NamedTuple):
    """Letters with one reason, of one queue."""

    reason: str
    origin: str
    serials: list[int]


def letter_of(row: Mapping[str, Any]) -> Letter:
    """Of a message as the management node shows it."""
    fields = shown(row)
    annotations = fields.get("annotations", {})
    header = header_of(annotations.get(DEAD_LETTER))
    if header is not None:
        reason, origin = reason_name(header.reason), full_address(header.queue, header.queue_manager)
    else:
        reason, origin = (str(annotations.get(key, "")) for key in (REASON_KEY, ORIGIN_KEY))
    body = fields.get("body", fields.get("body_base64", ""))
    return Letter(
        serial=int(fields["serial"]),
        reason=reason,
        origin=origin or str(fields.get("origin_queue", "")),
        description=str(annotations.get(DESCRIPTION_KEY, "")),
        message_id=str(fields.get("message_id", "")),
        body=str(body)[:MAX_BODY_CHARS],
        is_held="held_by" in fields,
    )


def groups_of(letters: list[Letter]) -> list[Group]:
    """By reason and origin, the largest first."""
    numbers = Counter((each.reason, each.origin) for each in letters)
    return [
        Group(*key, [each.serial for each in letters if (each.reason, each.origin) == key])
        for key, _ in numbers.most_common()
    ]


class DeadLetterQueues(ListPage, path="/dead-letters"):
    """Queues with dead letters."""

    title: ClassVar = "Dead letters"
    entity_type: ClassVar = QUEUE_TYPE
    what: ClassVar = "dead-letter queues"
    sort: ClassVar = "-messages_current"
    about: ClassVar = "What can't be delivered, is rejected or expires goes to these queues, with the reason."
    columns: ClassVar = (
        Column("name", "Queue", link=lambda row: path_of("dead-letters", row["name"])),
        Column("messages_current", "Current", COUNT),
        Column("messages_pending", "Pending", COUNT),
        Column("bytes_held", "Bytes", SIZE, wide=True),
        Column("users", "Queues that name it", COUNT, wide=True),
        Column("used_by", "Default of", wide=True),
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [
            {
                **row,
                "bytes_held": row["bytes_current"] + row["bytes_pending"],
                "used_by": "the queue manager" if row["is_default"] else "",
            }
            for row in visit.console.shared.figures.dead_letter_queues(visit.requester)
        ]


class ReplayLetters(Action, name="replay", label="Replay"):
    """Back to where they came from: one, a selection, or all that a selector matches."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        serials = chosen(visit.request.query_params.getlist("serial"))
        selector = visit.parameter("selector")
        to = Field(
            "to",
            "To queue",
            hint="without one each goes back to the queue that it came from",
            options=queue_names(visit),
        )
        if serials:
            effects = [f"{messages(len(serials))} of {name} that you have chosen."]
            fields = [to, Field("serials", "Serials", "hidden", ",".join(map(str, serials)))]
        else:
            number = await matching(visit, name, {"selector": selector} if selector else {})
            which = f" with selector {selector}" if selector else ""
            effects = [f"{messages(number)}{which} on {name} now."]
            fields = [to, Field("selector", "Selector", value=selector, hint="empty: all")]
        effects.append(
            "Those of them that nobody holds go back; their counts of deliveries begin again. They go piece "
            "by piece: you see how far it is, and can stop it between two pieces."
        )
        return Confirmation(f"Replay dead letters of {name}?", effects, fields)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        to = {"to": form["to"]} if form.get("to") else {}
        serials = chosen(form.get("serials", "").split(",") if form.get("serials") else [])
        which: Attributes = {"selector": form["selector"]} if form.get("selector") else {}
        # One piece is carried out at once: what is refused as a whole is told here.
        wanted = [{"serial": serial} for serial in serials] or [{**which, "in_pieces": True}]
        pieces: list[Piece] = [
            partial(visit.manage, "REPLAY", MESSAGE_TYPE, name, {**each, **to}) for each in wanted
        ]
        total = len(serials) or await matching(visit, name, which)
        replay = Replay(name, total, visit.requester.user)
        key = visit.console.replays.start(replay, pieces)
        return Outcome("", f"{path_of('dead-letters', name)}?{urlencode({JOB: key})}")


class StopReplay(Action, name="stop", label="Stop"):
    """Between two pieces."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        key = visit.parameter(JOB)
        replay = replay_of(visit, name, key)
        effects = [f"{count(replay.done)} of {messages(replay.total)} have gone back. The others stay here."]
        return Confirmation(f"Stop the replay of {name}?", effects, (Field(JOB, "Replay", "hidden", key),))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        replay = replay_of(visit, name, form.get(JOB, ""))
        replay.is_stopping = True
        place = f"{path_of('dead-letters', name)}?{urlencode({JOB: form.get(JOB, '')})}"
        return Outcome("The replay stops behind the piece that is under way.", place)


def replay_of(visit: Visit, name: str, key: str) -> Replay:
    """Its own user's alone. Raises `Refusal`."""
    replay = visit.console.replays.find(name, key)
    if replay is None or replay.user != visit.requester.user:
        raise Refusal(404, "not-found", "there is no such replay, or it ended long ago")
    return replay


def chosen(texts: list[str]) -> list[int]:
    """Serials. Raises `Refusal`."""
    if len(texts) > MAX_CHOSEN:
        raise Refusal(400, "too-many", f"{len(texts)} messages are chosen; at most {MAX_CHOSEN} at a time")
    return [whole_number(text, "serial") for text in texts]


class DeadLetters(Page, path="/dead-letters/{name:path}"):
    """Those on one queue: why, in groups, and each."""

    actions: ClassVar = (ReplayLetters(), StopReplay())
    interval_s: ClassVar = 0.5

    async def show(self, visit: Visit) -> Response:
        queue = await visit.manage("READ", QUEUE_TYPE, visit.name)
        key, letters = visit.parameter(JOB), await _letters(visit)
        return visit.page(
            "dead_letters.html",
            queue=queue,
            letters=letters,
            groups=groups_of(letters),
            replay_action=self.actions[0],
            stop_action=self.actions[1],
            replay=replay_of(visit, visit.name, key) if key else None,
            key=key,
            live_path=f"{visit.path}?{urlencode({'live': 1, JOB: key})}" if key else "",
        )

    async def figures(self, visit: Visit) -> Figures:
        key = visit.parameter(JOB)
        values = {"replay": replay_of(visit, visit.name, key), "key": key, "stop_action": self.actions[1]}
        return Figures({"progress": visit.render("replay_progress.html", **values)})


async def _letters(visit: Visit) -> list[Letter]:
    """The first of them; as many as there are, and as fit into few answers."""
    found: list[Letter] = []
    opened = await visit.manage("OPEN-CURSOR", MESSAGE_TYPE, visit.name, {"timeout_s": 60})
    place = {"cursor": opened["cursor"]}
    try:
        while len(found) < min(MAX_LETTERS, int(opened["count"])):
            wanted = {"offset": len(found), "count": MAX_LETTERS - len(found), "bodies": True}
            page = await visit.manage("READ-CURSOR", MESSAGE_TYPE, visit.name, {**place, **wanted})
            if not page["messages"]:
                break
            found += [letter_of(row) for row in page["messages"] if not row.get("gone")]
            if any(row.get("gone") for row in page["messages"]):
                break  # they are going under our eyes: what was read is enough
    finally:
        await visit.manage("CLOSE-CURSOR", MESSAGE_TYPE, visit.name, place)
    return found
