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
from postroom.server.http.api.operation import Call, Operation, Operations, attributes
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import NOT_STORED
from postroom.server.http.tokens import TokensError, add_token, read_tokens, remove_token

_BROKER, _TOKENS, _SESSION = Operations("broker"), Operations("tokens"), Operations("session")


@_BROKER.adds("GET /broker", answers.Broker, reaches=((BROKER_TYPE, "READ"),))
async def read_broker(call: Call) -> Any:
    """The broker itself: counts, how far its ledger is, alarms."""
    return attributes(await call.manage("READ", BROKER_TYPE, BROKER_NAME), answers.Broker)


@_BROKER.adds("POST /broker/reset-statistics", answers.Broker, reaches=((BROKER_TYPE, "RESET-STATISTICS"),))
async def reset_statistics_broker(call: Call) -> Any:
    """Count of the broker and of all destinations from now on; as it was before."""
    return attributes(await call.manage("RESET-STATISTICS", BROKER_TYPE, BROKER_NAME), answers.Broker)


@_BROKER.adds("GET /alarms", answers.Alarms)
async def list_alarms(call: Call) -> Any:
    """What is wrong now, since when, and what to do."""
    body = await call.manage("READ", BROKER_TYPE, BROKER_NAME)
    return {"alarms": body["alarms"]}


@_BROKER.adds("GET /acts", answers.Acts, query=arguments.ActsFrom)
async def list_acts(call: Call) -> Any:
    """What administrators did, and what was refused, from the ledger."""
    # read beside the broker, as its folder's readers do
    query: arguments.ActsFrom = call.query
    await call.shared.gateway.require(call.requester, UserRight.READ_LEDGER, "READ", "/acts")
    first, limit = query.first or None, query.limit
    found = await asyncio.to_thread(
        lambda: list(islice(read_acts(call.shared.data_folder, first), limit + 1))
    )
    more = found[limit]["position"] if len(found) > limit else 0
    return {"acts": found[:limit], "next": more}


@_BROKER.adds("GET /events", str, query=arguments.EventsOf, media_type="text/event-stream")
async def stream_events(call: Call) -> Response:
    """Figures of the broker and of queues, each second, as server-sent events."""
    return await stream(call)


# Tokens.


@_TOKENS.adds("GET /tokens", answers.Tokens)
async def list_tokens(call: Call) -> Any:
    """All tokens."""
    await _require_administration(call, "READ")
    known = await _on_file(call, read_tokens)
    names = ("name", "id", "user", "created_us", "expires_us")
    return {
        "tokens": [
            {**{name: getattr(each, name) for name in names}, "rights": list(map(str, each.rights))}
            for each in known
        ]
    }


@_TOKENS.adds("POST /tokens", answers.NewToken, status=201, arguments=arguments.TokenSettings)
async def create_token(call: Call) -> Any:
    """Make a token."""
    await _require_administration(call, "CREATE")
    wanted: arguments.TokenSettings = call.arguments
    add = partial(
        add_token, name=wanted.name, rights=wanted.rights, duration_s=wanted.duration_s, user=wanted.user
    )
    return {"token": await _on_file(call, add)}


@_TOKENS.adds("DELETE /tokens/{name}", status=204)
async def delete_token(call: Call) -> Any:
    """End a token."""
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


@_SESSION.adds(
    "POST /session", answers.SessionShown, status=201, arguments=arguments.Credentials, is_open=True
)
async def sign_in(call: Call) -> Response:
    """Sign in with a user's name and password: a session, whose cookie is set."""
    wanted: arguments.Credentials = call.arguments
    session, cookie = await call.shared.requesters.sign_in(call.request, wanted.user, wanted.password)
    shown = {"user": session.user, "csrf_token": session.csrf_token}
    return JSONResponse(shown, 201, {"set-cookie": cookie, **NOT_STORED})


@_SESSION.adds("GET /session", answers.SessionShown)
async def read_session(call: Call) -> Any:
    """Who has signed in."""
    return {
        "user": call.requester.user,
        "csrf_token": call.shared.requesters.csrf_token(call.request),
        "is_open": call.shared.requesters.is_open(remote_of(call.request)),
    }


@_SESSION.adds("DELETE /session", status=204)
async def sign_out(call: Call) -> Response:
    """End the session."""
    return Response(status_code=204, headers={"set-cookie": call.shared.requesters.sign_out(call.request)})


def operations() -> list[Operation]:
    """All of it."""
    return [*_BROKER, *_TOKENS, *_SESSION]
