"""``python -m tests.crash --kills N``: kills the broker N times under traffic and judges what clients saw."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.crash import kills
from tests.crash.history import History


def main() -> int:
    """Exit code 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of sizes and moments")
    options = parser.parse_args()
    print(f"{options.kills} kills, seed {options.seed}")

    def progress(number: int, history: History) -> None:
        counts = f"{len(history.accepted)} accepted, {len(history.answered)} answered"
        print(f"kill {number}: {counts}, {len(history.problems)} problems", flush=True)

    with tempfile.TemporaryDirectory(prefix="postroom-crash-") as name:
        broker = kills.broker_in(Path(name), kills.source_of_this_build())
        history = kills.run(broker, options.kills, options.seed, progress)
    print("\n".join(history.problems) or "every promise was kept")
    return 1 if history.problems else 0


if __name__ == "__main__":
    sys.exit(main())
