"""What an operation of the API is, and those that are operations of the management node as they stand."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct
from starlette.requests import Request

from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import Shared
from postroom.server.management.request import Requester, Response

PREFIX: Final = "/api/v1"
T = TypeVar("T")


@dataclass
class Call:
    """One request of the API, taken apart."""

    shared: Shared
    request: Request
    requester: Requester
    path: Mapping[str, str]
    """The parameters of its path, decoded."""
    query: Any
    """An instance of the operation's ``query``."""
    arguments: Any
    """An instance of the operation's ``arguments``; None where it has none."""

    @property
    def name(self) -> str:
        """Of the thing that is meant; "" where the path has none."""
        return self.path.get("name", "")

    async def manage(
        self,
        operation: str,
        entity_type: str,
        name: str | None = None,
        body: Mapping[str, object] | None = None,
        **properties: object,
    ) -> Any:
        """What the management node answers, its body. Raises `Refusal` where it refuses."""
        meant = self.name if name is None else name
        answer = self.shared.gateway.request(
            self.requester, operation, entity_type, meant, body, **properties
        )
        return checked(await while_wanted(self.request, answer)).body


CarryOut = Callable[[Call], Awaitable[Any]]
"""Carries out a call: what is answered, as JSON has it, or a whole response."""


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    id: str
    """Its name, for programs."""
    method: str
    path: str
    """Under `PREFIX`, parameters in braces; each is one segment, percent-encoded."""
    tag: str
    summary: str
    carry_out: CarryOut
    answer: Any = None
    """Its type; None: no body."""
    status: int = 200
    arguments: Any = None
    """The type of the request's body; None: it has none."""
    query: Any = None
    """The type of the request's query."""
    needs_arguments: bool = True
    """A body may not be left out."""
    is_open: bool = False
    """Nobody needs to have signed in."""
    media_type: str = "application/json"
    reaches: tuple[tuple[str, str], ...] = ()
    """Operations of the management node, by type, that it gives."""
    errors: tuple[int, ...] = field(default=())
    """Statuses beside those that every operation has."""


class Operations(list[Operation]):
    """Those of one tag, in the order in which the functions stand that carry them out."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag: Final = tag

    def adds(self, request: str, answer: Any = None, **more: Any) -> Callable[[CarryOut], CarryOut]:
        """Of a function that carries out ``request``, a method and a path: its name is the operation's, what
        is written at its head the summary."""
        method, path = request.split()

        def added(carry_out: CarryOut) -> CarryOut:
            name, summary = carry_out.__name__, carry_out.__doc__ or ""
            self.append(Operation(name, method, path, self._tag, summary, carry_out, answer, **more))
            return carry_out

        return added


def checked(response: Response) -> Response:
    """The same. Raises `Refusal` for a refusal."""
    if response.status < 400:
        return response
    more: dict[str, object] = {"condition": response.condition} if response.condition else {}
    body = response.body
    if isinstance(body, dict) and "right" in body:
        more |= {"right": body["right"], "on": body["on"]}
    elif body:
        more["info"] = body
    raise Refusal(response.status, word_of(response), response.description, None, **more)


_WORDS: Final = {
    400: "bad-request",
    403: "not-allowed",
    404: "not-found",
    409: "conflict",
    429: "limit",
    500: "internal-error",
    501: "not-implemented",
    502: "partner-silent",
}


def word_of(response: Response) -> str:
    """Of a refusal, for programs."""
    if isinstance(response.body, dict) and "right" in response.body:
        return "no-right"
    return _WORDS.get(response.status, "refused")


async def while_wanted(request: Request, answer: Awaitable[T]) -> T:
    """An answer, unless the client goes before it is there: then what gives it is cancelled."""
    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise Refusal(400, "gone", "the client has gone")
        return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# Operations of the management node as they stand.


def given(arguments: Any) -> dict[str, Any]:
    """The fields of a request that were given, by name."""
    if arguments is None:
        return {}
    found = {name: getattr(arguments, name) for name in type(arguments).__struct_fields__}
    return {name: value for name, value in found.items() if value is not UNSET}


def attributes(body: Any, answer: Any) -> Any:
    """The part of a body that an answer's type has, in its order."""
    if isinstance(answer, type) and issubclass(answer, Struct) and isinstance(body, dict):
        return {name: body[name] for name in answer.__struct_fields__ if name in body}
    return body


def managed(
    operation: str, entity_type: str, answer: Any = None, properties: tuple[str, ...] = ()
) -> CarryOut:
    """Carries out an operation of the management node on what the path names: the request's body is its map
    of attributes, but for ``properties``, which are in the body or in the query."""

    async def carry_out(call: Call) -> Any:
        fields = {**given(call.query), **given(call.arguments)}
        name = call.name or str(fields.pop("name", ""))
        apart = {each.replace("_", "-"): fields.pop(each) for each in properties if each in fields}
        body = await call.manage(operation, entity_type, name, fields or None, **apart)
        return attributes(body, answer)

    return carry_out


def decoded(kind: Any, values: Mapping[str, list[str]]) -> Any:
    """A query, of its type. Raises `Refusal`."""
    if kind is None:
        if values:
            raise Refusal(400, "bad-query", f"no {next(iter(values))!r:.100} is known here")
        return None
    types = {each.name: each.type for each in msgspec.structs.fields(kind)}
    plain = {name: found if _is_list(types.get(name)) else found[-1] for name, found in values.items()}
    try:
        return msgspec.convert(plain, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, "bad-query", f"the query: {error}") from None


def _is_list(kind: Any) -> bool:
    return getattr(kind, "__origin__", None) is list
