"""The management node for requests over HTTP: from the thread that serves it to the broker's own, and back.

A request is carried out in the broker's thread, in a turn of its own, as one that has come over a link is;
its answer leaves when what it reports is durable. Who gives up waiting, or hangs up, cancels what is under
way.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.manager.kernel.effects import Asker, Reply
from postroom.manager.security.acts import Act
from postroom.model.rights import QUEUE_MANAGER, Right
from postroom.server.access.access import FORBIDDEN, missing
from postroom.server.configuration.http import HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.http.callers import ROUTE
from postroom.server.http.errors import Refusal
from postroom.server.logs import LOGGER_NAME, log
from postroom.server.management import Later, Request, Response
from postroom.server.management.links import LOGGED
from postroom.server.management.node import MAX_QUERY_ROWS
from postroom.server.management.request import INTERNAL, Attributes, Requester

MAX_ROWS: Final = 100_000
"""Of one type, that are gone through for a filter or an order; more are refused."""

Command = Callable[[Callable[[int], object]], None]
"""Has the broker's own thread do something with the time."""
T = TypeVar("T")


class Pending(Generic[T]):
    """An answer that another thread gives; made in the loop that waits for it."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self.future: Final[asyncio.Future[T]] = self._loop.create_future()

    def give(self, answer: T) -> None:
        """From any thread; only the first counts."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self._set, answer)

    def _set(self, answer: T) -> None:
        if not self.future.done():
            self.future.set_result(answer)


class _Call(Asker):
    """One request. All but the making is done in the broker's thread."""

    def __init__(self, broker: Broker, request: Request, pending: Pending[Response]) -> None:
        super().__init__()
        self._broker: Final = broker
        self._request: Final = request
        self._pending: Final = pending
        self._later: Later | None = None
        self._given_up = False

    def perform(self, now_us: int) -> None:
        if self._given_up:
            return
        try:
            response = self._broker.management.perform(self._request, now_us)
        except Exception as error:  # of this request alone, as it would end one connection alone
            logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=error)
            response = Response(INTERNAL, "the broker's log says more", {})
        if isinstance(response, Later):
            self._later = response
            response.then(self.answered)
        else:
            self._broker.manager.core.effects.replies.append(Reply(self, response))

    def answered(self, payload: object, now_us: int) -> None:
        assert isinstance(payload, Response)
        self._later = None
        request = self._request
        log(
            logging.INFO if request.operation in LOGGED else logging.DEBUG,
            "management",
            user=request.user,
            operation=request.operation,
            type=request.type,
            name=request.name,
            status=payload.status,
            description=payload.description,
        )
        self._pending.give(payload)

    def give_up(self, now_us: int) -> None:
        self._given_up = True
        if self._later is not None:
            self._later.cancel()
            self._later = None


class ManagementGateway:
    """That of one broker, for the loop that serves HTTP."""

    def __init__(self, broker: Broker, command: Command, config: HttpConfig) -> None:
        self._broker: Final = broker
        self._command: Final = command
        self._most: Final = config.max_management_requests
        self._timeout_ms: Final = config.management_timeout_ms
        self._under_way = 0

    async def request(
        self,
        requester: Requester,
        operation: str,
        entity_type: str = "",
        name: str = "",
        body: Mapping[str, object] | None = None,
        **properties: object,
    ) -> Response:
        """The management node's answer, once what it reports is durable; refusals are answers, too.

        Raises `Refusal` where too many requests are under way, or this one takes too long.
        """
        fields = {"operation": operation, "type": entity_type, "name": name, **properties}
        request = Request(fields, None if body is None else dict(body), requester)
        with self._admitted():
            pending = Pending[Response]()
            call = _Call(self._broker, request, pending)
            self._command(call.perform)
            try:
                return await self._given(pending)
            finally:
                if pending.future.cancelled():
                    self._command(call.give_up)

    @property
    def stopping(self) -> bool:
        """Whether the broker is on its way to its end."""
        return self._broker.stopping

    async def require(self, requester: Requester, right: Right, operation: str, path: str) -> None:
        """Raise `Refusal` unless the requester has that right on the queue manager; a refusal is recorded, as
        of that path."""
        pending = Pending[str]()
        self._command(lambda now_us: pending.give(self._missing(requester, right, operation, path, now_us)))
        lacking = await self._given(pending)
        if lacking:
            condition, on = UNAUTHORIZED_ACCESS, QUEUE_MANAGER
            raise Refusal(403, "no-right", lacking, None, condition=condition, right=right.value, on=on)

    def _missing(self, requester: Requester, right: Right, operation: str, path: str, now_us: int) -> str:
        access = self._broker.access
        if not access.in_force or access.rights_of(requester).on_queue_manager(right):
            return ""
        what = missing(requester.user, right, QUEUE_MANAGER)
        act = Act(
            requester.user, requester.remote, requester.container, operation, ROUTE, path, FORBIDDEN, what
        )
        access.acts.refused(act, now_us)
        return what

    async def _given(self, pending: Pending[T]) -> T:
        try:
            return await asyncio.wait_for(pending.future, self._timeout_ms / 1000)
        except TimeoutError:
            what = f"no answer within {self._timeout_ms} ms: read what became of it, then try again"
            raise Refusal(504, "too-slow", what) from None

    async def query(
        self, requester: Requester, entity_type: str, offset: int = 0, limit: int = MAX_QUERY_ROWS
    ) -> tuple[list[Attributes], int]:
        """Rows of a type that the requester may see, from the one at ``offset``, and how many there are.

        Raises `Refusal`, too, for what the management node refuses.
        """
        rows: list[Attributes] = []
        total = 0
        while True:
            count = min(limit - len(rows), MAX_QUERY_ROWS)
            page, total = await self._page(requester, entity_type, offset + len(rows), count)
            rows += page
            if len(page) < count or len(rows) >= limit:
                return rows, total

    async def all_rows(self, requester: Requester, entity_type: str) -> list[Attributes]:
        """Every row of a type, to be filtered or put into another order. Raises `Refusal`."""
        rows, total = await self.query(requester, entity_type, 0, MAX_ROWS)
        if total > MAX_ROWS:
            what = f"{total} of them: more than {MAX_ROWS} are neither filtered nor sorted; page through them"
            raise Refusal(422, "too-many-rows", what)
        return rows

    async def _page(
        self, requester: Requester, entity_type: str, offset: int, count: int
    ) -> tuple[list[Attributes], int]:
        answer = await self.request(
            requester, "QUERY", entityType=entity_type, offset=offset, count=count, total=True
        )
        if answer.status != 200:
            raise Refusal(answer.status, "refused", answer.description, condition=answer.condition)
        body = answer.body
        assert isinstance(body, dict)
        names = body["attributeNames"]
        return [dict(zip(names, row, strict=True)) for row in body["results"]], int(body["total"])

    @contextlib.contextmanager
    def _admitted(self) -> Iterator[None]:
        if self._broker.stopping:
            raise Refusal(503, "stopping", "the broker is stopping", {"retry-after": "5"})
        if self._under_way >= self._most:
            what = f"{self._most} requests to the management node are under way, as many as"
            raise Refusal(
                429, "too-many-requests", f"{what} max_management_requests allows", {"retry-after": "1"}
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
