"""The table of the API: each kind of thing, and what can be done with it.

What stands here of messages is in `message_operations`; of the broker's files, sessions and streams in
`broker_resources`.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from postroom.model.entity_types import (
    BRANCH_TYPE,
    CHANNEL_TYPE,
    CONNECTION_TYPE,
    DEAD_LETTER_HANDLER_TYPE,
    LEASE_TYPE,
    MEMBER_TYPE,
    QUEUE_TYPE,
    QUOTA_TYPE,
    REMOTE_QUEUE_TYPE,
    ROLE_TYPE,
    SINK_TYPE,
    SPARK_SUBSCRIPTION_TYPE,
    STORE_HOLDER_TYPE,
    SUBSCRIPTION_TYPE,
    TOPIC_TYPE,
    TRANSACTION_TYPE,
    USER_TYPE,
)
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
        self._add(
            "list",
            "GET",
            f"/{path}",
            f"A page of {path.replace('-', ' ')}.",
            listed(f"/{path}", entity_type, row),
            answer=answers.Page[row],
            query=arguments.PageOf,
            reaches=(),
        )

    def _add(
        self, verb: str, method: str, path: str, summary: str, carry_out: CarryOut, **more: Any
    ) -> "Resource":
        id = f"list_{self.path.replace('-', '_')}" if verb == "list" else f"{verb}_{self.singular}"
        self.operations.append(Operation(id, method, path, self.path, summary, carry_out, **more))
        return self

    def create(self, kind: Any, carry_out: CarryOut | None = None) -> "Resource":
        """CREATE."""
        done = carry_out or managed("CREATE", self.type, self.row)
        return self._add(
            "create",
            "POST",
            f"/{self.path}",
            f"Make a {self.noun}.",
            done,
            answer=self.row,
            status=CREATED,
            arguments=kind,
            reaches=((self.type, "CREATE"),),
        )

    def read(self, answer: Any = None) -> "Resource":
        """READ."""
        shown = answer or self.row
        done = managed("READ", self.type, shown)
        return self._add(
            "read",
            "GET",
            f"/{self.path}/{{name}}",
            f"One {self.noun}.",
            done,
            answer=shown,
            reaches=((self.type, "READ"),),
        )

    def update(self, kind: Any, carry_out: CarryOut | None = None) -> "Resource":
        """UPDATE."""
        done = carry_out or managed("UPDATE", self.type, self.row)
        return self._add(
            "update",
            "PATCH",
            f"/{self.path}/{{name}}",
            f"Change a {self.noun}: what is given.",
            done,
            answer=self.row,
            arguments=kind,
            reaches=((self.type, "UPDATE"),),
        )

    def delete(self, query: Any = None, answer: Any = None, summary: str = "") -> "Resource":
        """DELETE; a ``query`` has what are properties of the request."""
        properties = () if query is None else query.__struct_fields__
        return self._add(
            "delete",
            "DELETE",
            f"/{self.path}/{{name}}",
            summary or f"Delete a {self.noun}.",
            managed("DELETE", self.type, answer, properties),
            answer=answer,
            status=NO_CONTENT if answer is None else 200,
            query=query,
            reaches=((self.type, "DELETE"),),
        )

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
        word = operation.lower()
        return self._add(
            word.replace("-", "_"),
            more.pop("method", "POST"),
            f"/{self.path}/{{name}}/{word}",
            summary,
            managed(operation, self.type, answer, properties),
            answer=answer,
            status=NO_CONTENT if answer is None else 200,
            arguments=kind,
            reaches=((self.type, operation),),
            **more,
        )


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
    queues = Resource("queues", QUEUE_TYPE, answers.Queue, "queue")
    queues.create(settings.NewQueue).read().update(settings.QueueSettings).delete(arguments.QueueDeletion)
    topics = Resource("topics", TOPIC_TYPE, answers.Topic, "topic")
    topics.create(settings.NewTopic).read().update(settings.QueueSettings)
    topics.delete(arguments.TopicDeletion, answers.TopicDeleted)
    subscriptions = Resource("subscriptions", SUBSCRIPTION_TYPE, answers.Subscription, "subscription")
    subscriptions.create(settings.NewSubscription).read().update(settings.QueueSettings).delete(
        arguments.SubscriptionDeletion
    )
    return [
        _held(_destination(queues, answers.Counters)),
        _destination(topics, answers.Counters),
        _held(_destination(subscriptions, answers.Counters)),
        Resource("quotas", QUOTA_TYPE, answers.Quota, "quota")
        .create(settings.NewQuota)
        .read()
        .update(settings.QuotaSettings)
        .delete(),
        Resource("remote-queues", REMOTE_QUEUE_TYPE, answers.RemoteQueue, "remote queue")
        .create(settings.NewRemoteQueue)
        .read()
        .update(settings.RemoteQueueSettings)
        .delete(),
    ]


def _channels() -> list[Resource]:
    row = answers.Channel
    return [
        Resource("channels", CHANNEL_TYPE, row, "channel")
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
            DEAD_LETTER_HANDLER_TYPE,
            answers.DeadLetterHandler,
            _DLH,
            "dead_letter_handler",
        ).read(),
    ]


_DLH: Final = "dead-letter queue handler"


def _activity() -> list[Resource]:
    connection = answers.Connection
    return [
        Resource("connections", CONNECTION_TYPE, connection, "connection")
        .read()
        .verb("CLOSE", "Close a client's connection.")
        .verb("RESET-STATISTICS", "Count of a connection from now on; as it was before.", connection),
        Resource("transactions", TRANSACTION_TYPE, answers.Transaction, "transaction").read(),
        Resource("xa-branches", BRANCH_TYPE, answers.XaBranch, "XA branch", "xa_branch")
        .read()
        .verb(
            "HEURISTIC-COMMIT", "Commit XA branches, by the Xid or a pattern with * and ?.", answers.Decided
        )
        .verb("HEURISTIC-ROLLBACK", "Roll XA branches back, likewise.", answers.Decided)
        .delete(answer=answers.Decided, summary="Forget heuristically decided XA branches, likewise."),
        Resource(
            "store-holders",
            STORE_HOLDER_TYPE,
            answers.StoreHolder,
            "confirm id or browse lock",
            "store_holder",
        )
        .read()
        .verb("END", "End a confirm id or browse lock: what it holds goes back.", answers.Count),
        Resource(
            "spark-subscriptions",
            SPARK_SUBSCRIPTION_TYPE,
            answers.SparkSubscription,
            "Spark subscription",
            "spark_subscription",
        )
        .create(arguments.NewSparkSubscription)
        .read()
        .update(arguments.SparkSubscriptionSettings)
        .delete(),
        Resource("sinks", SINK_TYPE, answers.Sink, "Spark sink", "sink")
        .read(answers.SinkShown)
        .delete(summary="Forget a Spark sink's app: its next batch is its first."),
    ]


def _administration() -> list[Resource]:
    users = Resource("users", USER_TYPE, answers.User, "user")
    roles = Resource("roles", ROLE_TYPE, answers.Role, "role")
    return [
        _principal(users, arguments.NewUser, arguments.UserSettings),
        _principal(roles, arguments.NewRole, arguments.RoleSettings),
        Resource("leases", LEASE_TYPE, answers.Lease, "lease")
        .create(arguments.NewLease)
        .read()
        .update(arguments.LeaseSettings)
        .delete(summary="Release a lease."),
        Resource("members", MEMBER_TYPE, answers.Member, "member")
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
