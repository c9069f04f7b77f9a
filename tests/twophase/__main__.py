"""Kills each party of a two-phase commit at every step, in either order of the resources, with either face.

python -m tests.twophase [--rounds 1]
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

from tests.clients.broker import BrokerProcess
from tests.twophase.postgres import PostgreSQL
from tests.twophase.scene import NUMBERS, Scene, steps


def one_round(folder: Path, postgres: PostgreSQL) -> int:
    """Every step of every party; how many were killed."""
    kills = 0
    with BrokerProcess(folder / "data") as broker:
        scene = Scene(folder / "manager", broker, postgres)
        parties = (broker.kill, postgres.kill, postgres.kill_backends)
        for first in (True, False):
            for step, kill in itertools.product(steps(first), parties):
                scene.judge(lambda: scene.run(scene.life(broker_first=first), step, kill))  # noqa: B023
                kills += 1
            for step, sync in itertools.product(steps(first), (False, True)):
                life = scene.life(broker_first=first, kill_at=step, sync=sync)
                scene.judge(lambda: scene.run_apart(life))  # noqa: B023
                kills += 1
        print(f"{kills} kills; {scene.rows} of {NUMBERS} numbers have a row and came out, the others wait")
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often; default 1")
    rounds = parser.parse_args().rounds
    with PostgreSQL() as postgres:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                one_round(Path(folder), postgres)


if __name__ == "__main__":
    main()
