"""Conservation: counts that were kept right balance, whatever was opened, and every slip shows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.spark.audit.result import AuditResult, ExitCode, Unproven, Verdict, result_of
from postroom.spark.audit.sums import DELETED_QUEUES, NOTHING, Balance, QueueCounts, balance
from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals
from postroom.spark.ledger_source.state_names import OUTCOMES
from tests.spark.audit.audit_results import RESULT, VIOLATION

ended = st.tuples(*(st.integers(0, 5) for _ in OUTCOMES))


class QueueHistory:
    """What really happened on one queue: before the history, up to the checkpoint, and since."""

    def __init__(self, queue_id: int, is_whole: bool, draw: st.DataObject) -> None:
        whole = st.just(NOTHING) if is_whole else ended
        self.queue_id = queue_id
        self.ended_before = draw.draw(whole)
        self.opening = 0 if is_whole else draw.draw(st.integers(0, 9))
        self.early_ended, self.late_ended = draw.draw(ended), draw.draw(ended)
        early = sum(self.early_ended) - self.opening
        self.early_arrivals = max(0, early) + draw.draw(st.integers(0, 9))
        at_checkpoint = self.opening + self.early_arrivals - sum(self.early_ended)
        self.late_arrivals = max(0, sum(self.late_ended) - at_checkpoint) + draw.draw(st.integers(0, 9))
        self.held = at_checkpoint + self.late_arrivals - sum(self.late_ended)

    @property
    def totals(self) -> tuple[int, tuple[int, ...]]:
        """What the checkpoint counts."""
        before = sum(self.ended_before) + self.opening
        return before + self.early_arrivals, _added(self.ended_before, self.early_ended)

    @property
    def counts(self) -> QueueCounts:
        return QueueCounts(
            ledger_id="a",
            queue_id=self.queue_id,
            queue=f"q{self.queue_id}",
            arrivals=self.early_arrivals + self.late_arrivals,
            ended=_added(self.early_ended, self.late_ended),
            early_arrivals=self.early_arrivals,
            early_ended=self.early_ended,
            early_events=self.early_arrivals + sum(self.early_ended),
            held=self.held,
            seen=self.opening,
        )


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _kept(draw: st.DataObject, is_whole: bool) -> tuple[list[QueueCounts], CheckpointTotals]:
    histories = [
        QueueHistory(number, is_whole, draw) for number in range(1, draw.draw(st.integers(1, 4)) + 1)
    ]
    return [one.counts for one in histories], CheckpointTotals(
        77, {one.queue_id: one.totals for one in histories}
    )


def _rules(found: Balance) -> set[str]:
    return {one.rule for one in found.violations}


@given(st.data(), st.booleans())
def test_books_that_were_kept_right_balance(data: st.DataObject, is_whole: bool) -> None:
    counts, checkpoint = _kept(data, is_whole)
    found = balance("a", is_whole, checkpoint, counts)
    assert found.violations == []
    assert found.manager.difference == 0
    assert [row.opening for row in found.queues] == [one.seen for one in counts]
    assert found.manager.opening == sum(one.seen for one in counts)


SLIPS = {
    "arrival": lambda one: replace(one, arrivals=one.arrivals + 1),
    "end": lambda one: replace(one, ended=_added(one.ended, (1, *NOTHING[1:]))),
    "holding": lambda one: replace(one, held=one.held + 1),
}


@given(st.data(), st.booleans(), st.sampled_from(sorted(SLIPS)))
def test_one_too_many_of_anything_unbalances_queue_and_manager(
    data: st.DataObject, is_whole: bool, slip: str
) -> None:
    counts, checkpoint = _kept(data, is_whole)
    counts[0] = SLIPS[slip](counts[0])
    found = balance("a", is_whole, checkpoint, counts)
    assert {"unbalanced queue", "unbalanced manager"} <= _rules(found)
    assert [one.queue for one in found.violations if one.rule == "unbalanced queue"] == ["q1"]


@given(st.data())
def test_an_older_entry_without_a_trace_is_missed(data: st.DataObject) -> None:
    counts, checkpoint = _kept(data, False)
    lost = replace(counts[0], seen=counts[0].seen - 1, held=counts[0].held - 1)
    found = balance("a", False, checkpoint, [lost, *counts[1:]])
    assert _rules(found) == {"opening differs", "unbalanced manager"}


def test_a_queue_that_the_checkpoint_fills_and_nobody_sees_is_missed() -> None:
    found = balance("a", False, CheckpointTotals(77, {5: (9, NOTHING)}), [])
    assert _rules(found) == {"opening differs", "unbalanced manager"}


@given(st.data(), st.integers(-3, 3).filter(bool))
def test_a_checkpoint_that_counts_otherwise_than_a_whole_history_is_found(
    data: st.DataObject, slip: int
) -> None:
    counts, checkpoint = _kept(data, True)
    arrived, outcomes = checkpoint.totals[1]
    wrong = CheckpointTotals(77, {**checkpoint.totals, 1: (arrived + slip, outcomes)})
    found = balance("a", True, wrong, counts)
    (violation,) = found.violations
    assert (violation.rule, violation.queue, violation.positions) == ("checkpoint differs", "q1", (77,))
    assert "arrivals" in violation.detail


def test_queues_that_were_deleted_before_the_checkpoint_are_summed_there() -> None:
    gone = QueueCounts(
        ledger_id="a",
        queue_id=3,
        queue="gone",
        arrivals=2,
        ended=(2, *NOTHING[1:]),
        early_arrivals=2,
        early_ended=(2, *NOTHING[1:]),
        early_events=4,
    )
    right = CheckpointTotals(77, {DELETED_QUEUES: (2, (2, *NOTHING[1:]))})
    assert balance("a", True, right, [gone]).violations == []
    wrong = CheckpointTotals(77, {DELETED_QUEUES: (3, (3, *NOTHING[1:]))})
    assert _rules(balance("a", True, wrong, [gone])) == {"checkpoint differs"}
    before = CheckpointTotals(77, {DELETED_QUEUES: (30, (30, *NOTHING[1:]))})
    assert balance("a", False, before, [gone]).violations == []


@given(st.data())
def test_without_an_opening_nothing_is_proven(data: st.DataObject) -> None:
    counts, _ = _kept(data, False)
    found = balance("a", False, None, counts)
    assert found.violations == []
    assert {row.verdict for row in (*found.queues, found.manager)} == {"not proven"}
    assert found.manager.opening is None


@given(st.data())
def test_totals_survive_the_tables_folder(data: st.DataObject) -> None:
    _, checkpoint = _kept(data, False)
    assert CheckpointTotals.from_json(checkpoint.to_json()) == checkpoint


# --- the result -----------------------------------------------------------------------------------


def test_a_result_survives_json() -> None:
    found = replace(RESULT, violations=(VIOLATION,), violation_counts={"second arrival": 1})
    assert result_of(found.to_json()) == found


@pytest.mark.parametrize(
    ("counts", "unproven", "verdict"),
    [
        ({}, (), Verdict.CLEAN),
        ({"second arrival": 1}, (), Verdict.VIOLATIONS),
        ({}, (Unproven("a", "everything", "why", 0),), Verdict.NOT_PROVEN),
        ({"second arrival": 1}, (Unproven("a", "everything", "why", 0),), Verdict.VIOLATIONS),
    ],
)
def test_too_little_history_is_never_clean(
    counts: dict[str, int], unproven: tuple[Unproven, ...], verdict: Verdict
) -> None:
    found: AuditResult = replace(RESULT, violation_counts=counts, unproven=unproven)
    assert found.verdict is verdict
    assert found.is_clean is (verdict is Verdict.CLEAN)
    assert (found.exit_code == ExitCode.CLEAN) is found.is_clean
    assert "london 1 to 100, paris 7 to 10" in found.sentence()
