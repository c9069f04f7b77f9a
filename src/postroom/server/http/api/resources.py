"""The table of the API: each kind of thing, and what can be done with it.

What stands here of messages is in `message_operations`; of the broker's files, sessions and streams in
`broker_resources`.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from postroom.model import entity_types as t
from postroom.server.configuration.passwords import hash_password
from postroom.server.http.api import answers, arguments, settings
from postroom.server.http.api.lists import listed
from postroom.server.http.api.operation import Call, CarryOut, Operation, attributes, given, managed

CREATED: Final = 201
NO_CONTENT: Final = 204


class Resource:
    """One kind of thing: its operations, one after the other."""

    def __init__(self, path: str, entity_type: str, row: Any, noun: str, singular: str = "") -> None:
        """``path``: the plural, which is its tag, too; ``noun``: for summaries; ``singular``: for names of
        operations, unless it is as the noun."""
        self.path: Final = path
        self.type: Final = entity_type
        self.row: Final = row
        self.noun: Final = noun
        self.singular: Final = singular or noun.replace(" ", "_")
        self.operations: Final[list[Operation]] = []
        id, what = f"list_{path.replace('-', '_')}", f"A page of {path.replace('-', ' ')}."
        carry_out = listed(f"/{path}", entity_type, row)
        self._add(id, "GET", "", what, carry_out, answers.Page[row], query=arguments.PageOf)

    def _add(
        self, id: str, method: str, below: str, summary: str, carry_out: CarryOut, answer: Any, **more: Any
    ) -> "Resource":
        path, status = f"/{self.path}{below}", more.pop("status", NO_CONTENT if answer is None else 200)
        made = Operation(id, method, path, self.path, summary, carry_out, answer, status, **more)
        self.operations.append(made)
        return self

    def _reach(
        self,
        operation: str,
        request: str,
        summary: str,
        answer: Any,
        carry_out: CarryOut | None = None,
        properties: tuple[str, ...] = (),
        **more: Any,
    ) -> "Resource":
        """An operation of the management node; ``request``: its method, and its path behind the plural."""
        method, _, below = request.partition(" ")
        done = carry_out or managed(operation, self.type, answer, properties)
        id = f"{operation.lower().replace('-', '_')}_{self.singular}"
        return self._add(id, method, below, summary, done, answer, reaches=((self.type, operation),), **more)

    def create(self, kind: Any, carry_out: CarryOut | None = None) -> "Resource":
        """CREATE."""
        what = f"Make a {self.noun}."
        return self._reach("CREATE", "POST", what, self.row, carry_out, status=CREATED, arguments=kind)

    def read(self, answer: Any = None) -> "Resource":
        """READ."""
        return self._reach("READ", "GET /{name}", f"One {self.noun}.", answer or self.row)

    def update(self, kind: Any, carry_out: CarryOut | None = None) -> "Resource":
        """UPDATE."""
        what = f"Change a {self.noun}: what is given."
        return self._reach("UPDATE", "PATCH /{name}", what, self.row, carry_out, arguments=kind)

    def delete(self, query: Any = None, answer: Any = None, summary: str = "") -> "Resource":
        """DELETE; a ``query`` has what are properties of the request."""
        what = summary or f"Delete a {self.noun}."
        properties = () if query is None else query.__struct_fields__
        return self._reach("DELETE", "DELETE /{name}", what, answer, None, properties, query=query)

    def verb(
        self,
        operation: str,
        summary: str,
        answer: Any = None,
        kind: Any = None,
        properties: tuple[str, ...] = (),
        **more: Any,
    ) -> "Resource":
        """Another operation of the management node, as a path of its own below the thing."""
        request = f"{more.pop('method', 'POST')} /{{name}}/{operation.lower()}"
        return self._reach(operation, request, summary, answer, None, properties, arguments=kind, **more)


def _destination(resource: Resource, counters: Any) -> Resource:
    noun = resource.noun
    switch = "production, insertion or consumption"
    resource.verb("PAUSE", f"Pause {switch} of a {noun}.", answers.Switches, arguments.Paused, _PAUSE)
    resource.verb("RESUME", f"Resume {switch} of a {noun}.", answers.Switches, arguments.Resumed, _PAUSE)
    what = f"Count of a {noun} from now on; the counters from before."
    return resource.verb("RESET-STATISTICS", what, counters)


_PAUSE: Final = ("switch", "durable")


def _held(resource: Resource) -> Resource:
    noun = resource.noun
    resource.verb("PURGE", f"Delete all messages of a {noun} that nobody holds.", answers.Purged)
    return resource.verb("HOLDERS", f"Who holds messages of a {noun}.", answers.Holders, method="GET")


def _principal(resource: Resource, new: Any, changed: Any) -> Resource:
    create = partial(_with_verifiers, "CREATE", resource.type, resource.row)
    update = partial(_with_verifiers, "UPDATE", resource.type, resource.row)
    resource.create(new, create).read().update(changed, update).delete()
    resource.verb("GRANT", f"Grant rights to a {resource.noun}.", resource.row, arguments.Granted)
    return resource.verb("REVOKE", f"Take rights from a {resource.noun}.", resource.row, arguments.Granted)


async def _with_verifiers(operation: str, entity_type: str, row: Any, call: Call) -> Any:
    """What is kept of a password is made here, off the loop: it takes a core for tens of milliseconds."""
    fields = given(call.arguments)
    name = call.name or str(fields.pop("name"))
    password = fields.pop("password", None)
    if password is not None:
        fields["verifiers"] = [await asyncio.to_thread(hash_password, password)]
    return attributes(await call.manage(operation, entity_type, name, fields), row)


def _destinations() -> list[Resource]:
    queues = Resource("queues", t.QUEUE_TYPE, answers.Queue, "queue")
    queues.create(settings.NewQueue).read().update(settings.QueueSettings).delete(arguments.QueueDeletion)
    topics = Resource("topics", t.TOPIC_TYPE, answers.Topic, "topic")
    topics.create(settings.NewTopic).read().update(settings.QueueSettings)
    topics.delete(arguments.TopicDeletion, answers.TopicDeleted)
    subscriptions = Resource("subscriptions", t.SUBSCRIPTION_TYPE, answers.Subscription, "subscription")
    subscriptions.create(settings.NewSubscription).read().update(settings.QueueSettings).delete(
        arguments.SubscriptionDeletion
    )
    return [
        _held(_destination(queues, answers.Counters)),
        _destination(topics, answers.Counters),
        _held(_destination(subscriptions, answers.Counters)),
        Resource("quotas", t.QUOTA_TYPE, answers.Quota, "quota")
        .create(settings.NewQuota)
        .read()
        .update(settings.QuotaSettings)
        .delete(),
        Resource("remote-queues", t.REMOTE_QUEUE_TYPE, answers.RemoteQueue, "remote queue")
        .create(settings.NewRemoteQueue)
        .read()
        .update(settings.RemoteQueueSettings)
        .delete(),
    ]


def _channels() -> list[Resource]:
    row = answers.Channel
    return [
        Resource("channels", t.CHANNEL_TYPE, row, "channel")
        .create(settings.NewChannel)
        .read()
        .update(settings.ChannelSettings)
        .delete()
        .verb("START", "Start a channel.", row)
        .verb("STOP", "Stop a channel.", row, arguments.ChannelStop, needs_arguments=False)
        .verb(
            "RESET",
            "Set the number of a channel's next message.",
            row,
            arguments.ChannelReset,
            needs_arguments=False,
        )
        .verb("RESOLVE", "Decide a channel's batch that is in doubt.", row, arguments.ChannelResolution)
        .verb("PING", "Open a connection as a channel would, and close it.", answers.Pong, errors=(502,)),
        Resource(
            "dead-letter-handlers",
            t.DEAD_LETTER_HANDLER_TYPE,
            answers.DeadLetterHandler,
            _DLH,
            "dead_letter_handler",
        ).read(),
    ]


_DLH: Final = "dead-letter queue handler"


def _activity() -> list[Resource]:
    connection = answers.Connection
    return [
        Resource("connections", t.CONNECTION_TYPE, connection, "connection")
        .read()
        .verb("CLOSE", "Close a client's connection.")
        .verb("RESET-STATISTICS", "Count of a connection from now on; as it was before.", connection),
        Resource("transactions", t.TRANSACTION_TYPE, answers.Transaction, "transaction").read(),
        Resource("xa-branches", t.BRANCH_TYPE, answers.XaBranch, "XA branch", "xa_branch")
        .read()
        .verb(
            "HEURISTIC-COMMIT", "Commit XA branches, by the Xid or a pattern with * and ?.", answers.Decided
        )
        .verb("HEURISTIC-ROLLBACK", "Roll XA branches back, likewise.", answers.Decided)
        .delete(answer=answers.Decided, summary="Forget heuristically decided XA branches, likewise."),
        Resource(
            "store-holders",
            t.STORE_HOLDER_TYPE,
            answers.StoreHolder,
            "confirm id or browse lock",
            "store_holder",
        )
        .read()
        .verb("END", "End a confirm id or browse lock: what it holds goes back.", answers.Count),
        Resource(
            "spark-subscriptions",
            t.SPARK_SUBSCRIPTION_TYPE,
            answers.SparkSubscription,
            "Spark subscription",
            "spark_subscription",
        )
        .create(arguments.NewSparkSubscription)
        .read()
        .update(arguments.SparkSubscriptionSettings)
        .delete(),
        Resource("sinks", t.SINK_TYPE, answers.Sink, "Spark sink", "sink")
        .read(answers.SinkShown)
        .delete(summary="Forget a Spark sink's app: its next batch is its first."),
    ]


def _administration() -> list[Resource]:
    users = Resource("users", t.USER_TYPE, answers.User, "user")
    roles = Resource("roles", t.ROLE_TYPE, answers.Role, "role")
    return [
        _principal(users, arguments.NewUser, arguments.UserSettings),
        _principal(roles, arguments.NewRole, arguments.RoleSettings),
        Resource("leases", t.LEASE_TYPE, answers.Lease, "lease")
        .create(arguments.NewLease)
        .read()
        .update(arguments.LeaseSettings)
        .delete(summary="Release a lease."),
        Resource("members", t.MEMBER_TYPE, answers.Member, "member")
        .read()
        .delete(summary="Forget a member: the log waits for it no longer.")
        .verb("HAND-OVER", "Hand over to a member: this broker ends soon.", answers.Member),
    ]


def resources() -> Sequence[Resource]:
    """All kinds of things."""
    return [*_destinations(), *_channels(), *_activity(), *_administration()]


def operations() -> list[Operation]:
    """What can be done with them."""
    return [operation for resource in resources() for operation in resource.operations]
