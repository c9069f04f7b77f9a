"""The table of the API, as far as it is about messages: of queues and subscriptions, and in the ledger."""

from typing import Any, Final

from postroom.model.entity_types import LEDGER_TYPE, MESSAGE_TYPE, TOPIC_TYPE
from postroom.server.http.api import answers, arguments
from postroom.server.http.api import message_arguments as types
from postroom.server.http.api.message_operations import (
    Changed,
    Cursor,
    ImportDone,
    Messages,
    Put,
    act,
    browse,
    close_cursor,
    delete_one,
    find_messages,
    follow_messages,
    import_messages,
    of_store,
    on_messages,
    open_cursor,
    publish,
    put,
    read,
    read_cursor,
    read_life,
)
from postroom.server.http.api.messages import NewMessage, StoredMessage
from postroom.server.http.api.operation import CarryOut, Operation

TAG: Final = "messages"
STORE_TAG: Final = "message-store"


def _reaching(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((MESSAGE_TYPE, name) for name in names)


class _OfDestination:
    """What can be done with messages of one kind of destination."""

    def __init__(self, plural: str, noun: str) -> None:
        self._path: Final = f"/{plural}/{{name}}/messages"
        self._cursors: Final = f"/{plural}/{{name}}/message-cursors"
        self._noun: Final = noun

    def _made(
        self, verb: str, method: str, path: str, summary: str, *, carry_out: CarryOut, **more: Any
    ) -> Operation:
        return Operation(f"{verb}_{self._noun}", method, path, TAG, summary, carry_out, **more)

    def _verb(
        self, operation: str, kind: Any, answer: Any, summary: str, carry_out: CarryOut | None = None
    ) -> Operation:
        word = operation.partition("-")[0].lower()
        return self._made(
            f"{word}_messages_of",
            "POST",
            f"{self._path}/{word}",
            summary,
            carry_out=carry_out or on_messages(operation),
            arguments=kind,
            answer=answer,
            reaches=_reaching(operation),
        )

    def messages(self) -> list[Operation]:
        """What is shown, and what is done with one."""
        of = f"of a {self._noun}"
        return [
            self._made(
                "browse_messages_of",
                "GET",
                self._path,
                f"Messages {of}, in whatever state, a page of them; nothing is taken.",
                carry_out=browse,
                query=types.Browse,
                answer=answers.Page[StoredMessage],
                reaches=_reaching("OPEN-CURSOR", "READ-CURSOR", "CLOSE-CURSOR"),
            ),
            self._made(
                "read_message_of",
                "GET",
                f"{self._path}/{{serial}}",
                f"One message {of}, by its serial.",
                carry_out=read,
                query=types.WithBody,
                answer=StoredMessage,
                reaches=_reaching("READ"),
            ),
            self._made(
                "delete_message_of",
                "DELETE",
                f"{self._path}/{{serial}}",
                f"Delete one message {of} that nobody holds.",
                carry_out=delete_one,
                answer=Changed,
                reaches=_reaching("DELETE-MESSAGES"),
            ),
        ]

    def verbs(self) -> list[Operation]:
        """What is done with many."""
        of, job = f"of a {self._noun}", "Act on messages that are named one by one."
        return [
            self._verb("DELETE-MESSAGES", types.Meant, Changed, f"Delete messages {of}."),
            self._verb("MOVE-MESSAGES", types.Moved, Changed, f"Move messages {of} elsewhere."),
            self._verb("REPLAY", types.Replayed, Changed, f"Send messages {of} back where they were before."),
            self._verb(
                "IMPORT-MESSAGES", types.Import, ImportDone, f"Create messages {of}.", import_messages
            ),
            self._verb("ACT", types.Job, arguments.Anything, job, act),
        ]

    def cursors(self) -> list[Operation]:
        """Queries whose results are kept."""
        return [
            self._made(
                "open_message_cursor_of",
                "POST",
                self._cursors,
                f"Keep which messages of a {self._noun} are meant, to page through them.",
                carry_out=open_cursor,
                arguments=types.CursorOpening,
                needs_arguments=False,
                answer=Cursor,
                status=201,
                reaches=_reaching("OPEN-CURSOR"),
            ),
            self._made(
                "read_message_cursor_of",
                "GET",
                f"{self._cursors}/{{cursor}}",
                "A page of a cursor: each message as it is now.",
                carry_out=read_cursor,
                query=types.CursorPage,
                answer=answers.Page[StoredMessage],
                reaches=_reaching("READ-CURSOR"),
            ),
            self._made(
                "close_message_cursor_of",
                "DELETE",
                f"{self._cursors}/{{cursor}}",
                "Close a cursor.",
                carry_out=close_cursor,
                status=204,
                reaches=_reaching("CLOSE-CURSOR"),
            ),
        ]


_VERBS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("PUT-MESSAGE", types.StorePut, "Put a message, in one step or under a confirm id."),
    ("CONFIRM-PUT", types.StoreGet, "Confirm a message that was put under a confirm id."),
    ("GET-MESSAGE", types.StoreGet, "Get the first message, in one step or under a confirm id."),
    ("WAIT", types.StoreWait, "Get the first message, and wait for one."),
    ("CONFIRM-GET", types.StoreGet, "Confirm a message that was got under a confirm id."),
    ("BROWSE", types.StoreBrowse, "Messages, a page of them; nothing is taken."),
    ("BROWSE-AND-LOCK", types.StoreLock, "Lock messages against everybody else."),
    ("UNLOCK", types.StoreFilter, "Unlock a message."),
    ("DELETE-MESSAGE", types.StoreFilter, "Delete a message, by its unique id."),
    ("LISTEN", types.StoreListen, "Wait for messages that come."),
    ("UNDO", types.ConfirmId, "Take back what was done under a confirm id."),
    ("CONFIRM", types.ConfirmId, "Confirm all that was done under a confirm id."),
)
_WAITING: Final = ("WAIT", "LISTEN")


def operations() -> list[Operation]:
    """All of it."""
    of_queues, of_subscriptions = (
        _OfDestination("queues", "queue"),
        _OfDestination("subscriptions", "subscription"),
    )
    found = [_PUT, _PUBLISH]
    for each in (of_queues, of_subscriptions):
        found += [*each.messages(), *each.verbs(), *each.cursors()]
    return [*found, *_store(), *_HISTORY]


def _store() -> list[Operation]:
    return [
        Operation(
            f"store_{name.lower().replace('-', '_')}",
            "POST",
            f"/queues/{{name}}/message-store/{name.lower()}",
            STORE_TAG,
            summary,
            of_store(name, name in _WAITING),
            answer=Messages,
            arguments=kind,
            reaches=_reaching(name),
        )
        for name, kind, summary in _VERBS
    ]


_PUT: Final = Operation(
    "put_message",
    "POST",
    "/queues/{name}/messages",
    TAG,
    "Put a message on a queue, a remote queue or one at another queue manager.",
    put,
    answer=Put,
    status=201,
    arguments=NewMessage,
    reaches=_reaching("PUT-MESSAGE"),
)
_PUBLISH: Final = Operation(
    "publish_message",
    "POST",
    "/topics/{name}/messages",
    TAG,
    "Publish a message to a topic.",
    publish,
    answer=answers.Published,
    status=201,
    arguments=NewMessage,
    reaches=((TOPIC_TYPE, "PUBLISH"),),
)
_HISTORY: Final = (
    Operation(
        "find_messages",
        "GET",
        "/messages",
        TAG,
        "The serials of all messages of an id that the ledger knows, ended ones, too.",
        find_messages,
        answer=answers.Found,
        query=arguments.LedgerSearch,
        reaches=((LEDGER_TYPE, "FIND-MESSAGES"),),
    ),
    Operation(
        "read_life",
        "GET",
        "/messages/{serial}/life",
        TAG,
        "What happened to a message and to what was made of it.",
        read_life,
        answer=answers.Life,
        query=arguments.FollowFrom,
        reaches=((LEDGER_TYPE, "FOLLOW-MESSAGES"),),
    ),
    Operation(
        "follow_messages",
        "POST",
        "/messages/follow",
        TAG,
        "What happened to messages, the same for many.",
        follow_messages,
        answer=answers.Life,
        arguments=arguments.Followed,
        reaches=((LEDGER_TYPE, "FOLLOW-MESSAGES"),),
    ),
)
