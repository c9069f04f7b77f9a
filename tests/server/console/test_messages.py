"""One message: what it says, and its life, whose picture has what `postroom trace` has."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect
from proton import Message
from proton.utils import BlockingConnection

from postroom.cli.main import main
from postroom.client import AcknowledgeMode
from postroom.client.sync import connect
from tests.server.console.console_pages import Console, axe_findings, expect_error, root_of
from tests.server.management_peer import QUEUE

pytestmark = pytest.mark.sockets

Lived = Callable[[Console, str], str | None]
"""Gives a message of that queue a life; its id, where it isn't one of the queue's name."""


@contextmanager
def connected(console: Console) -> Iterator[BlockingConnection]:
    url = console.served.broker.url
    with closing(BlockingConnection(url, timeout=15, user="root", password="root")) as connection:
        yield connection


def put(console: Console, queue: str, body: object = "a body", **more: Any) -> None:
    with connected(console) as connection:
        message = Message(id=f"id of {queue}", body=body, durable=True, **more)
        connection.create_sender(queue).send(message)


def got(console: Console, queue: str) -> None:
    put(console, queue)
    with connected(console) as connection:
        receiver = connection.create_receiver(queue)
        receiver.receive()
        receiver.accept()


def redelivered(console: Console, queue: str) -> None:
    put(console, queue)
    with connected(console) as connection:
        receiver = connection.create_receiver(queue)
        for _ in range(2):
            receiver.receive()
            receiver.release(delivered=True)
        receiver.receive()
        receiver.accept()


def dead_lettered(console: Console, queue: str) -> None:
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=f"{queue}.dead") == 201
        settings = {"dead_letter_queue": f"{queue}.dead"}
        assert root.status("UPDATE", settings, type=QUEUE, name=queue) == 200
    put(console, queue)
    with connected(console) as connection:
        receiver = connection.create_receiver(queue)
        receiver.receive()
        receiver.reject()


def moved(console: Console, queue: str) -> None:
    put(console, queue)
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=f"{queue}.other") == 201
        target = {"to": f"{queue}.other"}
        assert root.status("MOVE-MESSAGES", target, type="postroom.message", name=queue) == 200


def in_a_transaction(console: Console, queue: str) -> str:
    with connect(console.served.broker.url.replace("//", "//root:root@")) as connection:
        session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer(queue).send("x")
        session.commit()
        consumer = session.create_consumer(queue)
        assert consumer.receive(10) is not None
        session.rollback()
        received = consumer.receive(10)
        assert received is not None
        session.commit()
        return str(received.message_id)


def traced(console: Console, message_id: str) -> list[dict[str, Any]]:
    """What `postroom trace --json` says."""
    url = console.served.broker.url.replace("//", "//root:root@")
    done = CliRunner().invoke(main, ["trace", message_id, "--json", "--url", url])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


@pytest.fixture
def made(console: Console, queue: str) -> str:
    with root_of(console.served) as root:
        name = queue.partition("[")[0]
        root.status("DELETE", type=QUEUE, name=name)
        assert root.status("CREATE", {}, type=QUEUE, name=name) == 201
    return name


@pytest.mark.parametrize("lived", [put, got, redelivered, dead_lettered, moved, in_a_transaction])
def test_the_picture_of_a_life_is_what_trace_says(
    page: Page, console: Console, made: str, lived: Lived
) -> None:
    name = f"{made}.{lived.__name__}"
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=name) == 201
    message_id = lived(console, name) or f"id of {name}"
    lines = traced(console, message_id)
    page.goto(f"/messages?{urlencode({'id': message_id})}")
    if len({line["serial"] for line in lines}) > 1:
        page.get_by_role("link", name=str(lines[0]["serial"]), exact=True).click()
    check_picture(page, lines)


def check_picture(page: Page, lines: list[dict[str, Any]]) -> None:
    """Every state of every message is there with its event and its holder, and nothing else."""
    drawn: dict[int, list[tuple[str, str, str]]] = {}
    for lane in page.locator("svg.life g[data-serial]").all():
        states = lane.locator("rect.state").all()
        drawn[int(lane.get_attribute("data-serial") or 0)] = [
            tuple(each.get_attribute(f"data-{part}") or "" for part in ("state", "event", "holder"))  # type: ignore[misc]
            for each in states
        ]
    wanted: dict[int, list[tuple[str, str, str]]] = {}
    ends = 0
    for line in lines:
        stays = wanted.setdefault(line["serial"], [])
        if line["to"] == "deleted":
            ends += 1
            continue
        holder = (line.get("holder_kind", "").replace("_", " "), line.get("holder"), line.get("holder_name"))
        stays.append((line["to"], line["event"], " ".join(str(part) for part in holder if part)))
    assert drawn == wanted
    assert page.locator("svg.life circle.end").count() == ends


def test_what_was_made_of_a_message_is_a_link_away(page: Page, console: Console, made: str) -> None:
    dead_lettered(console, made)
    page.goto(f"/messages?id=id+of+{made}")
    page.get_by_role("row", name=f"{made}.dead").get_by_role("link").click()
    relatives = page.get_by_role("region", name="Relatives")
    expect(relatives.get_by_role("row").nth(1)).to_contain_text("ancestor")
    expect(page.locator("#body")).to_have_text("a body")
    relatives.get_by_role("link").click()
    expect(page.get_by_role("region", name="Relatives").get_by_role("row").nth(1)).to_contain_text(
        "descendant"
    )
    expect(page.get_by_text("The message has ended")).to_be_visible()
    assert axe_findings(page) == []


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ('{"a": [1, 2]}', "JSON", '"a": [\n    1,'),
        ("<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (b"\x00\xff\x01", "bytes", ""),
        ({"key": 7}, "AMQP value", '"key": 7'),
        ("long " * 20_000, "text", "long long"),
    ],
)
def test_a_body_is_shown_as_what_it_is(
    page: Page, console: Console, made: str, body: object, kind: str, text: str
) -> None:
    put(console, made, body, properties={"<b>": "<i>"}, subject="a subject")
    page.goto(f"/queues/{made}?view=messages")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    section = page.locator("section").filter(has=page.get_by_role("heading", name="Body"))
    expect(section.get_by_role("heading")).to_contain_text(kind)
    if text:
        assert text in page.locator("#body").inner_text()
        assert len(page.locator("#body").inner_text()) <= 64 << 10
    expect(page.get_by_text("<b>", exact=True)).to_be_visible()
    expect(page.get_by_text("a subject")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the body").click()
    content = download.value.path().read_bytes()
    assert content == (body if isinstance(body, bytes) else content)
    assert not isinstance(body, str) or content == body.encode()
    assert axe_findings(page) == []


def test_one_message_is_moved_and_deleted(page: Page, console: Console, made: str) -> None:
    put(console, made)
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=f"{made}.other") == 201
    page.goto(f"/messages?id=id+of+{made}")
    page.get_by_role("link", name="Move", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("1 message with serial")
    page.get_by_role("dialog").get_by_label("To queue").fill(f"{made}.other")
    page.get_by_role("dialog").get_by_role("button", name="Move messages").click()
    expect(page.get_by_role("status")).to_have_text(f"Moved: 1 message to {made}.other.")
    page.goto(f"/queues/{made}.other?view=messages")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete messages").click()
    expect(page.get_by_role("status")).to_have_text("Deleted: 1 message.")


def test_a_message_without_the_right_to_see_its_body_or_life(
    console: Console, viewer: Page, made: str
) -> None:
    put(console, made)
    viewer.goto(f"/queues/{made}?view=messages")
    viewer.get_by_role("region", name="Messages").get_by_role("link").click()
    expect(viewer.locator("section").first).to_contain_text("user 'ann' has no right 'read-ledger'")
    expect(viewer.locator("#body")).to_have_text("a body")


def test_what_is_no_message(page: Page) -> None:
    expect_error(page, "40")
    page.goto("/messages?id=nothing")
    expect(page.locator("section")).to_contain_text("The ledger has no message of that id")
    page.goto("/messages/99999999")
    expect(page.locator("section")).to_contain_text("The ledger knows no such message")
    for path in ("/messages/x", "/messages/0", "/messages?id=x&kind=uuid"):
        page.goto(path)
        expect(page.locator(".banner:visible")).to_contain_text("no ")


def test_deleting_one_message_without_the_right_is_refused(console: Console, viewer: Page, made: str) -> None:
    put(console, made)
    expect_error(viewer, "403")
    viewer.goto(f"/queues/{made}?view=messages")
    viewer.get_by_role("region", name="Messages").get_by_role("link").click()
    viewer.wait_for_load_state()
    viewer.get_by_role("link", name="Delete", exact=True).click()
    viewer.get_by_role("dialog").get_by_role("button", name="Delete messages").click()
    expect(viewer.get_by_role("alert")).to_contain_text("user 'ann' has no right")
    expect(viewer.get_by_label("Serial")).not_to_have_value("")
