"""How fast the console's pages are, and what open consoles cost the broker's clients.

``python -m bench.console`` with PYTHONPATH=build/compiled or src: a broker with ``--queues`` queues; each
page's first paint in Debian's Chromium, and the time of a whole answer; then, in turns without a console,
with the streams of three alone (an overview, a queue and the list of queues) and with three in a browser of
this machine, the rate of one sender, the broker's processor time for it, and the times of single messages.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright
from tools.peers.chromium import launched
from tools.peers.ports import LOOPBACK, free_port
from tools.peers.postroom import Postroom

from bench import loadtool
from bench.command import add_arguments, print_report, scratch
from bench.processor import seconds_of

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
PINGS: Final = 10_000
SETTLED_S: Final = 5.0
"""So long a browser is busy with a page that it has opened: what counts is what an open one costs."""


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
def nobody(_browser: Browser, _url: str) -> Iterator[None]:
    """No console."""
    yield


@contextmanager
def followers(_browser: Browser, url: str) -> Iterator[None]:
    """What three consoles have the broker do, and nothing else: their streams are read, and nothing drawn."""
    streams = [urllib.request.urlopen(f"{url}{path}?live=1") for path in CONSOLES]
    threads = [threading.Thread(target=_read_on, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    yield
    for stream in streams:
        stream.fp.raw._sock.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def _read_on(stream: HTTPResponse) -> None:
    while stream.readline():
        pass


@contextmanager
def consoles(browser: Browser, url: str) -> Iterator[None]:
    """Three pages that follow the broker, in a browser, whose drawing takes its part of the machine."""
    context = browser.new_context()
    for path in CONSOLES:
        page = context.new_page()
        page.goto(url + path)
        if page.locator("[data-chart]").count():
            page.wait_for_selector("[data-samples]")
    page.wait_for_timeout(SETTLED_S * 1e3)
    yield
    context.close()


WATCHED: Final = {"alone": nobody, "three_streams": followers, "three_consoles": consoles}


def traffic(made: Postroom, messages: int) -> dict[str, float]:
    """Messages a second of one sender, the broker's processor time for each, and the 99th percentile of
    single ones."""
    common = {"body_bytes": BODY_BYTES, "window": 1000}
    before_s = seconds_of(made)
    sent = loadtool.run(made, "send", QUEUE, messages=messages, **common)
    cpu_s = seconds_of(made) - before_s
    loadtool.run(made, "receive", QUEUE, messages=messages, **common)
    pinged = loadtool.run(made, "ping", PINGED, messages=PINGS, **common)
    return {
        "enqueue_per_s": sent.rate,
        "broker_us_per_message": cpu_s / messages * 1e6,
        "p99_ms": pinged.latency_us["p99"] / 1e3,
    }


def in_turns(made: Postroom, browser: Browser, url: str, turns: int, messages: int) -> dict[str, float]:
    """Without anybody who looks, and with each kind of them, one after the other."""
    found: dict[str, list[dict[str, float]]] = {who: [] for who in WATCHED}
    traffic(made, messages)
    for _ in range(turns):
        for who, watches in WATCHED.items():
            with watches(browser, url):
                found[who].append(traffic(made, messages))
    alone = found.pop("alone")
    report = {f"{name}_alone": statistics.median(each[name] for each in alone) for name in alone[0]}
    for who, measured in found.items():
        for name in alone[0]:
            ratios = [after[name] / before[name] for before, after in zip(alone, measured, strict=True)]
            report[f"{name}_{who}"] = statistics.median(each[name] for each in measured)
            report[f"{name}_{who}_change_percent"] = (statistics.median(ratios) - 1) * 100
    return report


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
