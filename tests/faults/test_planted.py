"""The sweep can fail: clients with a bug planted in their fail-over are found by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.client.aio.local_transaction import TransactionContext
from postroom.client.connection.sender_link import Outcome, Sending
from postroom.client.exceptions import ConnectionLostException, TransactionRolledBackException
from tests.clients.broker import BrokerProcess
from tests.faults import cases
from tests.faults.cases import Case, cut_points, play

pytestmark = pytest.mark.sockets


def nothing_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    def pretend(sending: Sending, outcome: Outcome) -> None:
        if not outcome.done():
            outcome.set_result(ACCEPTED)

    patch.setattr(Sending, "_send_again", pretend)


def nothing_is_ever_in_doubt(patch: pytest.MonkeyPatch) -> None:
    def forget(context: TransactionContext) -> None:
        context._txn_id = None
        context._breaks += 1

    patch.setattr(TransactionContext, "_on_break", forget)


def a_commit_that_is_cut_off_seems_done(patch: pytest.MonkeyPatch) -> None:
    real = TransactionContext._commit

    async def pretend(context: TransactionContext) -> None:
        try:
            await real(context)
        except TransactionRolledBackException as record:
            if not isinstance(record.__cause__, ConnectionLostException):
                raise

    patch.setattr(TransactionContext, "_commit", pretend)


@pytest.mark.parametrize(
    ("plant", "case"),
    [
        (nothing_is_sent_again, cases.non_transacted_producer),
        (nothing_is_ever_in_doubt, cases.transacted_producer),
        (nothing_is_ever_in_doubt, cases.consumer_and_producer),
        (a_commit_that_is_cut_off_seems_done, cases.transacted_producer),
    ],
)
def test_a_planted_bug_is_found(
    broker: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    case: Case,
) -> None:
    async def is_found() -> bool:
        points = await cut_points(case, broker.url)
        plant(monkeypatch)
        for point in points:
            try:
                await play(case, broker.url, point)
            except AssertionError:
                return True
        return False

    assert asyncio.run(is_found())
