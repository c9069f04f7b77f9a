"""Starts two brokers, a replicated one, and the Spark pipeline beside them, plays the stories, and lets the
audit and the report say what became of every message while the brokers go on working.
"""

from __future__ import annotations

import json
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

from demo import lives
from demo.compiling import COMPILED, LOG, Compiling
from demo.enriching import Enriching
from demo.line import Line
from demo.members import Members, TakeOver
from demo.narrator import Narrator
from demo.partners import Partners, two
from demo.pipeline import ENVIRONMENT, Pipeline
from demo.story import Story
from demo.tally import Tally, from_entries, lost_on_the_way
from postroom.client import ConnectionFactory, Message
from postroom.spark.audit.result import AuditResult, result_of

OUT = Path(__file__).resolve().parent / "out"
TABLES, AUDIT, REPORT = OUT / "tables", OUT / "audit", OUT / "report.html"
EXIT_VIOLATIONS, EXIT_NOT_PROVEN, EXIT_DIFFERENT, EXIT_NOT_COMPILED = 3, 4, 5, 6
PIPED_WIDTH = 150
BEAT_S = 3.0
ON_THE_WAY = "(on the way to PARIS)"


@contextmanager
def heartbeat(url: str) -> Iterator[None]:
    """Messages that come and go while the block runs: the ledger grows under the pipeline's eyes."""
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


def postroom_command(*arguments: str) -> int:
    """A command as anyone would type it; its exit code."""
    command = [sys.executable, "-m", "postroom.cli", *arguments]
    return subprocess.run(command, check=False, env={**os.environ, **ENVIRONMENT}).returncode


def audit_and_report() -> tuple[int, AuditResult | None]:
    """The audit of the tables at the position that they have reached, and the page with pictures."""
    code = postroom_command("audit", "--tables", str(TABLES), "--out", str(AUDIT))
    if code not in (0, EXIT_VIOLATIONS, EXIT_NOT_PROVEN):
        return code, None
    found = result_of(json.loads((AUDIT / "audit.json").read_text()))
    report = ["report", "--tables", str(TABLES), "--audit", str(AUDIT), "--out", str(REPORT)]
    return postroom_command(*report) or code, found


def compare(expected: Tally, ledgers: Tally, console: Console) -> bool:
    """Show both counts side by side; False where they differ.

    The clients can't know what became of sends that the kill left without an answer: the queue `storm` may
    hold more.
    """
    table = Table(
        "queue", "the clients say", "the ledgers say", "", title="Do they agree?", title_justify="left"
    )
    agree = True
    for queue in expected.fates:
        same = expected.of(queue) == ledgers.of(queue)
        agree = agree and same
        table.add_row(
            queue, shown(expected.of(queue)), shown(ledgers.of(queue)), "[green]yes" if same else "[red]NO"
        )
    console.print()
    console.print(table)
    return agree


def shown(fates: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {fate}" for fate, count in sorted(fates.items()))


def command_line() -> str:
    """How the working directory's user calls `postroom` of this build, which isn't installed."""
    return f"PYTHONPATH={COMPILED} {os.path.relpath(sys.executable)} -m postroom.cli"


def main() -> int:
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
    started = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    compiling = Compiling()
    line = Line()
    london, paris = two(OUT, line)
    for broker in (london, paris):
        console.print(f"The queue manager {broker.name} runs at {broker.url}, its ledger in {broker.data}")
    rome = Members(OUT)
    console.print(
        f"The queue manager ROME has three members at {rome.url}, its ledger on three NATS nodes, too"
    )
    ledgers = [str(london.data), str(paris.data), rome.http]
    pipeline = Pipeline(ledgers, rome.token, TABLES, Narrator(console))
    pipeline.start()
    console.print(f"A Spark pipeline reads all three ledgers as they grow, into tables in {TABLES}")
    try:
        story = Story(london, console)
        story.play()
        pipeline.show_progress()
        partners = Partners(london, paris, line, story.tally, console)
        partners.play()
        pipeline.show_progress()
        Enriching(london, OUT, story.tally, console).play()
        pipeline.show_progress()
        TakeOver(rome, story.tally, console).play()
        pipeline.show_progress()
        console.print()
        console.rule("[bold]The pipeline catches up with the running brokers", align="left")
        with heartbeat(london.url):
            pipeline.catch_up()
            pipeline.show_progress()
            pipeline.stop()
            console.print()
            console.rule("[bold]The audit: is every message accounted for?", align="left")
            code, found = audit_and_report()
    except BaseException:
        compiling.stop()
        raise
    finally:
        pipeline.stop()
        rome.stop()
        paris.stop()
        london.stop()
        line.close()
    if not compiling.finish():
        console.print(f"The compiled version could not be built: {LOG}")
        return EXIT_NOT_COMPILED
    if found is None:
        return code
    console.print(lives.table(TABLES))
    story.tally.add(ON_THE_WAY, "lost", partners.lost)
    found_fates = from_entries(TABLES)
    found_fates.add(ON_THE_WAY, "lost", lost_on_the_way(found))
    agree = compare(story.tally, found_fates, console)
    console.print(f"\nThe report with pictures: {REPORT}")
    state = f"{command_line()} state payments.dead --tables {os.path.relpath(TABLES)}"
    console.print(f"Look around yourself: {state}")
    console.print(f"All of it took {time.monotonic() - started:.0f} s.")
    return code or (0 if agree else EXIT_DIFFERENT)


if __name__ == "__main__":
    sys.exit(main())
