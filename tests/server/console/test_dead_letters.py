"""Dead letters: why they are there, and back with them."""

import pytest
from playwright.sync_api import Page, expect
from proton import Message

from tests.server.console.console_pages import Console, axe_findings, confirm, expect_error, root_of
from tests.server.management_peer import QUEUE, Manager

pytestmark = pytest.mark.sockets
LETTERS = 5


@pytest.fixture
def dead(console: Console, queue: str) -> str:
    """A dead-letter queue with five messages that were rejected on another, and one that was put on it."""
    name = f"dead of {queue}"
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=name) == 201
        assert root.status("CREATE", {"dead_letter_queue": name}, type=QUEUE, name=queue) == 201
        sender = root.connection.create_sender(queue)
        for number in range(LETTERS):
            sender.send(
                Message(id=f"m{number}", body=f"body <{number}>", properties={"n": number}, durable=True)
            )
        receiver = root.connection.create_receiver(queue)
        for _ in range(LETTERS):
            receiver.receive(15)
            receiver.reject()
        receiver.close()
        root.connection.create_sender(name).send(Message(id="own", durable=True))
        assert current(root, name) == LETTERS + 1
    return name


def current(root: Manager, name: str) -> int:
    return int(root.request("READ", type=QUEUE, name=name).body["messages_current"])


def test_reasons_are_grouped_and_a_group_goes_back(page: Page, dead: str, queue: str) -> None:
    page.goto("/dead-letters")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=dead))
    current, pending, _, users, default_of = row.get_by_role("cell").all_inner_texts()
    assert (current, pending, users, default_of) == (str(LETTERS + 1), "0", "1", "")
    page.get_by_role("link", name=dead).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(dead)
    group = page.get_by_role("row").filter(has_text="Replay these").filter(has_text=queue)
    expect(group).to_contain_text(str(LETTERS))
    expect(page.get_by_role("cell", name="body <3>")).to_be_visible()
    assert axe_findings(page) == []
    group.get_by_role("link", name="Replay these").click()
    page.get_by_role("button", name="Replay", exact=True).click()
    progress = page.locator("#progress").get_by_role("status")
    expect(progress).to_contain_text(f"Done. {LETTERS} of {LETTERS} have gone back")
    page.reload()
    expect(page.get_by_role("row").filter(has_text="Replay these")).to_have_count(1)


def test_a_selection_goes_to_another_queue(console: Console, page: Page, dead: str) -> None:
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=f"other {dead}") == 201
        page.goto(f"/dead-letters/{dead}")
        for at in (0, 2):
            page.get_by_role("checkbox").nth(at).check()
        page.get_by_role("button", name="Replay the chosen ones").click()
        expect(page.get_by_role("main")).to_contain_text("2 messages of")
        page.locator("[name=to]").fill(f"other {dead}")
        page.get_by_role("button", name="Replay", exact=True).click()
        expect(page.locator("#progress")).to_contain_text("Done. 2 of 2")
        assert (current(root, f"other {dead}"), current(root, dead)) == (2, LETTERS - 1)


def test_all_that_a_selector_matches_is_counted_before(
    console: Console, page: Page, dead: str, queue: str
) -> None:
    page.goto(f"/dead-letters/{dead}?act=replay&selector=n+%3E+2")
    expect(page.get_by_role("main")).to_contain_text("2 messages with selector n > 2")
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.locator("#progress")).to_contain_text("Done. 2 of 2")
    with root_of(console.served) as root:
        assert current(root, queue) == 2


def test_what_has_no_origin_stays(page: Page, dead: str) -> None:
    page.goto(f"/dead-letters/{dead}")
    confirm(page, "Replay")
    expect(page.locator("#progress")).to_contain_text("1 were put on this queue itself and stay")


def test_without_the_right_nothing_goes_back(console: Console, viewer: Page, dead: str) -> None:
    viewer.goto(f"/dead-letters/{dead}")
    confirm(viewer, "Replay")
    expect(viewer.locator("#progress")).to_contain_text("has no right")
    with root_of(console.served) as root:
        assert current(root, dead) == LETTERS + 1


def test_a_replay_of_another_user_isn_t_shown(console: Console, page: Page, viewer: Page, dead: str) -> None:
    page.goto(f"/dead-letters/{dead}")
    confirm(page, "Replay")
    expect(page.locator("#progress")).to_be_visible()
    expect_error(viewer, "404")
    answer = viewer.goto(page.url)
    assert answer is not None
    assert answer.status == 404
