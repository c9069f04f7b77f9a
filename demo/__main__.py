"""Starts two brokers, plays the stories, and lets Spark say what became of every message while the brokers go
on working.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

import postroom
from demo import lives
from demo.line import Line
from demo.partners import Partners, two
from demo.story import Story
from demo.tally import Tally, from_entries, lost_on_the_way
from postroom.client import ConnectionFactory, Message

OUT = Path(__file__).resolve().parent / "out"
EXIT_DIFFERENT = 4
PIPED_WIDTH = 150
BEAT_S = 3.0
ON_THE_WAY = "(on the way to PARIS)"


@contextmanager
def heartbeat(url: str) -> Iterator[None]:
    """Messages that come and go while the block runs: the ledger grows under the job's eyes."""
    over = threading.Event()

    def beat() -> None:
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer("heartbeat")
            consumer = session.create_consumer("heartbeat", prefetch=0)
            while not over.wait(BEAT_S):
                producer.send(Message("beat"))
                consumer.receive_no_wait()

    thread = threading.Thread(target=beat, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run_spark(ledgers: list[Path], out: Path) -> int:
    """The Spark job as anyone would run it; its exit code."""
    command = [sys.executable, "-m", "postroom.spark.job", "--out", str(out)]
    for data in ledgers:
        command += ["--data", str(data)]
    return subprocess.run(command, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"}).returncode


def compare(said: Tally, ledgers: Tally, console: Console) -> bool:
    """Show both counts side by side; False where they differ.

    The clients can't know what became of sends that the kill left without an answer: the queue `storm` may
    hold more.
    """
    table = Table(
        "queue", "the clients say", "the ledgers say", "", title="Do they agree?", title_justify="left"
    )
    agree = True
    for queue in said.fates:
        same = said.of(queue) == ledgers.of(queue)
        agree = agree and same
        table.add_row(
            queue, shown(said.of(queue)), shown(ledgers.of(queue)), "[green]yes" if same else "[red]NO"
        )
    console.print()
    console.print(table)
    return agree


def shown(fates: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {fate}" for fate, count in sorted(fates.items()))


def command_line() -> str:
    """How the working directory's user calls `postroom` of this build, which isn't installed."""
    source = os.path.relpath(Path(postroom.__file__).parents[1])
    return f"PYTHONPATH={source} {os.path.relpath(sys.executable)} -m postroom.cli"


def main() -> int:
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    started = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    line = Line()
    london, paris = two(OUT, line)
    for broker in (london, paris):
        console.print(f"The queue manager {broker.name} runs at {broker.url}, its ledger in {broker.data}")
    try:
        story = Story(london, console)
        story.play()
        partners = Partners(london, paris, line, story.tally, console)
        partners.play()
        console.print()
        console.rule("[bold]Spark reads the ledgers of the running brokers", align="left")
        with heartbeat(london.url):
            code = run_spark([london.data, paris.data], OUT / "tables")
    finally:
        paris.stop()
        london.stop()
        line.close()
    if code:
        return code
    console.print(lives.table(OUT / "tables" / "entries"))
    story.tally.add(ON_THE_WAY, "lost", partners.lost)
    ledgers = from_entries(OUT / "tables" / "entries")
    ledgers.add(ON_THE_WAY, "lost", lost_on_the_way(OUT / "tables" / "crossings"))
    agree = compare(story.tally, ledgers, console)
    stats = f"{command_line()} ledger stats --data {os.path.relpath(london.data)}"
    console.print(f"Look around yourself: {stats}")
    console.print(f"All of it took {time.monotonic() - started:.0f} s.")
    return 0 if agree else EXIT_DIFFERENT


if __name__ == "__main__":
    sys.exit(main())
