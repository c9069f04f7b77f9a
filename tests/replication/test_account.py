"""The judge of the long run finds what it is there to find."""

import pytest

from tests.replication.run.account import Account, Sent

A1, A2, A3 = (Sent("a", number) for number in (1, 2, 3))


def account() -> Account:
    made = Account("q", [])
    made.accepted |= {A1, A2, A3}
    return made


def test_what_is_as_promised() -> None:
    seen = account()
    for sent in (A1, A2):
        seen.saw(sent, False, 0)
    seen.took(A1)
    seen.saw_answer(A1)
    for sent in (A2, A3):
        seen.saw(sent, sent is A2, 1)
    seen.in_doubt.append({Sent("b", 1), Sent("b", 2)})
    seen.finish()
    assert (seen.problems, seen.repeats) == ([], 1)
    assert not seen.is_drained()
    seen.saw_answer(A2)
    seen.took(A3)  # gone, or to come again
    assert seen.is_drained()


@pytest.mark.parametrize(
    ("deliveries", "problem"),
    [
        ([(A1, False, 0), (A2, False, 0)], "a-3 was accepted and is lost"),
        ([(A1, False, 0), (A1, False, 1)], "came again and was not flagged"),
        ([(A2, False, 0), (A1, False, 0)], "a-1 came behind a-2"),
        ([(A2, False, 0), (A1, True, 1)], "a-1 came behind a-2"),
        ([(A1, False, 0), (A2, False, 0), (A1, True, 0)], "of one connection"),
        ([(Sent("c", 1), False, 0)], "never sent"),
        ([(Sent("gone", 1), False, 0)], "rolled back"),
        ([(Sent("had", 1), True, 0)], "answered that it is gone"),
        ([(Sent("torn", 1), True, 0)], "a transaction was torn"),
    ],
)
def test_what_is_not(deliveries: list[tuple[Sent, bool, int]], problem: str) -> None:
    seen = account()
    seen.undone.add(Sent("gone", 1))
    seen.answered.add(Sent("had", 1))
    seen.in_doubt.append({Sent("torn", 1), Sent("torn", 2)})
    for delivery in deliveries:
        seen.saw(*delivery)
    seen.finish()
    assert any(problem in text for text in seen.problems), seen.problems
