"""Every frame of a channel's conversation, cut there and with either end killed: ``python -m
tests.channels``."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.channels.scene import sweep


def main() -> int:
    for victim in ("", "LONDON", "PARIS"):
        with tempfile.TemporaryDirectory() as folder:
            count = asyncio.run(sweep(Path(folder), lambda points: points, victim))
        print(f"{victim or 'the line'}: {count} breaks, everything once and in order", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
