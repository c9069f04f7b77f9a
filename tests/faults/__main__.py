"""``python -m tests.faults``: cuts the connection at every protocol step of every case; with ``--twice`` the
connection after it, too.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.clients.broker import BrokerProcess
from tests.faults.cases import CASES, Case, cut_points, play
from tests.faults.proxy import CutPoint


async def sweep(case: Case, url: str, twice: int) -> tuple[int, list[str]]:
    """Every cut of a case, alone, and with each ``twice``-th cut of the connection after it (0: none)."""
    found: list[str] = []
    count = 0
    for first in await cut_points(case, url):
        after, problem = await attempt(case, url, first)
        count += 1
        found += problem
        seconds = [place for place in after if place.connection == 1]
        for second in seconds[count % twice :: twice] if twice else []:
            _, problem = await attempt(case, url, first, second)
            count += 1
            found += problem
    return count, found


async def attempt(case: Case, url: str, *cuts: CutPoint) -> tuple[list[CutPoint], list[str]]:
    """The places that went by, and what was wrong."""
    try:
        return await play(case, url, *cuts), []
    except Exception as failure:
        return [], [f"{case.__name__}, cut {', '.join(map(str, cuts))}: {failure!r}"]


def main() -> int:
    """Exit code 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--twice", type=int, default=0, metavar="N", help="cut the second connection at one place in N, too"
    )
    options = parser.parse_args()
    problems: list[str] = []
    folder = tempfile.TemporaryDirectory(prefix="postroom-faults-")
    with folder as name, BrokerProcess(Path(name) / "data") as broker:
        for case in CASES:
            count, found = asyncio.run(sweep(case, broker.url, options.twice))
            problems += found
            print(f"{case.__name__}: {count} runs, {len(found)} problems", flush=True)
    print("\n".join(problems) or "every promise was kept")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
