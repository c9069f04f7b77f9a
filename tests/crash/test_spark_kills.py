"""Jobs on queues, with the broker, the driver and executors killed at named points: exact counts after each,
and at the end an audit without a complaint. A sample, of which `make test` plays one chain; ``python -m
tests.sparkkills`` plays every point for every victim, and every loss of a checkpoint.
"""

from collections.abc import Iterator

import pytest

from tests.sampling import WHOLE
from tests.sparkkills.chains import ALL, WAYS, play, play_loss
from tests.sparkkills.points import Kill, Point, Victim
from tests.sparkkills.speculating import play_speculation
from tests.sparkkills.stage import Stage, audited

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

P, BROKER, DRIVER, EXECUTOR = Point, Victim.BROKER, Victim.DRIVER, Victim.EXECUTOR


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One broker for all; the last test ends it."""
    with Stage(tmp_path_factory.mktemp("kills")) as made:
        yield made


@pytest.mark.long
def test_the_broker_killed_at_points_of_a_job_between_queues(stage: Stage) -> None:
    way = WAYS["enrich"]
    points = way.points
    before = stage.broker_kills
    assert play(stage, way, "broker", [Kill(point, BROKER) for point in points]) == 1
    assert stage.broker_kills - before == len(points)


@pytest.mark.long
def test_the_driver_killed_around_the_decision(stage: Stage) -> None:
    points = (P.BEFORE_DECISION, P.AFTER_DECISION)
    starts = play(stage, WAYS["enrich"], "driver", [Kill(point, DRIVER) for point in points])
    assert starts == len(points) + 1


@pytest.mark.long
def test_executors_killed_while_they_send(stage: Stage) -> None:
    points = (P.AFTER_READ, P.BEFORE_BRANCH_DURABLE, P.AFTER_BRANCH_DURABLE, P.AFTER_DECISION)
    assert play(stage, WAYS["tap-enrich"], "executor", [Kill(point, EXECUTOR) for point in points]) == 1


def test_broker_and_driver_killed_around_a_table_s_commit(stage: Stage) -> None:
    kills = [
        Kill(P.BEFORE_REGISTER, BROKER),
        Kill(P.AFTER_TABLE_COMMIT, DRIVER),
        Kill(P.BEFORE_CONFIRM, BROKER),
    ]
    if WHOLE:
        kills.append(Kill(P.AFTER_CONFIRM, DRIVER))
    assert play(stage, WAYS["table"], "table", kills) == (3 if WHOLE else 2)


@pytest.mark.long
def test_a_slow_task_that_runs_twice_is_sent_once(stage: Stage) -> None:
    play_speculation(stage, "slow", P.AFTER_BRANCH_DURABLE)


@pytest.mark.long
@pytest.mark.parametrize("name", ["enrich", "table"])
def test_a_checkpoint_that_is_lost_while_the_queue_grows(stage: Stage, name: str) -> None:
    play_loss(stage, WAYS[name], f"lost-{name}", ALL, P.BEFORE_SPARK_COMMIT_LOG)


def test_the_audit_of_all_this_is_clean(stage: Stage) -> None:
    assert stage.broker.stop() == 0
    assert audited(stage) == ""
