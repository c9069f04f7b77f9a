"""Channels: their states and batches, and what an operator does with them."""

from collections.abc import Mapping
from typing import ClassVar, Final

from starlette.responses import Response

from postroom.model.entity_types import CHANNEL_TYPE
from postroom.server.console.actions import Action, Confirmation, Field, Outcome
from postroom.server.console.formats import count, duration, path_of, words
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, SIZE, TIME, Column
from postroom.server.console.page import Figures, Page
from postroom.server.console.pages.queue_actions import messages, whole_number
from postroom.server.console.visit import Visit
from postroom.server.management.request import Attributes

COLUMNS = (
    Column("name", "Channel", link=lambda row: path_of("channels", row["name"])),
    Column("channel_type", "Type", wide=True),
    Column("partner", "Partner"),
    Column("state", "State", BADGE),
    Column("messages", "Messages", COUNT),
    Column("bytes", "Bytes", SIZE, wide=True),
    Column("batches", "Batches", COUNT, wide=True),
    Column("in_doubt_messages", "In doubt", COUNT),
    Column("last_message_us", "Last message", TIME, wide=True),
)
STATUS: Final = (
    "partner", "address", "started_us", "last_message_us", "messages", "bytes", "batches", "current_sequence",
    "current_messages", "current_luwid", "last_sequence", "reset_sequence", "last_luwid", "in_doubt_luwid",
    "short_retries_left", "long_retries_left", "retry_us", "reason", "since_us",
)  # fmt: skip
"""Attributes that are no settings, as the page has them."""
STATES: Final = frozenset({"state", "name", "in_doubt", "in_doubt_messages", *STATUS})
MODES: Final = ("quiesce", "force", "terminate")
AFTER: Final = ("stopped", "inactive")
DECISIONS: Final = ("commit", "backout")


class _OfChannel(Action):
    """One that answers with the channel."""

    @staticmethod
    def outcome(name: str, text: str) -> Outcome:
        return Outcome(text, path_of("channels", name))


class Start(_OfChannel, name="start", label="Start"):
    """Have it run."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        channel = await visit.manage("READ", CHANNEL_TYPE, name)
        effects = [f"The channel is {words(channel['state'])}. It connects to its partner and goes on."]
        return Confirmation(f"Start {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        channel = await visit.manage("START", CHANNEL_TYPE, name)
        return self.outcome(name, f"Started: {name} is {words(channel['state'])}.")


class Stop(_OfChannel, name="stop", label="Stop", danger=True):
    """Have it rest."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        channel = await visit.manage("READ", CHANNEL_TYPE, name)
        effects = [
            f"The channel is {words(channel['state'])}. Messages wait on their transmission queue until it "
            "is started again.",
            "quiesce ends behind the batch that is under way; force breaks the connection, and the batch may "
            "be in doubt until the channel has started again; terminate does that whatever it waits for.",
        ]
        fields = (
            Field("mode", "How", "select", MODES[0], options=MODES),
            Field("status", "It is then", "select", AFTER[0], "inactive may start by itself", AFTER),
        )
        return Confirmation(f"Stop {name}?", effects, fields)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        wanted = {key: form.get(key, "") for key in ("mode", "status")}
        channel = await visit.manage("STOP", CHANNEL_TYPE, name, wanted)
        return self.outcome(name, f"Stopping: {name} is {words(channel['state'])}.")


class Resolve(_OfChannel, name="resolve", label="Resolve", danger=True):
    """Decide a batch in doubt."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        channel = await visit.manage("READ", CHANNEL_TYPE, name)
        doubtful = channel["in_doubt_messages"]
        if not channel["in_doubt"]:
            return Confirmation(f"Resolve {name}", ["Nothing is in doubt."], possible=False)
        effects = [
            f"A batch of {messages(doubtful)} is in doubt: the partner was sent it, and its answer is lost. "
            "Usually the channel finds out by itself when it starts again.",
            "Ask the partner's administrator for the last logical unit of work "
            f"({channel['in_doubt_luwid']} is the one in doubt). commit deletes these messages here: right "
            "if the partner has them; if not they are lost. backout puts them back: right if the partner "
            "doesn't have them; if it has, they are there twice.",
        ]
        action = Field("action", "Decision", "select", "", options=("", *DECISIONS), required=True)
        return Confirmation(f"Resolve {name}?", effects, (action,))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("RESOLVE", CHANNEL_TYPE, name, {"action": form.get("action", "")})
        return self.outcome(name, f"Resolved: {name}, by {form.get('action', '')}.")


class Reset(_OfChannel, name="reset", label="Reset", danger=True):
    """Begin with another sequence number."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        channel = await visit.manage("READ", CHANNEL_TYPE, name)
        effects = [
            f"The next message gets this sequence number; now it is at {count(channel['current_sequence'])}. "
            "Both ends must agree, or the channel doesn't start."
        ]
        fields = (Field("sequence", "Sequence number", "number", "1", required=True),)
        return Confirmation(f"Reset {name}?", effects, fields)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        number = whole_number(form.get("sequence", ""), "sequence")
        await visit.manage("RESET", CHANNEL_TYPE, name, {"sequence": number})
        return self.outcome(name, f"Reset: {name} goes on with {number}.")


class Ping(_OfChannel, name="ping", label="Ping"):
    """Try to reach the partner."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        await visit.manage("READ", CHANNEL_TYPE, name)
        return Confirmation(f"Ping the partner of {name}?", ["A connection is opened, and closed again."])

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        found = await visit.manage("PING", CHANNEL_TYPE, name)
        text = f"The partner, {found['partner']}, has answered within {duration(found['took_us'])}."
        return self.outcome(name, text)


class DeleteChannel(Action, name="delete", label="Delete", danger=True):
    """Its definition."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        channel = await visit.manage("READ", CHANNEL_TYPE, name)
        effects = ["The definition goes, with its sequence numbers. Messages on its transmission queue stay."]
        is_possible = channel["state"] in AFTER and not channel["in_doubt"]
        if not is_possible:
            effects = [f"The channel is {words(channel['state'])}: stop it, and resolve what is in doubt."]
        return Confirmation(f"Delete channel {name}?", effects, possible=is_possible)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("DELETE", CHANNEL_TYPE, name)
        return Outcome(f"Deleted: channel {name}.", "/channels")


class ChannelList(ListPage, path="/channels"):
    """All of them."""

    entity_type: ClassVar = CHANNEL_TYPE
    columns: ClassVar = COLUMNS
    what: ClassVar = "channels"
    searched: ClassVar = ("name", "partner", "state")
    about: ClassVar = (
        "A channel moves messages from a transmission queue to a partner, or takes them from one: each once, "
        "in order, in batches."
    )


class OneChannel(Page, path="/channels/{name:path}"):
    """One of them, by its name."""

    actions: ClassVar = (Start(), Stop(), Ping(), Resolve(), Reset(), DeleteChannel())

    async def show(self, visit: Visit) -> Response:
        channel = await visit.manage("READ", CHANNEL_TYPE, visit.name)
        live = f"{visit.path}?live=1"
        values = _shown(channel)
        return visit.page("channel.html", actions=self.actions, live_path=live, **values)

    async def figures(self, visit: Visit) -> Figures:
        channel = await visit.manage("READ", CHANNEL_TYPE, visit.name)
        return Figures({"figures": visit.render("channel_figures.html", **_shown(channel))})


def _shown(channel: Attributes) -> Attributes:
    settings = [(words(key), value) for key, value in sorted(channel.items()) if key not in STATES]
    return {"channel": channel, "settings": settings}
