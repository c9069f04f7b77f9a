"""What other interpreters give: several threads without the interpreter lock, subinterpreters with their own.

``python -m bench.interpreters --python COMMAND …``: each command starts a CPython that finds what Postroom
needs (isal, librt, msgspec, mypy-extensions) by ``--path FOLDER``. Of each: whether it has the lock; which
modules an interpreter with a lock of its own takes (from 3.13 on); and how many messages a second the queue
manager, as Python, puts, delivers and has accepted in one thread, and in two with a manager each.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.peers.broker import ROOT

ROUNDS: Final = 20
MODULES: Final = ("isal.isal_zlib", "librt.strings", "msgspec", "uvloop", "numpy")
"""Extensions that the broker imports; more by ``--module``."""


def has_lock() -> bool:
    """Whether threads take turns with the interpreter here."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is None or bool(enabled())


def taken_by_subinterpreters(modules: Sequence[str]) -> dict[str, str]:
    """What an interpreter with a lock of its own says when it imports each; empty before 3.13."""
    try:
        import _interpreters as interpreters  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return {}
    found = {}
    for name in modules:
        own = interpreters.create("isolated")
        failed = interpreters.exec(own, f"import sys; sys.path[:] = {sys.path!r}\nimport {name}")
        found[name] = failed.formatted.strip().splitlines()[-1] if failed else "imported"
        interpreters.destroy(own)
    return found


def messages_a_second(threads: int, folder: Path) -> float:
    """Of all threads together, each with a queue manager of its own."""
    from bench.parts import MESSAGES, Parts

    def run(parts: Parts, starts: threading.Barrier) -> None:
        starts.wait()
        for _ in range(ROUNDS):
            for action in (parts.put, parts.commit, parts.deliver, parts.send, parts.accept, parts.commit):
                action()

    starts = threading.Barrier(threads + 1)
    workers = []
    for number in range(threads):
        place = folder / f"{threads}-{number}"
        place.mkdir()
        workers.append(threading.Thread(target=run, args=(Parts(place), starts)))
    for worker in workers:
        worker.start()
    starts.wait()
    begun = time.perf_counter()
    for worker in workers:
        worker.join()
    return threads * ROUNDS * MESSAGES / (time.perf_counter() - begun)


def describe_this(modules: Sequence[str]) -> dict[str, object]:
    """Of the interpreter that runs this."""
    found: dict[str, object] = {"version": sys.version.split("(")[0].strip(), "lock at first": has_lock()}
    found |= {f"own lock: {name}": what for name, what in taken_by_subinterpreters(modules).items()}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for threads in (1, 2):
            found[f"messages a second, {threads} threads"] = round(messages_a_second(threads, Path(folder)))
    return found | {"lock in the end": has_lock()}


def main() -> None:
    """Describes each interpreter; the figures of one are a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.interpreters", description=__doc__)
    parser.add_argument("--python", action="append", help="a command; may be given again (default: this one)")
    parser.add_argument("--path", default="", help="folders with the packages for them, with : between them")
    parser.add_argument("--module", action="append", default=[], help="one more to import")
    parser.add_argument("--this", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.this:
        print(json.dumps(describe_this([*MODULES, *options.module])))
        return
    paths = ":".join(filter(None, (options.path, str(ROOT / "src"), str(ROOT))))
    for python in options.python or [sys.executable]:
        command = [*shlex.split(python), "-m", "bench.interpreters", "--this"]
        command += [word for name in options.module for word in ("--module", name)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
