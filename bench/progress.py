"""Progress for people, on standard error; results go to standard output and to files."""

import sys
import time

_BEGUN = time.monotonic()


def show_progress(text: str) -> None:
    """One line with the time since the start."""
    print(f"[{time.monotonic() - _BEGUN:7.1f} s] {text}", file=sys.stderr, flush=True)
