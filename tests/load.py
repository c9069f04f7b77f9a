"""Runs a command again and again beside a load on every core: ``python -m tests.load --times 10 COMMAND…``.

A test that waits by time instead of for a state, or shares a port, a lease or a file with another, fails
there before it fails for somebody else.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def burn() -> None:
    """Takes one core."""
    while True:
        pass


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many cores are wanted by others meanwhile."""
    burning = [multiprocessing.Process(target=burn, daemon=True) for _ in range(processes)]
    for each in burning:
        each.start()
    try:
        yield
    finally:
        for each in burning:
            each.kill()
            each.join()


def main() -> int:
    """Exit code 1 where the command failed once."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--times", type=int, default=1, help="how often the command is run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="of the load")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    failed = 0
    with load(options.processes):
        for number in range(1, options.times + 1):
            began = time.monotonic()
            code = subprocess.run(options.command, check=False).returncode
            failed += code != 0
            print(f"{number}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.times - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
