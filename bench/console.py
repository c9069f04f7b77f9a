"""How fast the console's pages are, and what open consoles cost the broker's clients.

``python -m bench.console`` with PYTHONPATH=build/compiled or src: a broker with ``--queues`` queues; each
page's first paint in Debian's Chromium, and the time of a whole answer; then, in turns with three consoles
open (an overview, a queue and the list of queues, in a browser that follows them) and without, the rate of
one sender and the times of single messages.
"""

from __future__ import annotations

import argparse
import statistics
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright
from tools.peers.broker import LOOPBACK, free_port
from tools.peers.chromium import launched
from tools.peers.postroom import Postroom

from bench import loadtool
from bench.command import add_arguments, print_report, scratch

FILLED, QUEUE, PINGED = "filled", "bench", "pinged"
"""What pages show; what many messages go through; where single ones are put."""
PAGES: Final = {
    "overview": "/",
    "queues": "/queues",
    "queues_searched": "/queues?q=queue-00&sort=-messages_current",
    "queue": f"/queues/{FILLED}",
    "messages": f"/queues/{FILLED}?view=messages",
    "dead_letters": "/dead-letters",
    "topics": "/topics",
    "channels": "/channels",
    "transactions": "/transactions",
    "connections": "/connections",
    "users": "/users",
    "acts": "/acts",
}
CONSOLES: Final = ("/", f"/queues/{QUEUE}", "/queues")
PAINTED: Final = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
PAINT_MS: Final = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
TIMES: Final = 7
BODY_BYTES: Final = 1024
PINGS: Final = 2000


@contextmanager
def broker(folder: Path, queues: int) -> Iterator[tuple[Postroom, str]]:
    """One with so many queues, and where its console is."""
    made, port = Postroom(folder), free_port()
    tables = "".join(f'[[queue]]\nname = "queue-{number:05}"\n' for number in range(queues))
    made.configuration += f'[http]\naddress = "{LOOPBACK}:{port}"\nmax_requests_per_s = 10000\n{tables}'
    with made:
        loadtool.run(made, "send", FILLED, messages=1000, body_bytes=BODY_BYTES, window=100)
        yield made, f"http://{LOOPBACK}:{port}"


def pages(browser: Browser, url: str) -> dict[str, float]:
    """Each page's first paint and whole answer, the median of some."""
    found = {}
    for name, path in PAGES.items():
        answers, paints = [], []
        context = browser.new_context()
        for _ in range(TIMES):
            begun = time.perf_counter()
            urllib.request.urlopen(url + path).read()
            answers.append((time.perf_counter() - begun) * 1e3)
            page = context.new_page()
            page.goto(url + path)
            page.wait_for_function(PAINTED)
            paints.append(float(page.evaluate(PAINT_MS)))
            page.close()
        context.close()
        found[f"{name}_answer_ms"] = statistics.median(answers)
        found[f"{name}_first_paint_ms"] = statistics.median(paints)
    return found


@contextmanager
def open_consoles(browser: Browser, url: str) -> Iterator[None]:
    """Three pages that follow the broker."""
    context = browser.new_context()
    for path in CONSOLES:
        context.new_page().goto(url + path)
    yield
    context.close()


def traffic(made: Postroom, messages: int) -> tuple[float, float]:
    """Messages a second of one sender, and the 99th percentile of single ones (ms)."""
    common = {"body_bytes": BODY_BYTES, "window": 1000}
    sent = loadtool.run(made, "send", QUEUE, messages=messages, **common)
    loadtool.run(made, "receive", QUEUE, messages=messages, **common)
    pinged = loadtool.run(made, "ping", PINGED, messages=PINGS, **common)
    return sent.rate, pinged.latency_us["p99"] / 1e3


def in_turns(made: Postroom, browser: Browser, url: str, turns: int, messages: int) -> dict[str, float]:
    """Without consoles and with them, one after the other."""
    alone, watched = [], []
    traffic(made, messages)
    for _ in range(turns):
        alone.append(traffic(made, messages))
        with open_consoles(browser, url):
            watched.append(traffic(made, messages))
    names = ("enqueue_per_s", "p99_ms")
    found = {}
    for at, name in enumerate(names):
        found[f"{name}_alone"] = statistics.median(each[at] for each in alone)
        found[f"{name}_three_consoles"] = statistics.median(each[at] for each in watched)
        ratios = [after[at] / before[at] for before, after in zip(alone, watched, strict=True)]
        found[f"{name}_change_percent"] = (statistics.median(ratios) - 1) * 100
    return found


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--queues", type=int, default=10_000)
    command.add_argument("--turns", type=int, default=7)
    command.add_argument("--messages", type=int, default=300_000, help="of each timed run")
    add_arguments(command)
    given = command.parse_args()
    with scratch(given.folder) as folder, sync_playwright() as playwright:
        browser = launched(playwright)
        with broker(folder / "many", given.queues) as (_, url):
            report = pages(browser, url)
        with broker(folder / "few", 100) as (made, url):
            report |= in_turns(made, browser, url, given.turns, given.messages)
        browser.close()
    print_report(report, given.json, 1)


if __name__ == "__main__":
    main()
