"""``python -m tests.replication``: three members on three nodes of NATS or Kafka, under traffic, lose one
thing after the other; what the clients saw, and the ledgers of all members, are judged.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.replication.run.acts import ACTS, IN_NAMESPACES
from tests.replication.run.play import Run, play
from tests.replication.run.stage import KAFKA, NATS


def audited(run: Run) -> list[str]:
    """What the audit of the ledger has to say against it, over all epochs."""
    command = [sys.executable, "-m", "postroom.cli", "audit", "--data", str(run.folders[0])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    return [f"audit: exit code {done.returncode}"] if done.returncode else []


def main() -> int:
    """Exit code 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.replication", description=__doc__)
    parser.add_argument("--take-overs", type=int, default=500, metavar="N", help="end after so many")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of faults and traffic")
    parser.add_argument(
        "--first",
        nargs="*",
        default=[],
        metavar="FAULT",
        help=f"these before others by chance: {', '.join(dict.fromkeys([*ACTS, *IN_NAMESPACES]))}",
    )
    parser.add_argument("--engine", choices=(NATS, KAFKA), default=NATS, help="that has the log")
    parser.add_argument(
        "--namespaces", action="store_true", help="each member and node in a network of its own; for root"
    )
    parser.add_argument("--without-audit", action="store_true", help="which needs Spark")
    parser.add_argument("--keep", type=Path, help="a folder for ledgers and logs; it stays")
    options = parser.parse_args()
    if options.namespaces and os.geteuid() != 0:
        parser.error("--namespaces is for root")
    if unknown := set(options.first) - set(IN_NAMESPACES if options.namespaces else ACTS):
        parser.error(f"these can't be played here: {', '.join(sorted(unknown))}")
    print(f"{options.take_overs} take-overs, seed {options.seed}", flush=True)
    end_s = time.monotonic() + options.minutes * 60

    def goes_on(run: Run) -> bool:
        return run.take_overs < options.take_overs and time.monotonic() < end_s

    with tempfile.TemporaryDirectory(prefix="postroom-replication-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run = play(
            folder,
            options.seed,
            goes_on,
            options.first,
            lambda text: print(text, flush=True),
            options.engine,
            options.namespaces,
        )
        print(run.summary())
        if not run.problems and not options.without_audit:
            run.problems += audited(run)
    print("\n".join(run.problems) or "every promise was kept")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
