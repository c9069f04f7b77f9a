"""What can be done to a queue and to the messages on it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from postroom.manager.destinations.switches import SWITCHES
from postroom.manager.kernel.options import QUEUE_SETTINGS, QueueDefinition
from postroom.model.entity_types import MESSAGE_TYPE, QUEUE_TYPE, SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.model.settings import bounds_of, types_of
from postroom.server.console.actions import Action, Confirmation, Field, Outcome
from postroom.server.console.formats import count, path_of, size, words
from postroom.server.console.pages.browse import STATES
from postroom.server.console.visit import Visit
from postroom.server.http.api.messages import NewMessage, encoded
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes

ALL: Final = "all"
MAX_PROPOSED: Final = 1000
"""Names of queues that a form proposes."""
TYPES: Final = types_of(QueueDefinition)
BOUNDS: Final = bounds_of(QueueDefinition)


def messages(number: int) -> str:
    """So many of them."""
    return "1 message" if number == 1 else f"{count(number)} messages"


def queue_names(visit: Visit) -> list[str]:
    """Those that forms propose."""
    return visit.console.shared.figures.names(visit.requester, MAX_PROPOSED)


def paused_of(row: Attributes) -> str:
    """Which switches are off, in words."""
    paused = [each for each in SWITCHES if row[f"{each}_paused"]]
    return f"{' and '.join(paused)} paused" if paused else ""


def with_sums(row: Attributes) -> Attributes:
    """With what lists show and no attribute."""
    return {**row, "bytes_held": row["bytes_current"] + row["bytes_pending"], "state": paused_of(row)}


async def matching(visit: Visit, name: str, which: Attributes) -> int:
    """How many messages are meant now."""
    opened = await visit.manage("OPEN-CURSOR", MESSAGE_TYPE, name, which)
    await visit.manage("CLOSE-CURSOR", MESSAGE_TYPE, name, {"cursor": opened["cursor"]})
    return int(opened["count"])


FOLDERS: Final = {QUEUE_TYPE: "queues", TOPIC_TYPE: "topics", SUBSCRIPTION_TYPE: "subscriptions"}
"""Where the pages of things of a type are."""


class DestinationAction(Action):
    """One that queues, topics and subscriptions have, or some of them."""

    def __init__(self, entity_type: str = QUEUE_TYPE) -> None:
        self.entity_type: Final = entity_type

    def place(self, name: str) -> str:
        """The page of one."""
        return path_of(FOLDERS[self.entity_type], name)


class Purge(DestinationAction, name="purge", label="Purge", danger=True):
    """Remove everything that can be."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        queue = await visit.manage("READ", self.entity_type, name)
        current, pending = queue["messages_current"], queue["messages_pending"]
        effects = [
            f"This deletes {messages(current)} ({size(queue['bytes_current'])}) that can be received now.",
            "They are gone for good; the ledger keeps that they were there, and who purged them.",
        ]
        if pending:
            effects.append(
                f"Of {messages(pending)} pending, those that nobody holds go, too; what consumers, "
                "transactions or locks hold stays."
            )
        return Confirmation(f"Purge {name}?", effects)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        done = await visit.manage("PURGE", self.entity_type, name)
        return Outcome(f"Purged: {messages(int(done['purged']))} deleted.", self.place(name))


class _OfSome(DestinationAction):
    """One that means some messages: by selector and state, or one by its serial."""

    @staticmethod
    def fields(visit: Visit) -> list[Field]:
        serial = visit.parameter("serial")
        if serial:
            return [Field("serial", "Serial", "number", serial, "of this one message alone", required=True)]
        return [
            Field("selector", "Selector", "text", visit.parameter("selector"), "for example color = 'red'"),
            Field("state", "State", "select", visit.parameter("state") or ALL, options=(ALL, *STATES)),
        ]

    @staticmethod
    def which(given: Mapping[str, str]) -> Attributes:
        """As requests say it. Raises `Refusal`."""
        found: Attributes = {}
        if given.get("serial"):
            found["serial"] = whole_number(given["serial"], "serial")
        if given.get("selector"):
            found["selector"] = given["selector"]
        if given.get("state", ALL) not in (ALL, ""):
            found["states"] = [given["state"]]
        return found

    async def meant(self, visit: Visit, name: str) -> tuple[int, str]:
        """How many there are now of those that the URL's parameters mean, and in words which."""
        given = {key: visit.parameter(key) for key in ("serial", "selector", "state")}
        number = await matching(visit, name, self.which(given))
        shown = ", ".join(f"{key} {value}" for key, value in given.items() if value and value != ALL)
        return number, f" with {shown}" if shown else ""


class DeleteMessages(_OfSome, name="delete-messages", label="Delete messages", danger=True):
    """Some messages."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        number, which = await self.meant(visit, name)
        effects = [
            f"{messages(number)}{which} on {name} now. Those that nobody holds are deleted, for good.",
        ]
        return Confirmation(f"Delete messages of {name}?", effects, self.fields(visit))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        done = await visit.manage("DELETE-MESSAGES", MESSAGE_TYPE, name, self.which(form))
        return Outcome(
            f"Deleted: {messages(int(done['count']))}.", f"{path_of('queues', name)}?view=messages"
        )


class MoveMessages(_OfSome, name="move", label="Move messages"):
    """Some messages, to another queue."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        number, which = await self.meant(visit, name)
        effects = [
            f"{messages(number)}{which} on {name} now. Those of them that nobody holds go to the end of the "
            "other queue, all or none."
        ]
        names = [each for each in queue_names(visit) if each != name]
        target = Field("to", "To queue", options=names, required=True)
        return Confirmation(f"Move messages of {name}", effects, [target, *self.fields(visit)])

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        which = {**self.which(form), "to": form.get("to", "")}
        done = await visit.manage("MOVE-MESSAGES", MESSAGE_TYPE, name, which)
        text = f"Moved: {messages(int(done['count']))} to {which['to']}."
        return Outcome(text, self.place(name))


MESSAGE_FIELDS: Final = (
    Field("body", "Body", "textarea"),
    Field("kind", "The body is", "select", "text", options=("text", "JSON")),
    Field("message_id", "Message id", hint="without one the message has none"),
    Field("correlation_id", "Correlation id"),
    Field("properties", "Properties", "textarea", hint='JSON, for example {"color": "red"}'),
    Field("priority", "Priority", "number", "4", "0 to 9"),
    Field("ttl_ms", "Time to live", "number", "0", "milliseconds; 0: for ever"),
    Field("delivery_delay_ms", "Delivery delay", "number", "0", "milliseconds"),
    Field("durable", "Durable", "checkbox", "true"),
)
"""Of a new message's form."""


class PutMessage(Action, name="put", label="Put a message"):
    """One message, as a client would send it."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        await visit.manage("READ", QUEUE_TYPE, name)
        return Confirmation(f"Put a message on {name}", (), MESSAGE_FIELDS)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("PUT-MESSAGE", MESSAGE_TYPE, name, {"message": encoded(message_of(form))})
        return Outcome("Put: 1 message.", path_of("queues", name))


def message_of(form: Mapping[str, str]) -> NewMessage:
    """The message that a form has. Raises `Refusal`."""
    given: dict[str, Any] = {"durable": bool(form.get("durable")), "body": form.get("body", "")}
    if form.get("kind") == "JSON":
        given["body"] = parsed(form.get("body", ""), "the body")
    if form.get("properties"):
        given["properties"] = parsed(form["properties"], "properties")
    given |= {key: form[key] for key in ("message_id", "correlation_id") if form.get(key)}
    for key in ("priority", "ttl_ms", "delivery_delay_ms"):
        if form.get(key):
            given[key] = whole_number(form[key], words(key))
    try:
        return msgspec.convert(given, NewMessage)
    except msgspec.ValidationError as error:
        raise Refusal(400, "bad-message", str(error)) from None


def parsed(text: str, what: str) -> Any:
    """JSON that somebody has typed. Raises `Refusal`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad-json", f"{what}: no JSON: {error}") from None


def whole_number(text: str, what: str) -> int:
    """Raises `Refusal` for what is none."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        raise Refusal(400, "bad-number", f"{what}: {text!r:.50} is no whole number")
    return int(text)


class _Switch(DestinationAction):
    """One of the switches of a queue."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        queue = await visit.manage("READ", self.entity_type, name)
        paused = [each for each in SWITCHES if queue[f"{each}_paused"]]
        return self.form(name, queue, paused)

    @staticmethod
    def form(name: str, queue: Attributes, paused: list[str]) -> Confirmation:
        raise NotImplementedError


class Pause(_Switch, name="pause", label="Pause"):
    """Stop production, insertion or consumption."""

    @staticmethod
    def form(name: str, queue: Attributes, paused: list[str]) -> Confirmation:
        running = [each for each in SWITCHES if each not in paused]
        if not running:
            return Confirmation(f"Pause {name}", ["Everything is paused already."], possible=False)
        effects = [
            f"Paused consumption holds {messages(queue['messages_current'])} back from "
            f"{count(queue['consumers'])} consumers; paused production refuses or blocks senders; paused "
            "insertion lets nothing become current, not even what transactions commit.",
        ]
        fields = (
            Field("switch", "Pause", "select", running[-1], options=running),
            Field("durable", "Beyond a restart of the broker", "checkbox"),
        )
        return Confirmation(f"Pause {name}", effects, fields)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        switch, durable = form.get("switch", ""), bool(form.get("durable"))
        await visit.manage("PAUSE", self.entity_type, name, switch=switch, durable=durable)
        return Outcome(f"Paused: {switch}.", self.place(name))


class Resume(_Switch, name="resume", label="Resume"):
    """Go on with it."""

    @staticmethod
    def form(name: str, queue: Attributes, paused: list[str]) -> Confirmation:
        if not paused:
            return Confirmation(f"Resume {name}", ["Nothing is paused."], possible=False)
        fields = (Field("switch", "Resume", "select", paused[0], options=paused),)
        return Confirmation(f"Resume {name}", [f"Paused now: {', '.join(paused)}."], fields)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        switch = form.get("switch", "")
        await visit.manage("RESUME", self.entity_type, name, switch=switch)
        return Outcome(f"Resumed: {switch}.", self.place(name))


class DeleteQueue(Action, name="delete", label="Delete queue", danger=True):
    """The queue, with what is on it."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        queue = await visit.manage("READ", QUEUE_TYPE, name)
        held = queue["messages_current"] + queue["messages_pending"]
        effects = [
            f"This deletes the queue with {messages(held)}, and ends the links of "
            f"{count(queue['consumers'])} consumers. They are gone for good.",
        ]
        if queue["configured"]:
            effects.append("The configuration has this queue: the next start makes it again, empty.")
        force = Field("force", "Even where transactions, channels or Spark hold messages of it", "checkbox")
        return Confirmation(f"Delete queue {name}?", effects, (force,))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("DELETE", QUEUE_TYPE, name, force=bool(form.get("force")))
        return Outcome(f"Deleted: queue {name}.", "/queues")


def setting_fields(values: Mapping[str, Any]) -> list[Field]:
    """An input for each setting of a queue."""
    found = []
    for name in QUEUE_SETTINGS:
        kind, value, label = TYPES[name], values[name], words(name).capitalize()
        choices = BOUNDS[name].choices if name in BOUNDS else ()
        if kind is bool:
            found.append(Field(name, label, "checkbox", "true" if value else ""))
        elif choices:
            found.append(Field(name, label, "select", str(value), options=[str(each) for each in choices]))
        else:
            found.append(Field(name, label, "number" if kind is int else "text", str(value)))
    return found


def settings_of(form: Mapping[str, str], names: list[str]) -> Attributes:
    """The settings that a form has. Raises `Refusal`."""
    found: Attributes = {}
    for name in names:
        text = form.get(name, "")
        if TYPES[name] is bool:
            found[name] = bool(text)
        elif TYPES[name] is int:
            found[name] = whole_number(text, words(name))
        else:
            found[name] = text
    return found


class ChangeSettings(DestinationAction, name="settings", label="Change settings"):
    """Of a queue."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        queue = await visit.manage("READ", self.entity_type, name)
        effects = ["Settings hold from now on, for messages that come and for those that are there."]
        if queue["configured"]:
            effects.append("The configuration has this queue: the next start takes its settings again.")
        return Confirmation(f"Settings of {name}", effects, setting_fields(queue))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        queue = await visit.manage("READ", self.entity_type, name)
        given = settings_of(form, list(QUEUE_SETTINGS))
        changed = {key: value for key, value in given.items() if value != queue[key]}
        location = f"{path_of('queues', name)}?view=settings"
        if not changed:
            return Outcome("Nothing was changed.", location)
        await visit.manage("UPDATE", self.entity_type, name, changed)
        return Outcome(f"Changed: {', '.join(map(words, changed))}.", location)


class CreateQueue(Action, name="create", label="Create a queue"):
    """A new one, with the settings that the configuration has for those that say nothing."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        effects = ["Settings are those of queues that say nothing of them; they can be changed then."]
        return Confirmation("Create a queue", effects, (Field("name", "Name", required=True),))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        wanted = form.get("name", "").strip()
        await visit.manage("CREATE", QUEUE_TYPE, wanted, {})
        return Outcome(f"Created: queue {wanted}.", path_of("queues", wanted))
