"""No promise reaches a socket before the disk has what it promises: proved from the broker's system calls."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import traceable
from tests.crash.history import History
from tests.crash.kills import broker_in, source_of_this_build, url_of
from tests.crash.proof import Promise, promises
from tests.crash.trace import Trace
from tests.crash.traffic import Life

MESSAGES = 400


def traced_promises(folder: Path, module: str = "postroom.cli") -> list[Promise]:
    """Runs a broker under strace with traffic, and returns what it has promised."""
    broker = broker_in(folder, source_of_this_build(), module)
    broker.prefix = [sys.executable, traceable.__file__]
    with broker, Trace(broker.pid, folder / "trace") as trace:
        Life(url_of(broker), History(), random.Random(1), messages=MESSAGES).run()
        broker.stop()
    return promises(trace.calls(), str(broker.data))


@pytest.mark.sockets
def test_every_promise_follows_its_sync(tmp_path: Path) -> None:
    made = traced_promises(tmp_path)
    assert [promise for promise in made if not promise.kept] == []
    kinds = Counter(promise.kind for promise in made)
    assert kinds == {"accepted": MESSAGES, "delivery": MESSAGES, "answer": MESSAGES}


@pytest.mark.sockets
def test_a_broker_that_answers_too_early_is_found(tmp_path: Path) -> None:
    made = traced_promises(tmp_path, "tests.crash.mutants.release_early")
    broken = Counter(promise.kind for promise in made if not promise.kept)
    assert broken["accepted"] > 0
    assert broken["delivery"] > 0
    assert broken["answer"] > 0
