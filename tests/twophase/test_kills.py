"""Each party of a two-phase commit is killed at every step: row and messages are both there, or neither."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.broker import BrokerProcess
from tests.sampling import spread
from tests.twophase.postgres import PostgreSQL
from tests.twophase.scene import Scene, steps

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
FAIL_OVER_STEPS = (
    *("received", "sent", "ended amqp", "prepared amqp", "preparing postgresql"),
    *("decided", "committed amqp", "committing postgresql"),
)
"""At which the broker is killed and started again."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, postgres: PostgreSQL) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("kills")
    with BrokerProcess(folder / "data") as broker:
        yield Scene(folder / "manager", broker, postgres)


@pytest.mark.parametrize("broker_first", [True, False])
def test_the_steps_are_these(scene: Scene, broker_first: bool) -> None:
    assert scene.dry_run(broker_first) == steps(broker_first)
    scene.check()


@pytest.mark.parametrize("step", spread(steps(), 8))
def test_the_broker_is_killed(scene: Scene, step: str) -> None:
    scene.judge(lambda: scene.run(scene.life(), step, scene.broker.kill))


@pytest.mark.parametrize("step", spread(steps(), 7))
def test_postgresql_is_killed(scene: Scene, step: str) -> None:
    scene.judge(lambda: scene.run(scene.life(), step, scene.postgres.kill))


@pytest.mark.parametrize("step", spread(steps(broker_first=False), 8))
def test_the_connection_to_the_database_is_killed(scene: Scene, step: str) -> None:
    life = scene.life(broker_first=False)
    scene.judge(lambda: scene.run(life, step, scene.postgres.kill_backends))


@pytest.mark.parametrize(("number", "step"), spread(list(enumerate(steps())), 9))
def test_the_transaction_manager_is_killed(scene: Scene, number: int, step: str) -> None:
    """Of either face in turn."""
    scene.judge(lambda: scene.run_apart(scene.life(kill_at=step, sync=number % 2 == 1)))


@pytest.mark.parametrize("step", spread(FAIL_OVER_STEPS, 4))
def test_a_session_with_fail_over_goes_on(scene: Scene, step: str) -> None:
    scene.judge(lambda: scene.go_on(step), more=1)
