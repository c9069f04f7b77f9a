"""The table of the API, as far as it is about the broker itself, its records, tokens and sessions."""

import asyncio
from functools import partial
from itertools import islice
from typing import Any

from starlette.responses import JSONResponse, Response

from postroom.ledger.reading.acts import read_acts
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.model.rights import Right as UserRight
from postroom.server.http.admission import remote_of
from postroom.server.http.api import answers, arguments
from postroom.server.http.api.events import stream
from postroom.server.http.api.operation import Call, Operation, attributes
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import NOT_STORED
from postroom.server.http.tokens import TokensError, add_token, read_tokens, remove_token


async def _alarms(call: Call) -> Any:
    body = await call.manage("READ", BROKER_TYPE, BROKER_NAME)
    return {"alarms": body["alarms"]}


async def _read_broker(call: Call) -> Any:
    return attributes(await call.manage("READ", BROKER_TYPE, BROKER_NAME), answers.Broker)


async def _reset_broker(call: Call) -> Any:
    return attributes(await call.manage("RESET-STATISTICS", BROKER_TYPE, BROKER_NAME), answers.Broker)


async def _acts(call: Call) -> Any:
    """Read beside the broker, as its folder's readers do."""
    query: arguments.ActsFrom = call.query
    await call.shared.gateway.require(call.requester, UserRight.READ_LEDGER, "READ", "/acts")
    first, limit = query.first or None, query.limit
    found = await asyncio.to_thread(
        lambda: list(islice(read_acts(call.shared.data_folder, first), limit + 1))
    )
    more = found[limit]["position"] if len(found) > limit else 0
    return {"acts": found[:limit], "next": more}


# Tokens.


async def _tokens(call: Call) -> Any:
    await _require_administration(call, "READ")
    known = await _on_file(call, read_tokens)
    names = ("name", "id", "user", "created_us", "expires_us")
    return {
        "tokens": [
            {**{name: getattr(each, name) for name in names}, "rights": list(map(str, each.rights))}
            for each in known
        ]
    }


async def _create_token(call: Call) -> Any:
    await _require_administration(call, "CREATE")
    wanted: arguments.TokenSettings = call.arguments
    add = partial(
        add_token, name=wanted.name, rights=wanted.rights, duration_s=wanted.duration_s, user=wanted.user
    )
    return {"token": await _on_file(call, add)}


async def _delete_token(call: Call) -> Any:
    await _require_administration(call, "DELETE")
    await _on_file(call, partial(remove_token, name=call.name))


async def _require_administration(call: Call, operation: str) -> None:
    await call.shared.gateway.require(call.requester, UserRight.ADMINISTER_USERS, operation, "/tokens")


async def _on_file(call: Call, work: Any) -> Any:
    try:
        return await asyncio.to_thread(work, call.shared.tokens_file)
    except TokensError as error:
        raise Refusal(409, "conflict", str(error)) from None


# Sessions.


async def _sign_in(call: Call) -> Response:
    wanted: arguments.Credentials = call.arguments
    session, cookie = await call.shared.requesters.sign_in(call.request, wanted.user, wanted.password)
    shown = {"user": session.user, "csrf_token": session.csrf_token}
    return JSONResponse(shown, 201, {"set-cookie": cookie, **NOT_STORED})


async def _session(call: Call) -> Any:
    return {
        "user": call.requester.user,
        "csrf_token": call.shared.requesters.csrf_token(call.request),
        "is_open": call.shared.requesters.is_open(remote_of(call.request)),
    }


async def _sign_out(call: Call) -> Response:
    return Response(status_code=204, headers={"set-cookie": call.shared.requesters.sign_out(call.request)})


def operations() -> list[Operation]:
    """All of it."""
    return [
        Operation(
            "read_broker",
            "GET",
            "/broker",
            "broker",
            "The broker itself: counts, how far its ledger is, alarms.",
            _read_broker,
            answer=answers.Broker,
            reaches=((BROKER_TYPE, "READ"),),
        ),
        Operation(
            "reset_statistics_broker",
            "POST",
            "/broker/reset-statistics",
            "broker",
            "Count of the broker and of all destinations from now on; as it was before.",
            _reset_broker,
            answer=answers.Broker,
            reaches=((BROKER_TYPE, "RESET-STATISTICS"),),
        ),
        Operation(
            "list_alarms",
            "GET",
            "/alarms",
            "broker",
            "What is wrong now, since when, and what to do.",
            _alarms,
            answer=answers.Alarms,
        ),
        Operation(
            "list_acts",
            "GET",
            "/acts",
            "broker",
            "What administrators did, and what was refused, from the ledger.",
            _acts,
            answer=answers.Acts,
            query=arguments.ActsFrom,
        ),
        Operation(
            "stream_events",
            "GET",
            "/events",
            "broker",
            "Figures of the broker and of queues, each second, as server-sent events.",
            stream,
            answer=str,
            query=arguments.EventsOf,
            media_type="text/event-stream",
        ),
        *_token_operations(),
        *_session_operations(),
    ]


def _token_operations() -> list[Operation]:
    return [
        Operation("list_tokens", "GET", "/tokens", "tokens", "All tokens.", _tokens, answer=answers.Tokens),
        Operation(
            "create_token",
            "POST",
            "/tokens",
            "tokens",
            "Make a token.",
            _create_token,
            answer=answers.NewToken,
            status=201,
            arguments=arguments.TokenSettings,
        ),
        Operation(
            "delete_token",
            "DELETE",
            "/tokens/{name}",
            "tokens",
            "End a token.",
            _delete_token,
            status=204,
        ),
    ]


def _session_operations() -> list[Operation]:
    return [
        Operation(
            "sign_in",
            "POST",
            "/session",
            "session",
            "Sign in with a user's name and password: a session, whose cookie is set.",
            _sign_in,
            answer=answers.SessionShown,
            status=201,
            arguments=arguments.Credentials,
            is_open=True,
        ),
        Operation(
            "read_session",
            "GET",
            "/session",
            "session",
            "Who has signed in.",
            _session,
            answer=answers.SessionShown,
        ),
        Operation("sign_out", "DELETE", "/session", "session", "End the session.", _sign_out, status=204),
    ]
