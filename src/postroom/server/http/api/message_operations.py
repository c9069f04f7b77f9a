"""The table of the API, as far as it is about messages: of queues and subscriptions, and in the ledger."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from postroom.model.entity_types import LEDGER_TYPE, MESSAGE_TYPE, TOPIC_TYPE
from postroom.server.http.api import answers, arguments
from postroom.server.http.api import message_arguments as types
from postroom.server.http.api.lists import paged
from postroom.server.http.api.messages import NewMessage, StoredMessage, encoded, id_value, shown, typed_id
from postroom.server.http.api.operation import Call, CarryOut, Operation, Operations, attributes, given
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import LEAVE_WORK

TAG: Final = "messages"
STORE_TAG: Final = "message-store"
IDS: Final = ("message_id", "correlation_id")


def _reaching(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((MESSAGE_TYPE, name) for name in names)


_NEW: Final = Operations(TAG)
_OF_DESTINATION: Final = Operations(TAG)
"""Of queues, and of subscriptions: ids lack the noun, summaries have it in braces, paths what is below."""
_HISTORY: Final = Operations(TAG)


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
    """Arguments for the management node: ids as AMQP has them, and nothing that wasn't types."""
    found = {name: value for name, value in given_fields.items() if value not in (None, "", [])}
    for name in IDS:
        if name in found:
            found[name] = id_value(found[name], name)
    return found


def _shown_page(body: Mapping[str, Any], path: str, page: Any) -> dict[str, Any]:
    return paged([shown(each) for each in body["messages"]], int(body["count"]), path, page)


@_NEW.adds(
    "POST /queues/{name}/messages", Put, status=201, arguments=NewMessage, reaches=_reaching("PUT-MESSAGE")
)
async def put_message(call: Call) -> Any:
    """Put a message on a queue, a remote queue or one at another queue manager."""
    message: NewMessage = call.arguments
    body = await call.manage("PUT-MESSAGE", MESSAGE_TYPE, body={"message": encoded(message)})
    return attributes(body, Put)


@_NEW.adds(
    "POST /topics/{name}/messages",
    answers.Published,
    status=201,
    arguments=NewMessage,
    reaches=((TOPIC_TYPE, "PUBLISH"),),
)
async def publish_message(call: Call) -> Any:
    """Publish a message to a topic."""
    body = await call.manage("PUBLISH", TOPIC_TYPE, body={"message": encoded(call.arguments)})
    return attributes(body, answers.Published)


@_OF_DESTINATION.adds(
    "GET /messages",
    answers.Page[StoredMessage],
    query=types.Browse,
    reaches=_reaching("OPEN-CURSOR", "READ-CURSOR", "CLOSE-CURSOR"),
)
async def browse_messages_of(call: Call) -> Any:
    """Messages of a {noun}, in whatever state, a page of them; nothing is taken."""
    # a cursor for one page: what is meant is judged anew for each
    query: types.Browse = call.query
    wanted: dict[str, Any] = {"selector": query.selector, "states": query.states, "serial": query.serial}
    if query.message_id:
        wanted["message_id"] = typed_id(query.message_id, query.message_id_type, "message_id")
    opened = await call.manage("OPEN-CURSOR", MESSAGE_TYPE, body={**_given_only(wanted), "timeout_s": 60})
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


def _given_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _cursor(call: Call) -> int:
    return _number(call.path["cursor"], "cursor")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < len(str(arguments.MAX_SERIAL))):
        raise Refusal(404, "not-found", f"there is no {what} {text!r:.100}")
    return int(text)


@_OF_DESTINATION.adds(
    "GET /messages/{serial}", StoredMessage, query=types.WithBody, reaches=_reaching("READ")
)
async def read_message_of(call: Call) -> Any:
    """One message of a {noun}, by its serial."""
    wanted = {"serial": _number(call.path["serial"], "message"), "bodies": call.query.bodies}
    body = await call.manage("READ", MESSAGE_TYPE, body=wanted)
    return shown(body["messages"][0])


@_OF_DESTINATION.adds("DELETE /messages/{serial}", Changed, reaches=_reaching("DELETE-MESSAGES"))
async def delete_message_of(call: Call) -> Any:
    """Delete one message of a {noun} that nobody holds."""
    wanted = {"serial": _number(call.path["serial"], "message")}
    return await call.manage("DELETE-MESSAGES", MESSAGE_TYPE, body=wanted)


def _on_messages(operation: str, kind: Any, summary: str) -> None:
    """An operation whose arguments are the request's body."""

    async def carry_out(call: Call) -> Any:
        return await call.manage(operation, MESSAGE_TYPE, body=meant(given(call.arguments)))

    word = operation.partition("-")[0].lower()
    carry_out.__name__, carry_out.__doc__ = f"{word}_messages_of", summary
    adds = _OF_DESTINATION.adds(
        f"POST /messages/{word}", Changed, arguments=kind, reaches=_reaching(operation)
    )
    adds(carry_out)


_on_messages("DELETE-MESSAGES", types.Meant, "Delete messages of a {noun}.")
_on_messages("MOVE-MESSAGES", types.Moved, "Move messages of a {noun} elsewhere.")
_on_messages("REPLAY", types.Replayed, "Send messages of a {noun} back where they were before.")


@_OF_DESTINATION.adds(
    "POST /messages/import", ImportDone, arguments=types.Import, reaches=_reaching("IMPORT-MESSAGES")
)
async def import_messages_of(call: Call) -> Any:
    """Create messages of a {noun}."""
    found = []
    for number, each in enumerate(call.arguments.messages):
        times = {name: getattr(each, name) for name in ("expires_us", "due_us") if getattr(each, name)}
        found.append({"message": encoded(each, f"messages[{number}]."), **times})
    body = {"messages": found, "overrides": call.arguments.overrides}
    return await call.manage("IMPORT-MESSAGES", MESSAGE_TYPE, body=body)


@_OF_DESTINATION.adds("POST /messages/act", arguments.Anything, arguments=types.Job, reaches=_reaching("ACT"))
async def act_messages_of(call: Call) -> Any:
    """Act on messages that are named one by one."""
    job: types.Job = call.arguments
    actions = [_some(given(each)) for each in job.actions]
    return await call.manage("ACT", MESSAGE_TYPE, body={"ledger_id": job.ledger_id, "actions": actions})


def _some(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@_OF_DESTINATION.adds(
    "POST /message-cursors",
    Cursor,
    status=201,
    arguments=types.CursorOpening,
    needs_arguments=False,
    reaches=_reaching("OPEN-CURSOR"),
)
async def open_message_cursor_of(call: Call) -> Any:
    """Keep which messages of a {noun} are meant, to page through them."""
    body = await call.manage("OPEN-CURSOR", MESSAGE_TYPE, body=meant(given(call.arguments)))
    return {"cursor": body.get("cursor", 0), "count": body["count"]}


@_OF_DESTINATION.adds(
    "GET /message-cursors/{cursor}",
    answers.Page[StoredMessage],
    query=types.CursorPage,
    reaches=_reaching("READ-CURSOR"),
)
async def read_message_cursor_of(call: Call) -> Any:
    """A page of a cursor: each message as it is now."""
    query: types.CursorPage = call.query
    read = {"cursor": _cursor(call), "offset": query.offset, "count": query.limit, "bodies": query.bodies}
    body = await call.manage("READ-CURSOR", MESSAGE_TYPE, body=read)
    return _shown_page(body, call.request.url.path, query)


@_OF_DESTINATION.adds("DELETE /message-cursors/{cursor}", status=204, reaches=_reaching("CLOSE-CURSOR"))
async def close_message_cursor_of(call: Call) -> Any:
    """Close a cursor."""
    await call.manage("CLOSE-CURSOR", MESSAGE_TYPE, body={"cursor": _cursor(call)})


def _of_store(operation: str, waits: bool) -> CarryOut:
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


@_HISTORY.adds(
    "GET /messages", answers.Found, query=arguments.LedgerSearch, reaches=((LEDGER_TYPE, "FIND-MESSAGES"),)
)
async def find_messages(call: Call) -> Any:
    """The serials of all messages of an id that the ledger knows, ended ones, too."""
    query: arguments.LedgerSearch = call.query
    body: dict[str, Any] = _given_only({"serial": query.serial, "first": query.first})
    if query.message_id:
        body["message_id"] = typed_id(query.message_id, query.message_id_type, "message_id")
    return await call.manage("FIND-MESSAGES", LEDGER_TYPE, "", body)


@_HISTORY.adds(
    "GET /messages/{serial}/life",
    answers.Life,
    query=arguments.FollowFrom,
    reaches=((LEDGER_TYPE, "FOLLOW-MESSAGES"),),
)
async def read_life(call: Call) -> Any:
    """What happened to a message and to what was made of it."""
    query: arguments.FollowFrom = call.query
    return await _follow(call, [_number(call.path["serial"], "message")], query.first, query.skip)


@_HISTORY.adds(
    "POST /messages/follow",
    answers.Life,
    arguments=arguments.Followed,
    reaches=((LEDGER_TYPE, "FOLLOW-MESSAGES"),),
)
async def follow_messages(call: Call) -> Any:
    """What happened to messages, the same for many."""
    wanted: arguments.Followed = call.arguments
    return await _follow(call, wanted.serials, wanted.first, wanted.skip)


async def _follow(call: Call, serials: list[int], first: int, skip: int) -> Any:
    body = await call.manage(
        "FOLLOW-MESSAGES", LEDGER_TYPE, "", {"serials": serials, "first": first, "skip": skip}
    )
    return {**body, "lines": [json.loads(line) for line in body["lines"]]}


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
    of_each = [
        replace(
            each,
            id=f"{each.id}_{noun}",
            path=f"/{noun}s/{{name}}{each.path}",
            summary=each.summary.replace("{noun}", noun),
        )
        for noun in ("queue", "subscription")
        for each in _OF_DESTINATION
    ]
    return [*_NEW, *of_each, *_store(), *_HISTORY]


def _store() -> list[Operation]:
    return [
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
