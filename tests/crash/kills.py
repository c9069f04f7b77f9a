"""Kills the broker again and again under traffic, and judges what the clients have seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tools.peers import BrokerFailed, Postroom
from tools.peers.broker import ROOT
from tools.peers.ports import LOOPBACK

import postroom
from tests.crash.history import History
from tests.crash.stored import StoredLife, StoredTraffic
from tests.crash.traffic import Life, LifeFailed
from tests.crash.transacted import TransactedLife

SHORTEST, LONGEST = 5, 600
"""Bounds of the number of answered confirms after which a life ends."""

SMALL_FILES = """
[ledger]
journal_file_bytes = 1048576
"""


def source_of_this_build() -> Path:
    """The folder that this process imports postroom from: the broker under test runs the same build."""
    return Path(postroom.__path__[0]).parent


def url_of(broker: Postroom) -> str:
    """Where the broker listens."""
    return f"amqp://{LOOPBACK}:{broker.port}"


def run(
    broker: Postroom, kills: int, seed: int, progress: Callable[[int, History], None] = lambda *_: None
) -> History:
    """Kills `broker` so many times and lets it live once more; returns what was seen, judged.

    A broker that doesn't start or serve, or ends by itself, ends the run; that is a problem too.
    """
    chance = random.Random(seed)
    history = History()
    stored = StoredTraffic(history)
    try:
        for number in range(kills):
            broker.start()
            after = chance.randint(SHORTEST, LONGEST)
            life: Life | TransactedLife | StoredLife
            if number % 3 == 0:
                life = Life(url_of(broker), history, chance, after, broker.kill)
            elif number % 3 == 1:
                life = StoredLife(url_of(broker), stored, chance, after, broker.kill)
            else:
                life = TransactedLife(url_of(broker), history, chance, after, broker.kill)
            life.run()
            history.saw_end_of_life()
            progress(number + 1, history)
        broker.start()
        Life(url_of(broker), history, chance).run()
        StoredLife(url_of(broker), stored, chance).run()
        history.finish()
        broker.stop()
    except (LifeFailed, BrokerFailed) as failed:
        history.problems.append(f"life {history.lives}: {failed}")
    finally:
        broker.kill()
    return history


def broker_in(folder: Path, source: Path, module: str = "postroom.cli") -> Postroom:
    """A broker whose journal files are small, so that sealing and checkpoints happen between the kills.

    A mutant, which has not written all that it should, keeps to one file.
    """
    broker = Postroom(folder, source, module)
    if module == "postroom.cli":
        broker.configuration += SMALL_FILES
    broker.extra_paths = [ROOT]
    return broker
