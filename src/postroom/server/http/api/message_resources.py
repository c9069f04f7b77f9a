"""The table of the API, as far as it is about messages: of queues and subscriptions, and in the ledger."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from postroom.model.entity_types import LEDGER_TYPE, MESSAGE_TYPE
from postroom.server.http.api import answers, arguments
from postroom.server.http.api import message_arguments as said
from postroom.server.http.api.lists import paged
from postroom.server.http.api.messages import NewMessage, StoredMessage, encoded, id_value, shown, typed_id
from postroom.server.http.api.operation import Call, CarryOut, Operation, attributes, given
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import LEAVE_WORK

TAG: Final = "messages"
STORE_TAG: Final = "message-store"
IDS: Final = ("message_id", "correlation_id")


class Put(Struct):
    """The unique id that the message store has for it."""

    origin: str
    time: int


class Changed(Struct):
    """How many messages were deleted, moved or replayed."""

    count: int
    more: bool
    """With `in_pieces`: the same request goes on."""
    without_origin: int
    """Of a replay: messages that were put on this queue itself, and stay."""


class ImportDone(Struct):
    """What an import has done."""

    created: int
    replaced: int


class Refused(Struct):
    """Why some actions were refused."""

    why: str
    numbers: list[int]


class Messages(Struct, kw_only=True):
    """Messages of the message store."""

    count: int
    origin: str = ""
    time: int = 0
    messages: list[StoredMessage] = []
    lock_id: int = 0
    after: list[int] = []
    """Where the next page begins."""


class Cursor(Struct):
    """A query's result, kept by the broker."""

    cursor: int
    count: int


def meant(given_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the management node: ids as AMQP has them, and nothing that wasn't said."""
    found = {name: value for name, value in given_fields.items() if value not in (None, "", [])}
    for name in IDS:
        if name in found:
            found[name] = id_value(found[name], name)
    return found


def _shown_page(body: Mapping[str, Any], path: str, page: Any) -> dict[str, Any]:
    return paged([shown(each) for each in body["messages"]], int(body["count"]), path, page)


async def _browse(call: Call) -> Any:
    """A cursor for one page: what is meant is judged anew for each."""
    query: said.Browse = call.query
    wanted: dict[str, Any] = {"selector": query.selector, "states": query.states, "serial": query.serial}
    if query.message_id:
        wanted["message_id"] = typed_id(query.message_id, query.message_id_type, "message_id")
    opened = await call.manage("OPEN-CURSOR", MESSAGE_TYPE, body={**_said(wanted), "timeout_s": 60})
    read = {"offset": query.offset, "count": query.limit, "bodies": query.bodies}
    try:
        body = (
            await call.manage("READ-CURSOR", MESSAGE_TYPE, body={"cursor": opened["cursor"], **read})
            if opened.get("cursor")
            else {"count": 0, "messages": []}
        )
    finally:
        with contextlib.suppress(Refusal):
            await call.manage("CLOSE-CURSOR", MESSAGE_TYPE, body={"cursor": opened.get("cursor", 0)})
    return _shown_page(body, call.request.url.path, query)


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


async def _open_cursor(call: Call) -> Any:
    body = await call.manage("OPEN-CURSOR", MESSAGE_TYPE, body=meant(given(call.arguments)))
    return {"cursor": body.get("cursor", 0), "count": body["count"]}


def _cursor(call: Call) -> int:
    return _number(call.path["cursor"], "cursor")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < len(str(arguments.MAX_SERIAL))):
        raise Refusal(404, "not-found", f"there is no {what} {text!r:.100}")
    return int(text)


async def _read_cursor(call: Call) -> Any:
    query: said.CursorPage = call.query
    read = {"cursor": _cursor(call), "offset": query.offset, "count": query.limit, "bodies": query.bodies}
    body = await call.manage("READ-CURSOR", MESSAGE_TYPE, body=read)
    return _shown_page(body, call.request.url.path, query)


async def _close_cursor(call: Call) -> Any:
    await call.manage("CLOSE-CURSOR", MESSAGE_TYPE, body={"cursor": _cursor(call)})


async def _read(call: Call) -> Any:
    wanted = {"serial": _number(call.path["serial"], "message"), "bodies": call.query.bodies}
    body = await call.manage("READ", MESSAGE_TYPE, body=wanted)
    return shown(body["messages"][0])


async def _delete_one(call: Call) -> Any:
    wanted = {"serial": _number(call.path["serial"], "message")}
    return await call.manage("DELETE-MESSAGES", MESSAGE_TYPE, body=wanted)


async def _put(call: Call) -> Any:
    message: NewMessage = call.arguments
    body = await call.manage("PUT-MESSAGE", MESSAGE_TYPE, body={"message": encoded(message)})
    return attributes(body, Put)


async def _import(call: Call) -> Any:
    found = []
    for number, each in enumerate(call.arguments.messages):
        times = {name: getattr(each, name) for name in ("expires_us", "due_us") if getattr(each, name)}
        found.append({"message": encoded(each, f"messages[{number}]."), **times})
    body = {"messages": found, "overrides": call.arguments.overrides}
    return await call.manage("IMPORT-MESSAGES", MESSAGE_TYPE, body=body)


async def _act(call: Call) -> Any:
    job: said.Job = call.arguments
    actions = [_some(given(each)) for each in job.actions]
    return await call.manage("ACT", MESSAGE_TYPE, body={"ledger_id": job.ledger_id, "actions": actions})


def _some(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _on_messages(operation: str) -> CarryOut:
    async def carry_out(call: Call) -> Any:
        return await call.manage(operation, MESSAGE_TYPE, body=meant(given(call.arguments)))

    return carry_out


def _of_store(operation: str, waits: bool = False) -> CarryOut:
    """A verb of the message store; one that waits is no request in work meanwhile."""

    async def carry_out(call: Call) -> Any:
        fields = given(call.arguments)
        if isinstance(fields.get("message"), NewMessage):
            fields["message"] = encoded(fields["message"])
        body = meant(fields)
        if not waits:
            return _shown_store(await call.manage(operation, MESSAGE_TYPE, body=body))
        with call.shared.waits.one_more():
            call.request.scope[LEAVE_WORK]()
            return _shown_store(await call.manage(operation, MESSAGE_TYPE, body=body))

    return carry_out


def _shown_store(body: Any) -> dict[str, Any]:
    found = dict(body)
    if "messages" in found:
        found["messages"] = [shown(each) for each in found["messages"]]
    if "after" in found:
        found["after"] = [int(each) for each in found["after"]]
    return found


# The ledger's history.


async def _find(call: Call) -> Any:
    query: arguments.LedgerSearch = call.query
    body: dict[str, Any] = _said({"serial": query.serial, "first": query.first})
    if query.message_id:
        body["message_id"] = typed_id(query.message_id, query.message_id_type, "message_id")
    return await call.manage("FIND-MESSAGES", LEDGER_TYPE, "", body)


async def _life(call: Call) -> Any:
    query: arguments.FollowFrom = call.query
    return await _follow(call, [_number(call.path["serial"], "message")], query.first, query.skip)


async def _lives(call: Call) -> Any:
    asked: arguments.Followed = call.arguments
    return await _follow(call, asked.serials, asked.first, asked.skip)


async def _follow(call: Call, serials: list[int], first: int, skip: int) -> Any:
    body = await call.manage(
        "FOLLOW-MESSAGES", LEDGER_TYPE, "", {"serials": serials, "first": first, "skip": skip}
    )
    return {**body, "lines": [json.loads(line) for line in body["lines"]]}


# The table.


def _reaching(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((MESSAGE_TYPE, name) for name in names)


def _of_destination(plural: str, noun: str) -> list[Operation]:
    """What can be done with messages of one kind of destination."""
    path = f"/{plural}/{{name}}/messages"
    cursors = f"/{plural}/{{name}}/message-cursors"
    page = answers.Page[StoredMessage]
    of = f"of a {noun}"

    def made(verb: str, method: str, where: str, summary: str, done: CarryOut, **more: Any) -> Operation:
        return Operation(f"{verb}_{noun}", method, where, TAG, summary, done, **more)

    def verb(word: str, operation: str, kind: Any, answer: Any, summary: str, done: Any = None) -> Operation:
        return made(
            f"{word}_messages_of",
            "POST",
            f"{path}/{word}",
            summary,
            done or _on_messages(operation),
            arguments=kind,
            answer=answer,
            reaches=_reaching(operation),
        )

    return [
        made(
            "browse_messages_of",
            "GET",
            path,
            f"Messages {of}, in whatever state, a page of them; nothing is taken.",
            _browse,
            query=said.Browse,
            answer=page,
            reaches=_reaching("OPEN-CURSOR", "READ-CURSOR", "CLOSE-CURSOR"),
        ),
        made(
            "read_message_of",
            "GET",
            f"{path}/{{serial}}",
            f"One message {of}, by its serial.",
            _read,
            query=said.WithBody,
            answer=StoredMessage,
            reaches=_reaching("READ"),
        ),
        made(
            "delete_message_of",
            "DELETE",
            f"{path}/{{serial}}",
            f"Delete one message {of} that nobody holds.",
            _delete_one,
            answer=Changed,
            reaches=_reaching("DELETE-MESSAGES"),
        ),
        verb("delete", "DELETE-MESSAGES", said.Meant, Changed, f"Delete messages {of}."),
        verb("move", "MOVE-MESSAGES", said.Moved, Changed, f"Move messages {of} to another destination."),
        verb("replay", "REPLAY", said.Replayed, Changed, f"Send messages {of} back where they were before."),
        verb("import", "IMPORT-MESSAGES", said.Import, ImportDone, f"Create messages {of}.", _import),
        verb("act", "ACT", said.Job, arguments.Anything, "Act on messages that are named one by one.", _act),
        made(
            "open_message_cursor_of",
            "POST",
            cursors,
            f"Keep which messages {of} are meant, to page through them.",
            _open_cursor,
            arguments=said.CursorOpening,
            needs_arguments=False,
            answer=Cursor,
            status=201,
            reaches=_reaching("OPEN-CURSOR"),
        ),
        made(
            "read_message_cursor_of",
            "GET",
            f"{cursors}/{{cursor}}",
            "A page of a cursor: each message as it is now.",
            _read_cursor,
            query=said.CursorPage,
            answer=page,
            reaches=_reaching("READ-CURSOR"),
        ),
        made(
            "close_message_cursor_of",
            "DELETE",
            f"{cursors}/{{cursor}}",
            "Close a cursor.",
            _close_cursor,
            status=204,
            reaches=_reaching("CLOSE-CURSOR"),
        ),
    ]


_VERBS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("PUT-MESSAGE", said.StorePut, "Put a message, in one step or under a confirm id."),
    ("CONFIRM-PUT", said.StoreGet, "Confirm a message that was put under a confirm id."),
    ("GET-MESSAGE", said.StoreGet, "Get the first message, in one step or under a confirm id."),
    ("WAIT", said.StoreWait, "Get the first message, and wait for one."),
    ("CONFIRM-GET", said.StoreGet, "Confirm a message that was got under a confirm id."),
    ("BROWSE", said.StoreBrowse, "Messages, a page of them; nothing is taken."),
    ("BROWSE-AND-LOCK", said.StoreLock, "Lock messages against everybody else."),
    ("UNLOCK", said.StoreFilter, "Unlock a message."),
    ("DELETE-MESSAGE", said.StoreFilter, "Delete a message, by its unique id."),
    ("LISTEN", said.StoreListen, "Wait for messages that come."),
    ("UNDO", said.ConfirmId, "Take back what was done under a confirm id."),
    ("CONFIRM", said.ConfirmId, "Confirm all that was done under a confirm id."),
)
_WAITING: Final = ("WAIT", "LISTEN")


def operations() -> list[Operation]:
    """All of it."""
    store = [
        Operation(
            f"store_{name.lower().replace('-', '_')}",
            "POST",
            f"/queues/{{name}}/message-store/{name.lower()}",
            STORE_TAG,
            summary,
            _of_store(name, name in _WAITING),
            answer=Messages,
            arguments=kind,
            reaches=_reaching(name),
        )
        for name, kind, summary in _VERBS
    ]
    put = Operation(
        "put_message",
        "POST",
        "/queues/{name}/messages",
        TAG,
        "Put a message on a queue, a remote queue or one at another queue manager.",
        _put,
        answer=Put,
        status=201,
        arguments=NewMessage,
        reaches=_reaching("PUT-MESSAGE"),
    )
    history = [
        Operation(
            "find_messages",
            "GET",
            "/messages",
            TAG,
            "The serials of all messages of an id that the ledger knows, ended ones, too.",
            _find,
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
            _life,
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
            _lives,
            answer=answers.Life,
            arguments=arguments.Followed,
            reaches=((LEDGER_TYPE, "FOLLOW-MESSAGES"),),
        ),
    ]
    destinations = [*_of_destination("queues", "queue"), *_of_destination("subscriptions", "subscription")]
    return [put, *destinations, *store, *history]
