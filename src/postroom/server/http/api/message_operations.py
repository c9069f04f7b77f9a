"""How operations on messages are carried out: of queues and subscriptions, and in the ledger."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from postroom.model.entity_types import LEDGER_TYPE, MESSAGE_TYPE, TOPIC_TYPE
from postroom.server.http.api import arguments
from postroom.server.http.api import message_arguments as types
from postroom.server.http.api.answers import Published
from postroom.server.http.api.lists import paged
from postroom.server.http.api.messages import NewMessage, StoredMessage, encoded, id_value, shown, typed_id
from postroom.server.http.api.operation import Call, CarryOut, attributes, given
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import LEAVE_WORK

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
    """Arguments for the management node: ids as AMQP has them, and nothing that wasn't types."""
    found = {name: value for name, value in given_fields.items() if value not in (None, "", [])}
    for name in IDS:
        if name in found:
            found[name] = id_value(found[name], name)
    return found


def _shown_page(body: Mapping[str, Any], path: str, page: Any) -> dict[str, Any]:
    return paged([shown(each) for each in body["messages"]], int(body["count"]), path, page)


async def browse(call: Call) -> Any:
    """A cursor for one page: what is meant is judged anew for each."""
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


async def open_cursor(call: Call) -> Any:
    """Keep a query's result."""
    body = await call.manage("OPEN-CURSOR", MESSAGE_TYPE, body=meant(given(call.arguments)))
    return {"cursor": body.get("cursor", 0), "count": body["count"]}


def _cursor(call: Call) -> int:
    return _number(call.path["cursor"], "cursor")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < len(str(arguments.MAX_SERIAL))):
        raise Refusal(404, "not-found", f"there is no {what} {text!r:.100}")
    return int(text)


async def read_cursor(call: Call) -> Any:
    """A page of it."""
    query: types.CursorPage = call.query
    read = {"cursor": _cursor(call), "offset": query.offset, "count": query.limit, "bodies": query.bodies}
    body = await call.manage("READ-CURSOR", MESSAGE_TYPE, body=read)
    return _shown_page(body, call.request.url.path, query)


async def close_cursor(call: Call) -> Any:
    """Let it go."""
    await call.manage("CLOSE-CURSOR", MESSAGE_TYPE, body={"cursor": _cursor(call)})


async def read(call: Call) -> Any:
    """One message."""
    wanted = {"serial": _number(call.path["serial"], "message"), "bodies": call.query.bodies}
    body = await call.manage("READ", MESSAGE_TYPE, body=wanted)
    return shown(body["messages"][0])


async def delete_one(call: Call) -> Any:
    """Delete one message."""
    wanted = {"serial": _number(call.path["serial"], "message")}
    return await call.manage("DELETE-MESSAGES", MESSAGE_TYPE, body=wanted)


async def put(call: Call) -> Any:
    """Put a message."""
    message: NewMessage = call.arguments
    body = await call.manage("PUT-MESSAGE", MESSAGE_TYPE, body={"message": encoded(message)})
    return attributes(body, Put)


async def publish(call: Call) -> Any:
    """Publish a message."""
    body = await call.manage("PUBLISH", TOPIC_TYPE, body={"message": encoded(call.arguments)})
    return attributes(body, Published)


async def import_messages(call: Call) -> Any:
    """Create messages."""
    found = []
    for number, each in enumerate(call.arguments.messages):
        times = {name: getattr(each, name) for name in ("expires_us", "due_us") if getattr(each, name)}
        found.append({"message": encoded(each, f"messages[{number}]."), **times})
    body = {"messages": found, "overrides": call.arguments.overrides}
    return await call.manage("IMPORT-MESSAGES", MESSAGE_TYPE, body=body)


async def act(call: Call) -> Any:
    """A job's actions."""
    job: types.Job = call.arguments
    actions = [_some(given(each)) for each in job.actions]
    return await call.manage("ACT", MESSAGE_TYPE, body={"ledger_id": job.ledger_id, "actions": actions})


def _some(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def on_messages(operation: str) -> CarryOut:
    """An operation whose arguments are the request's body."""

    async def carry_out(call: Call) -> Any:
        return await call.manage(operation, MESSAGE_TYPE, body=meant(given(call.arguments)))

    return carry_out


def of_store(operation: str, waits: bool = False) -> CarryOut:
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


async def find_messages(call: Call) -> Any:
    """Serials of an id."""
    query: arguments.LedgerSearch = call.query
    body: dict[str, Any] = _given_only({"serial": query.serial, "first": query.first})
    if query.message_id:
        body["message_id"] = typed_id(query.message_id, query.message_id_type, "message_id")
    return await call.manage("FIND-MESSAGES", LEDGER_TYPE, "", body)


async def read_life(call: Call) -> Any:
    """What happened to one message."""
    query: arguments.FollowFrom = call.query
    return await _follow(call, [_number(call.path["serial"], "message")], query.first, query.skip)


async def follow_messages(call: Call) -> Any:
    """What happened to many."""
    wanted: arguments.Followed = call.arguments
    return await _follow(call, wanted.serials, wanted.first, wanted.skip)


async def _follow(call: Call, serials: list[int], first: int, skip: int) -> Any:
    body = await call.manage(
        "FOLLOW-MESSAGES", LEDGER_TYPE, "", {"serials": serials, "first": first, "skip": skip}
    )
    return {**body, "lines": [json.loads(line) for line in body["lines"]]}
