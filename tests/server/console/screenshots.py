"""Makes the pictures of the console in docs/_static/console:  python -m tests.server.console.screenshots

A broker with the queues of a shop, some minutes of traffic in a few seconds, light and dark, wide and narrow.
"""

import json
import math
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright
from proton import Message
from proton.utils import BlockingConnection
from tools.peers.chromium import launched

from postroom.server.configuration.http import HttpConfig
from tests.server.console.console_pages import ROOT
from tests.server.http_client import Served, serving
from tests.server.management_peer import QUEUE, Manager

FOLDER: Final = ROOT / "docs/_static/console"
SECONDS: Final = 24
WIDE: Final = {"width": 1200, "height": 860}
PHONE: Final = {"width": 390, "height": 760}
DRAWN: Final = """() => Array.from(document.querySelectorAll("[data-chart]"))
    .every((chart) => Number(chart.dataset.samples) > 5)"""
QUEUES: Final = (
    "orders",
    "orders.dead",
    "invoices",
    "shipping",
    "shipping.express",
    "returns",
    "mail",
    "audit",
)


def fill(served: Served, connection: BlockingConnection) -> int:
    """The queues, with messages; the serial of one that has been put, rejected and dead-lettered."""
    manager = Manager(connection)
    for name in QUEUES:
        settings = {"dead_letter_queue": "orders.dead"} if name == "orders" else {}
        manager.request("CREATE", settings, type=QUEUE, name=name)
    for name, number in (("orders", 240), ("shipping", 60), ("mail", 1200), ("returns", 7)):
        sender = connection.create_sender(name)
        for index in range(number):
            body = json.dumps({"order": 4711 + index, "items": [{"sku": "B-17", "count": 2}], "total": 59.8})
            properties = {"color": "red" if index % 3 else "blue"}
            sender.send(
                Message(
                    id=f"{name}-{4711 + index}",
                    body=body,
                    durable=True,
                    properties=properties,
                    content_type="application/json",
                )
            )
    receiver = connection.create_receiver("orders", name="worker-1", credit=1)
    for _ in range(2):
        receiver.receive()
        receiver.release(delivered=True)
    receiver.receive()
    receiver.reject()
    manager.request("PAUSE", type=QUEUE, name="returns", switch="consumption")
    found = manager.request("FIND-MESSAGES", {"message_id": "orders-4711"}, type="postroom.ledger").body
    return int(found["serials"][0])


def pictures(browser: Browser, served: Served, serial: int) -> None:
    """All of them."""
    wanted = [
        ("overview-light", "light", WIDE, "/"),
        ("overview-dark", "dark", WIDE, "/"),
        ("queues-light", "light", WIDE, "/queues?sort=-messages_current"),
        ("queue-light", "light", WIDE, "/queues/mail"),
        ("queue-dark", "dark", WIDE, "/queues/mail"),
        ("browse-light", "light", WIDE, "/queues/orders?view=messages"),
        ("message-light", "light", WIDE, f"/messages/{serial}"),
        ("message-dark", "dark", WIDE, f"/messages/{serial}"),
        ("purge-light", "light", WIDE, "/queues/orders"),
        ("dead-letters-light", "light", WIDE, "/dead-letters/orders.dead"),
        ("acts-light", "light", WIDE, "/acts"),
        ("queue-phone", "light", PHONE, "/queues/mail"),
    ]
    for name, scheme, size, path in wanted:
        context = browser.new_context(base_url=served.url, color_scheme=scheme, viewport=size)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(path)
        if "overview" in name or "queue-" in name:
            page.wait_for_function(DRAWN)
        if "purge" in name:
            page.get_by_role("link", name="Purge").click()
            page.get_by_role("dialog").wait_for()
        page.screenshot(path=FOLDER / f"{name}.png")
        context.close()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    http = HttpConfig(address="127.0.0.1:0", max_requests_per_s=1000)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", http) as served:
        connection = BlockingConnection(served.broker.url)
        serial = fill(served, connection)
        with sync_playwright() as playwright:
            browser = launched(playwright)
            watching = browser.new_page()
            for path in ("/", "/queues/mail"):
                watching.goto(served.url + path)
            busy = threading.Thread(target=traffic, args=(served, SECONDS * 3), daemon=True)
            busy.start()
            watching.wait_for_timeout(SECONDS * 1000)
            pictures(browser, served, serial)
            browser.close()
            busy.join()


def traffic(served: Served, seconds: int) -> None:
    """Goes up and down for a while, so that there is something to draw."""
    connection = BlockingConnection(served.broker.url)
    sender = connection.create_sender("mail", name="mailer")
    receiver = connection.create_receiver("mail", name="postman", credit=20)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for _ in range(int(14 + 10 * math.sin(left / 2.5))):
            sender.send(Message(body="Dear customer", durable=True))
        for _ in range(int(15 + 10 * math.cos(left / 3))):
            receiver.receive(timeout=5)
            receiver.accept()
        time.sleep(0.15)


if __name__ == "__main__":
    main()
