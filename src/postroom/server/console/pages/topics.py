"""Topics and subscriptions."""

from collections.abc import Mapping
from typing import ClassVar

from starlette.responses import Response

from postroom.manager.kernel.options import QUEUE_SETTINGS
from postroom.model.entity_types import SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.server.console.actions import Action, Confirmation, Field, Outcome
from postroom.server.console.formats import count, path_of, words
from postroom.server.console.list_page import ListPage
from postroom.server.console.listing import BADGE, COUNT, SIZE, Column
from postroom.server.console.page import Figures, Page
from postroom.server.console.pages import queue_actions as actions
from postroom.server.console.pages.queue import OneQueue, offered, shown_setting
from postroom.server.console.pages.queue_actions import messages
from postroom.server.console.visit import Visit
from postroom.server.http.api.messages import encoded
from postroom.server.management.request import Attributes

SEPARATOR = "::"
"""Between a subscription's topic and its own name."""


class CreateTopic(Action, name="create", label="New topic"):
    """A topic with default settings."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        effects = ("Each subscription to it gets every message that is published from then on.",)
        return Confirmation("New topic", effects, (Field("name", "Name", required=True),))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("CREATE", TOPIC_TYPE, form.get("name", ""))
        return Outcome(f"Created: topic {form['name']}.", path_of("topics", form["name"]))


class PublishMessage(Action, name="publish", label="Publish a message"):
    """One message, as a client would send it."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        topic = await visit.manage("READ", TOPIC_TYPE, name)
        to = _subscriptions(topic["subscriptions"])
        effects = (f"{to} to {name} now: each whose selector matches gets the message.",)
        return Confirmation(f"Publish a message to {name}", effects, actions.MESSAGE_FIELDS)

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        message = encoded(actions.message_of(form))
        done = await visit.manage("PUBLISH", TOPIC_TYPE, name, {"message": message})
        text = f"Published: 1 message, to {_subscriptions(done['subscriptions'])}."
        return Outcome(text, path_of("topics", name))


def _subscriptions(number: int) -> str:
    """So many, in words."""
    return "1 subscription" if number == 1 else f"{count(number)} subscriptions"


class DeleteTopic(Action, name="delete", label="Delete topic", danger=True):
    """With its subscriptions."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        topic = await visit.manage("READ", TOPIC_TYPE, name)
        held = topic["messages_current"] + topic["messages_pending"]
        effects = [
            f"This deletes the topic, the {count(topic['subscriptions'])} subscriptions to it alone with "
            f"{messages(held)} that they have, and ends the links of {count(topic['consumers'])} consumers.",
        ]
        force = Field("force", "Even where transactions hold messages", "checkbox")
        return Confirmation(f"Delete topic {name}?", effects, (force,))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        done = await visit.manage("DELETE", TOPIC_TYPE, name, force=bool(form.get("force")))
        text = f"Deleted: topic {name}, {count(done['subscriptions'])} subscriptions with it."
        return Outcome(text, "/topics")


class DeleteSubscription(Action, name="delete", label="Delete subscription", danger=True):
    """Unsubscribe."""

    async def confirmation(self, visit: Visit, name: str) -> Confirmation:
        queue = await visit.manage("READ", SUBSCRIPTION_TYPE, name)
        held = queue["messages_current"] + queue["messages_pending"]
        effects = [
            f"This ends the subscription, with {messages(held)} that nobody has consumed yet: gone for good, "
            "for it alone. What is published from now on doesn't come here any more.",
        ]
        force = Field("force", "Even while somebody consumes, or a transaction holds messages", "checkbox")
        return Confirmation(f"Delete subscription {name}?", effects, (force,))

    async def carry_out(self, visit: Visit, name: str, form: Mapping[str, str]) -> Outcome:
        await visit.manage("DELETE", SUBSCRIPTION_TYPE, name, force=bool(form.get("force")))
        return Outcome(f"Deleted: subscription {name}.", "/subscriptions")


class TopicList(ListPage, path="/topics"):
    """All topics."""

    entity_type: ClassVar = TOPIC_TYPE
    what: ClassVar = "topics"
    actions: ClassVar = (CreateTopic(),)
    columns: ClassVar = (
        Column("name", "Topic", link=lambda row: path_of("topics", row["name"])),
        Column("subscriptions", "Subscriptions", COUNT),
        Column("consumers", "Consumers", COUNT),
        Column("messages_received", "Published", COUNT),
        Column("messages_unrouted", "Without a subscription", COUNT, wide=True),
        Column("messages_current", "Current", COUNT, wide=True),
        Column("messages_pending", "Pending", COUNT, wide=True),
        Column("state", "State", BADGE),
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [{**row, "state": actions.paused_of(row)} for row in await visit.rows(TOPIC_TYPE)]


class SubscriptionList(ListPage, path="/subscriptions"):
    """All subscriptions."""

    entity_type: ClassVar = SUBSCRIPTION_TYPE
    what: ClassVar = "subscriptions"
    columns: ClassVar = (
        Column("name", "Subscription", link=lambda row: path_of("subscriptions", row["name"])),
        Column("kind", "Kind", BADGE),
        Column("messages_current", "Current", COUNT),
        Column("messages_pending", "Pending", COUNT),
        Column("bytes_held", "Bytes", SIZE, wide=True),
        Column("consumers", "Consumers", COUNT),
        Column("messages_consumed", "Consumed", COUNT, wide=True),
        Column("state", "State", BADGE),
    )

    async def rows(self, visit: Visit) -> list[Attributes]:
        return [subscription_row(row) for row in await visit.rows(SUBSCRIPTION_TYPE)]


def subscription_row(row: Attributes) -> Attributes:
    """With what is shown and no attribute."""
    return {**actions.with_sums(row), "kind": "durable" if row["durable"] else ""}


class OneTopic(Page, path="/topics/{name:path}"):
    """One of them, by its name, with its subscriptions."""

    actions: ClassVar[tuple[Action, ...]] = (
        PublishMessage(),
        actions.Pause(TOPIC_TYPE),
        actions.Resume(TOPIC_TYPE),
        DeleteTopic(),
    )

    async def show(self, visit: Visit) -> Response:
        values = await self._values(visit)
        settings = [
            (words(name), shown_setting(values["topic"][name]))
            for name in QUEUE_SETTINGS
            if name in values["topic"]
        ]
        return visit.page(
            "topic.html",
            actions=offered(self.actions, values["topic"]),
            settings=settings,
            live_path=f"{visit.path}?live=1",
            **values,
        )

    async def figures(self, visit: Visit) -> Figures:
        return Figures({"figures": visit.render("topic_figures.html", **await self._values(visit))})

    @staticmethod
    async def _values(visit: Visit) -> Attributes:
        topic = await visit.manage("READ", TOPIC_TYPE, visit.name)
        prefix = visit.name + SEPARATOR
        rows = [row for row in await visit.rows(SUBSCRIPTION_TYPE) if row["name"].startswith(prefix)]
        return {"topic": topic, "subscriptions": [subscription_row(row) for row in rows]}


class OneSubscription(OneQueue, path="/subscriptions/{name:path}"):
    """One of them, by its whole name: what it has is shown as of a queue."""

    entity_type: ClassVar = SUBSCRIPTION_TYPE
    actions: ClassVar = (
        actions.MoveMessages(SUBSCRIPTION_TYPE),
        actions.Pause(SUBSCRIPTION_TYPE),
        actions.Resume(SUBSCRIPTION_TYPE),
        actions.ChangeSettings(SUBSCRIPTION_TYPE),
        actions.DeleteMessages(SUBSCRIPTION_TYPE),
        actions.Purge(SUBSCRIPTION_TYPE),
        DeleteSubscription(),
    )
