"""What the driver does with the tasks' answers: one request that decides the batch, asked until it is
answered. Asking twice is harmless, for the broker knows what it has decided.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from postroom.client.exceptions import JMSException
from postroom.spark.sink.digest import Offsets
from postroom.spark.sink.errors import BatchReplaced, CommitUnanswered, SinkError
from postroom.spark.sink.link import LOST, SinkLink, unreachable, until_answered
from postroom.spark.sink.options import SinkOptions
from postroom.spark.sink.task import TaskWrote

LOG: Final = logging.getLogger("postroom.spark")
Attempt = Callable[[SinkLink], Awaitable[None]]
ALREADY: Final = "already"
ABORT_PATIENCE_S: Final = 5
"""A failed batch isn't held up for what the next one does anyway."""


def commit(
    options: SinkOptions, app: str, batch_id: int, offsets: Offsets, wrote: Sequence[TaskWrote]
) -> str:
    """Decide a batch: what the tasks name is the batch, and all else of this app up to it is rolled back.

    Returns "committed", or "already" for one that was decided before. Raises ``SinkError``.
    """
    body = commit_body(options, batch_id, offsets, wrote)
    attempts = 0

    async def attempt(link: SinkLink) -> str:
        nonlocal attempts
        attempts += 1
        return str((await link.commit(body)).get("status"))

    try:
        status = asyncio.run(until_answered(options.broker, app, options.broker_timeout_s, attempt))
    except LOST as failure:
        raise CommitUnanswered(
            f"the commit of batch {batch_id} for app {app!r} had no answer in {options.broker_timeout_s} s:"
            f" {failure}. Whether it is decided the broker knows: start the query again, it asks, and sends"
            " nothing that is there"
        ) from failure
    except JMSException as failure:
        raise unreachable(failure, options.broker_timeout_s, app) from failure
    except BatchReplaced:
        if offsets.digest or body["branches"]:
            raise
        LOG.warning("version %d of app %r is below the last that was written: nothing is sent", batch_id, app)
        return ALREADY  # known by its number alone, as the tasks were told when they asked
    if options.above and status == ALREADY and attempts == 1 and body["branches"]:
        raise SinkError(
            f"batch {batch_id} for app {app!r} was decided before, and the same offsets had other rows then:"
            f" now there are some above its highest position. Column {options.above} isn't one of positions,"
            " or the source doesn't read a range twice alike; these rows are not written"
        )
    return status


def commit_body(
    options: SinkOptions, batch_id: int, offsets: Offsets, wrote: Sequence[TaskWrote]
) -> dict[str, object]:
    """What COMMIT says."""
    runs = {(each.query_id, each.run_id) for each in wrote}
    if len(runs) != 1:
        raise SinkError(f"the tasks of batch {batch_id} are of {len(runs)} runs of a query, not of one")
    [(query_id, run_id)] = runs
    return {
        "query_id": query_id,
        "run_id": run_id,
        "batch_id": batch_id,
        "digest": offsets.digest,
        "offsets": offsets.text,
        "position": max((each.position for each in wrote if each.position is not None), default=None),
        "branches": [name for each in wrote for name in each.branches],
        "above": bool(options.above),
        "accept_duplicates": options.accept_duplicates,
    }


def roll_back(options: SinkOptions, app: str, wrote: Iterable[TaskWrote]) -> None:
    """The batch has failed: what the tasks have sealed is rolled back now, if the broker can be reached; else
    the next decision, the next run, or the end of their lease does it.
    """
    names = [name for each in wrote for name in each.branches]

    async def attempt(link: SinkLink) -> None:
        for name in names:
            await link.roll_back(name)

    if names:
        _try(options, app, attempt)


def forget(options: SinkOptions, app: str) -> None:
    """The broker forgets an app that only one write has used, with all that is open of it."""

    async def attempt(link: SinkLink) -> None:
        await link.forget()

    _try(options, app, attempt)


def _try(options: SinkOptions, app: str, attempt: Attempt) -> None:
    try:
        asyncio.run(until_answered(options.broker, app, ABORT_PATIENCE_S, attempt))
    except (JMSException, SinkError) as failure:
        LOG.warning("branches of app %r are left to the end of their lease: %s", app, failure)
