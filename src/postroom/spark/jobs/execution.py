"""Carrying out a plan: its actions go to the broker in order, some a request, and what it answers is written
beside the plan. Needs no Spark.

Each request is one transaction of the broker. What it answered is noted after some of them: after an
interruption the next run goes on behind what is noted, and what was done and not noted is told of as gone.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import pyarrow as pa

from postroom.amqp import errors as amqp
from postroom.client import JMSException, ResourceAllocationException, TlsOptions
from postroom.client.aio import ConnectionFactory, ManagementClient
from postroom.manager.administration.message_jobs import MAX_ACTIONS
from postroom.model.entity_types import MESSAGE_TYPE
from postroom.spark.jobs.errors import CannotBeDone, JobError, OptionInvalid
from postroom.spark.jobs.plan import KEYS, RESULTS_FILE, RESULTS_SCHEMA, Manifest, Plan, Results, file_name

NOTED_ROWS: Final = 50_000
"""Actions of one file of results: so many, and those of the requests under way, may be told of as gone after
an interruption."""
_CANNOT: Final = (amqp.NOT_FOUND, amqp.PRECONDITION_FAILED, amqp.NOT_IMPLEMENTED, amqp.INVALID_FIELD)

Progress = Callable[[int, int], None]
"""Told how many of how many actions are through."""
Answers = list[tuple[str, str | None]]
"""What became of each action, and why it was refused."""


def carry_out(plan: Plan, manifest: Manifest, url: str, in_flight: int, progress: Progress | None) -> Results:
    """Carry out what is left of a plan; what became of all of it.

    `in_flight`: so many requests at a time; with 1 messages go on in their order. Raises ``JobError``,
    ``CannotBeDone``, ``OptionInvalid`` for the URL, OSError.
    """
    results = plan.results()
    if results.rows >= manifest.rows():
        return results
    try:
        factory = ConnectionFactory(url, tls=TlsOptions.of_environment())
    except ValueError as error:
        raise OptionInvalid(f"the broker's URL: {error}") from None
    try:
        asyncio.run(_Run(plan, manifest, results, progress).run(factory, in_flight))
    except JMSException as error:
        reason = " ".join(str(error).split())
        if error.condition in _CANNOT:
            raise CannotBeDone(f"the broker refuses to act on queue {manifest.queue!r}: {reason}") from error
        raise JobError(f"{reason}; started again, the job goes on with what is left") from error
    return results


@dataclass(frozen=True, slots=True)
class _Request:
    """Some actions of a plan, as the broker is asked for them."""

    batch: pa.Table
    order: list[int]
    """Of the batch's rows in `actions`."""
    actions: list[dict[str, Any]]


class _Answered(NamedTuple):
    """A request, and what the broker says of it."""

    request: _Request
    reply: dict[str, Any]


class _Run:
    def __init__(self, plan: Plan, manifest: Manifest, results: Results, progress: Progress | None) -> None:
        self._plan = plan
        self._manifest = manifest
        self._results = results
        self._progress = progress
        self._done: list[pa.Table] = []
        self._answers: Answers = []
        """Of what is done and not yet noted."""

    async def run(self, factory: ConnectionFactory, in_flight: int) -> None:
        async with await factory.create_connection() as connection:
            clients = [await connection.create_management() for _ in range(in_flight)]
            await self._request(clients[0], [])  # whether it is the right broker, and the queue is there
            windows = self._windows(in_flight)
            before: list[_Answered] = []
            window = next(windows, None)
            while window is not None:
                acting = asyncio.gather(*map(self._act, clients, window))
                # behind them, so that the requests are on their way before this takes the interpreter
                between = asyncio.create_task(asyncio.to_thread(self._between, before, windows))
                before = list(chain.from_iterable(await acting))
                window = await between
                self._report()
            self._take(before)
            self._note()
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._results.rows + len(self._answers), self._manifest.rows())

    def _between(self, before: list[_Answered], windows: Iterator[list[_Request]]) -> list[_Request] | None:
        """What there is to do while the broker works: what it answered before, and the next requests."""
        self._take(before)
        if len(self._answers) >= NOTED_ROWS:
            self._note()
        return next(windows, None)

    def _windows(self, in_flight: int) -> Iterator[list[_Request]]:
        """What is left of the plan, so many requests at a time."""
        batches = self._plan.batches(self._manifest.files, self._results.rows, MAX_ACTIONS)
        while window := list(islice(batches, in_flight)):
            yield [self._made(batch) for batch in window]

    def _made(self, batch: pa.Table) -> _Request:
        return _Request(batch, *request_of(batch.to_pylist(), f"job {self._manifest.job}"))

    def _take(self, answered: list[_Answered]) -> None:
        for request, reply in answered:
            self._done.append(request.batch)
            self._answers += answers_of(reply, request.order)

    def _note(self) -> None:
        """One file of results."""
        if not self._done:
            return
        noted, results = _noted(pa.concat_tables(self._done).combine_chunks(), self._answers), self._results
        results.parts += 1
        self._plan.write(file_name(RESULTS_FILE, results.parts), RESULTS_SCHEMA, noted.to_batches())
        results.add(noted)
        self._done, self._answers = [], []

    async def _act(self, client: ManagementClient, request: _Request) -> list[_Answered]:
        """One request, in smaller ones where it is too much for one."""
        batch = request.batch
        try:
            return [_Answered(request, await self._request(client, request.actions))]
        except ResourceAllocationException:
            if batch.num_rows <= 1:
                raise
        half = batch.num_rows // 2
        first = await self._act(client, self._made(batch.slice(0, half)))
        return first + await self._act(client, self._made(batch.slice(half)))

    async def _request(self, client: ManagementClient, actions: list[dict[str, Any]]) -> dict[str, Any]:
        body = {"ledger_id": self._manifest.ledger_id, "actions": actions}
        reply = await client.request("ACT", kind=MESSAGE_TYPE, name=self._manifest.queue, body=body)
        return reply.attributes()


def request_of(rows: list[dict[str, Any]], reason: str) -> tuple[list[int], list[dict[str, Any]]]:
    """Rows of a plan as the actions of a request, and in what order they are there."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault((row["action"], row["to"] or "", row["rule"]), []).append(number)
    actions = [
        {
            "action": action,
            "to": to,
            "reason": f"{reason}, rule {rule}",
            **{f"{key}s": [rows[number][key] for number in numbers] for key in KEYS},
        }
        for (action, to, rule), numbers in groups.items()
    ]
    return [number for numbers in groups.values() for number in numbers], actions


def answers_of(reply: dict[str, Any], order: list[int]) -> Answers:
    """What the broker says of the actions of `request_of`, in the order of the rows. Raises ``JobError``."""
    answers = reply.get("answers")
    if not isinstance(answers, list) or len(answers) != len(order):
        raise JobError(f"the broker's answer doesn't tell of {len(order)} messages: {reply!r:.200}")
    why = {number: each["why"] for each in reply["refusals"] for number in each["numbers"]}
    found: Answers = [("", None)] * len(order)
    for place, number in enumerate(order):
        found[number] = (answers[place], why.get(place))
    return found


def _noted(batch: pa.Table, answers: Answers) -> pa.Table:
    noted = batch.append_column("answer", pa.array([answer for answer, _ in answers], pa.string()))
    noted = noted.append_column("why", pa.array([why for _, why in answers], pa.string()))
    return noted.select(RESULTS_SCHEMA.names)
