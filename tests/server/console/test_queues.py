"""The list of queues, one queue, and everything that can be done to it; with the right and without."""

import re
import threading

import pytest
from playwright.sync_api import Page, expect
from proton import Message
from proton.utils import BlockingConnection

from postroom.ledger.reading.acts import read_acts
from tests.server.console.console_pages import Console, axe_findings, confirm, expect_error, root_of
from tests.server.management_peer import QUEUE

pytestmark = pytest.mark.sockets

PHONE = {"width": 390, "height": 844}


@pytest.fixture
def orders(console: Console, queue: str) -> str:
    """A queue with a blue message and two red ones."""
    name = re.sub(r"\W+", "-", queue)
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=name) == 201
        sender = root.connection.create_sender(name)
        for number in range(3):
            color = {"color": "red" if number else "blue"}
            sender.send(Message(id=f"m{number}", body=f"body {number}", properties=color, durable=True))
    return name


def depth(console: Console, name: str) -> int:
    """Messages that can be received now."""
    return console.served.broker.call(
        lambda broker: int(broker.manager.queue(name).statistics.snapshot()["messages_current"])
    )


def expect_done(page: Page, text: str) -> None:
    """The page says that this has been done."""
    expect(page.get_by_role("status")).to_have_text(text)


def test_the_list_is_searched_and_sorted_by_its_url(page: Page, orders: str) -> None:
    page.goto("/queues")
    page.get_by_role("searchbox").press_sequentially(orders[:20])
    expect(page).to_have_url(re.compile("q=test_the_list"))
    expect(page.get_by_role("row", name=orders)).to_be_visible()
    page.get_by_role("link", name="Current").click()
    expect(page.get_by_role("columnheader", name="Current")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("link", name="Current").click()
    expect(page.get_by_role("columnheader", name="Current")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("link", name=orders).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(orders)
    page.goto("/queues?q=no-such-queue")
    expect(page.get_by_role("cell")).to_have_text("No queues with “no-such-queue”.")


def test_a_list_follows_what_happens(page: Page, console: Console, orders: str) -> None:
    page.goto(f"/queues?q={orders}")
    row = page.get_by_role("row", name=orders)
    expect(row.get_by_role("cell").first).to_have_text("3")
    with root_of(console.served) as root:
        assert root.status("PURGE", type=QUEUE, name=orders) == 200
    expect(row.get_by_role("cell").first).to_have_text("0", timeout=15_000)


def test_a_queue_is_followed_with_its_users_and_drawn_over_time(
    page: Page, console: Console, orders: str
) -> None:
    page.goto(f"/queues/{orders}")
    current = page.locator(".tile").filter(has_text="Current").locator("b")
    expect(current).to_have_text("3")
    connection = BlockingConnection(console.served.broker.url, user="root", password="root")
    connection.create_receiver(orders, name="a consumer", credit=10)
    connection.create_sender(orders, name="a producer")
    expect(current).to_have_text("0")
    holder = page.get_by_role("region", name="Consumers and other holders").get_by_role("row").nth(1)
    expect(holder).to_contain_text("a consumer")
    expect(holder.get_by_role("cell").last).to_have_text("3")
    expect(page.get_by_role("region", name="Producers")).to_contain_text("a producer")
    expect(page.locator(".chart canvas")).to_have_count(2)
    connection.close()
    expect(current).to_have_text("3")
    expect(page.locator("#users")).to_contain_text("Nobody is attached to put here.")


def test_a_queue_under_load_is_followed(page: Page, console: Console, orders: str) -> None:
    ended = threading.Event()

    def load() -> None:
        with root_of(console.served) as root:
            sender, receiver = root.connection.create_sender(orders), root.connection.create_receiver(orders)
            while not ended.is_set():
                sender.send(Message(body="x", durable=True))
                receiver.receive()
                receiver.accept()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        page.goto(f"/queues/{orders}")
        for title in ("Put", "Consumed"):
            rate = page.locator(".tile").filter(has_text=title).locator("b")
            expect(rate).to_have_text(re.compile(r"[1-9].*/s"), timeout=15_000)
        confirm(page, "Pause", switch="consumption")
        expect_done(page, "Paused: consumption.")
        expect(page.locator("#figures")).to_contain_text("Consumption is paused.")
        confirm(page, "Resume", switch="consumption")
        expect_done(page, "Resumed: consumption.")
    finally:
        ended.set()
        thread.join()


def test_a_blocked_sender_is_shown(page: Page, console: Console, orders: str) -> None:
    with root_of(console.served) as root:
        assert root.status("UPDATE", {"max_messages": 3}, type=QUEUE, name=orders) == 200
        sender = root.connection.create_sender(orders, name="waits for room")
        delivery = sender.link.send(Message(body="one too many", durable=True))
        root.connection.wait(lambda: True)
        page.goto(f"/queues/{orders}")
        row = page.get_by_role("region", name="Producers").get_by_role("row", name="waits for room")
        expect(row).to_contain_text("1")
        confirm(page, "Purge")
        expect_done(page, "Purged: 3 messages deleted.")
        root.connection.wait(lambda: delivery.remote_state)


@pytest.mark.parametrize(
    ("action", "effect", "values", "done", "left"),
    [
        ("Purge", "This deletes 3 messages", {}, "Purged: 3 messages deleted.", 0),
        ("Delete messages", "3 messages on", {"selector": "color = 'red'"}, "Deleted: 2 messages.", 1),
        ("Move messages", "3 messages on", {"to": "elsewhere"}, "Moved: 3 messages to elsewhere.", 0),
        ("Pause", "holds 3 messages back", {"switch": "consumption"}, "Paused: consumption.", 3),
        ("Put a message", "", {"body": '{"a": 1}', "kind": "JSON", "message_id": "x"}, "Put: 1 message.", 4),
        ("Change settings", "hold from now on", {"max_messages": "77"}, "Changed: max messages.", 3),
    ],
)
def test_an_action_says_what_it_does_and_does_it(
    page: Page,
    console: Console,
    orders: str,
    action: str,
    effect: str,
    values: dict[str, str],
    done: str,
    left: int,
) -> None:
    with root_of(console.served) as root:
        root.status("CREATE", {}, type=QUEUE, name="elsewhere")
    page.goto(f"/queues/{orders}")
    page.get_by_role("link", name=action, exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(effect)
    assert axe_findings(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert depth(console, orders) == 3
    confirm(page, action, **values)
    expect_done(page, done)
    assert depth(console, orders) == left
    page.reload()
    expect(page.get_by_role("status")).to_have_count(0)


@pytest.mark.parametrize(
    ("action", "values", "right"),
    [
        ("Purge", {}, "purge"),
        ("Delete messages", {}, "purge"),
        ("Move messages", {"to": "elsewhere"}, "move"),
        ("Pause", {"switch": "consumption"}, "pause"),
        ("Put a message", {"body": "x"}, "put"),
        ("Change settings", {"max_messages": "77"}, "alter"),
        ("Delete queue", {}, "delete"),
    ],
)
def test_an_action_without_its_right_is_refused_and_recorded(
    viewer: Page, console: Console, orders: str, action: str, values: dict[str, str], right: str
) -> None:
    expect_error(viewer, "403")
    viewer.goto(f"/queues/{orders}")
    confirm(viewer, action, **values)
    expect(viewer.get_by_role("alert")).to_contain_text(f"user 'ann' has no right '{right}'")
    assert depth(console, orders) == 3
    assert any(
        (act["user"], act["status"], act["name"]) == ("ann", 403, orders)
        for act in read_acts(console.served.folder)
    )


def test_who_may_see_nothing_sees_nothing(console: Console, orders: str) -> None:
    with console.page("eve") as page:
        expect_error(page, "403")
        page.goto("/")
        expect(page).to_have_url(re.compile("/queues$"))
        expect(page.get_by_role("cell")).to_have_text("No queues.")
        page.goto(f"/queues/{orders}")
        expect(page.get_by_role("heading", level=1)).to_have_text("This is not allowed")


def test_a_queue_is_created_paused_resumed_and_deleted(page: Page, queue: str) -> None:
    name = f"{queue}/with &<b>?#%"
    page.goto("/queues")
    confirm(page, "Create a queue", name=name)
    expect_done(page, f"Created: queue {name}.")
    confirm(page, "Pause", switch="production")
    expect(page.locator("#figures")).to_contain_text("Production is paused.")
    page.goto("/queues")
    expect(page.get_by_role("row", name=name)).to_contain_text("production paused")
    page.get_by_role("link", name=name).click()
    confirm(page, "Resume", switch="production")
    expect_done(page, "Resumed: production.")
    page.get_by_role("link", name="Delete queue").click()
    expect(page.get_by_role("dialog")).to_contain_text("This deletes the queue with 0 messages")
    page.get_by_role("dialog").get_by_role("button", name="Delete queue").click()
    expect_done(page, f"Deleted: queue {name}.")
    expect_error(page, "404")
    page.go_back()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")


def test_what_is_wrong_in_a_form_is_said_above_it_and_what_was_given_stays(page: Page, orders: str) -> None:
    expect_error(page, "400")
    page.goto(f"/queues/{orders}")
    confirm(page, "Put a message", body="{", kind="JSON", correlation_id="kept")
    expect(page.get_by_role("alert")).to_contain_text("no JSON")
    expect(page.get_by_label("Correlation id")).to_have_value("kept")
    expect(page.get_by_label("Body", exact=False).first).to_have_value("{")


def test_messages_are_browsed_by_selector_and_state(page: Page, orders: str) -> None:
    page.goto(f"/queues/{orders}?view=messages")
    rows = page.get_by_role("region", name="Messages").locator("tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Selector").fill("color = 'red'")
    page.get_by_role("button", name="Browse").click()
    expect(rows).to_have_count(2)
    page.get_by_label("State").select_option("receive")
    page.get_by_role("button", name="Browse").click()
    expect(rows).to_have_text("No messages like these.")
    page.goto(f"/queues/{orders}?view=messages&selector=color+%3D")
    expect(page.get_by_role("alert")).to_be_visible()
    assert axe_findings(page) == []


def test_a_browse_goes_from_page_to_page(page: Page, console: Console, orders: str) -> None:
    with root_of(console.served) as root:
        sender = root.connection.create_sender(orders)
        for number in range(60):
            sender.send(Message(id=f"n{number}", body="x", durable=True))
    page.goto(f"/queues/{orders}?view=messages")
    expect(page.locator(".pager")).to_contain_text("1 to 50 of 63")
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("51 to 63 of 63")
    page.get_by_role("link", name="Previous").click()
    expect(page.locator(".pager")).to_contain_text("1 to 50 of 63")


def test_it_works_without_script(console: Console, orders: str) -> None:
    with console.page(java_script_enabled=False) as page:
        page.goto(f"/queues/{orders}")
        page.get_by_role("link", name="Purge").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Purge {orders}?")
        page.get_by_role("button", name="Purge").click()
        expect_done(page, "Purged: 3 messages deleted.")
        page.goto(f"/queues?q={orders}")
        expect(page.get_by_role("row", name=orders)).to_be_visible()


def test_it_works_from_the_keyboard(page: Page, orders: str) -> None:
    page.goto(f"/queues/{orders}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.get_by_role("link", name="Purge").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.getElementById('dialog').contains(document.activeElement)")
    page.get_by_role("dialog").get_by_role("button", name="Purge").press("Enter")
    expect_done(page, "Purged: 3 messages deleted.")


@pytest.mark.sample(1)
@pytest.mark.parametrize("view", ["", "?view=messages", "?view=settings", "?act=put", "?act=settings"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits_a_phone(
    console: Console, orders: str, view: str, scheme: str
) -> None:
    with console.page(viewport=PHONE, color_scheme=scheme) as page:
        page.goto(f"/queues/{orders}{view}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert axe_findings(page) == []
