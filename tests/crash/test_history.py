"""The judge itself: each broken promise is named, and an honest history has none."""

from __future__ import annotations

import pytest

from tests.crash.history import History


def history_of(*steps: tuple[str, int] | str) -> History:
    """Plays the steps; a step is the name of a thing seen and a message's number, or the end of a life."""
    history = History()
    play = {
        "sent": history.saw_sent,
        "accepted": history.saw_accepted,
        "got": lambda number: history.saw_delivery(number, False),
        "again": lambda number: history.saw_delivery(number, True),
        "confirm": history.saw_confirm_sent,
        "answered": history.saw_confirm_answered,
    }
    for step in steps:
        if isinstance(step, str):
            history.saw_end_of_life()
        else:
            play[step[0]](step[1])
    history.finish()
    return history


PUT = (("sent", 1), ("accepted", 1))
DONE = (("confirm", 1), ("answered", 1))


@pytest.mark.parametrize(
    "steps",
    [
        (*PUT, ("got", 1), *DONE),
        (("sent", 1), "kill"),
        (("sent", 1), "kill", ("got", 1), *DONE),
        (*PUT, ("got", 1), "kill", ("again", 1), *DONE),
        (*PUT, ("got", 1), ("confirm", 1), "kill"),
        (*PUT, ("got", 1), ("confirm", 1), "kill", ("again", 1), *DONE),
        (*PUT, "kill", ("again", 1), *DONE),
    ],
)
def test_honest_histories_have_no_problem(steps: tuple[tuple[str, int] | str, ...]) -> None:
    assert history_of(*steps).problems == []


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (PUT, "accepted and is lost"),
        ((*PUT, ("got", 1), "kill"), "accepted and is lost"),
        ((*PUT, ("got", 1), ("confirm", 1), "kill", ("again", 1)), "accepted and is lost"),
        ((*PUT, ("got", 1), *DONE, "kill", ("again", 1)), "though its confirm was answered"),
        ((*PUT, ("got", 1), ("again", 1), *DONE), "delivered twice in one life"),
        ((*PUT, ("got", 1), "kill", ("got", 1), *DONE), "delivered again and not flagged"),
        ((("got", 1), *DONE), "never sent"),
        ((*PUT, ("sent", 2), ("got", 2), ("got", 1), *DONE), "delivered after 2"),
    ],
)
def test_broken_promises_are_named(steps: tuple[tuple[str, int] | str, ...], problem: str) -> None:
    assert problem in history_of(*steps).problems[0]


def test_transactions_in_doubt_happen_whole_or_not_at_all() -> None:
    for returned, put_delivered, torn in ((True, False, False), (False, True, False), (True, True, True)):
        history = history_of(*PUT, ("got", 1))
        history.problems.clear()
        history.saw_sent(2)
        history.saw_discharge_sent({2}, {1})
        history.saw_end_of_life()
        if returned:
            history.saw_delivery(1, True)
            history.saw_confirm_answered(1)
        if put_delivered:
            history.saw_delivery(2, False)
            history.saw_confirm_answered(2)
        history.finish()
        assert [("torn" in problem) for problem in history.problems] == [True] * torn


def test_what_has_come_back_before_a_transaction_tells_nothing_of_it() -> None:
    history = history_of(*PUT, ("got", 1))
    history.problems.clear()
    history.saw_confirm_sent(1)
    history.saw_end_of_life()
    for number in (2, 3):  # of two transactions that get it, the first is rolled back
        history.saw_delivery(1, True)
        history.saw_sent(number)
        history.saw_discharge_sent({number}, {1})
        history.saw_end_of_life()
    history.saw_delivery(3, False)
    history.saw_confirm_answered(3)
    history.finish()
    assert history.problems == []
