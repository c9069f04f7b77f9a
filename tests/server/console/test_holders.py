"""Who holds messages: local transactions, XA branches, confirm ids and browse locks; and what ends them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect
from proton import Message as ProtonMessage

from postroom.client import AcknowledgeMode, Message, XaFlag, Xid
from postroom.client.sync import Connection, ConnectionFactory
from tests.server.console.console_pages import Console, axe_findings, confirm, expect_error, root_of
from tests.server.management_peer import QUEUE

pytestmark = pytest.mark.sockets


@contextmanager
def client(console: Console) -> Iterator[Connection]:
    url = console.served.broker.url.replace("amqp://", "amqp://root:root@")
    with ConnectionFactory(url).create_connection() as connection:
        yield connection


@pytest.fixture
def held(console: Console, queue: str) -> str:
    with root_of(console.served) as root:
        assert root.status("CREATE", {}, type=QUEUE, name=queue) == 201
        root.connection.create_sender(queue).send(ProtonMessage(id="m", body="b", durable=True))
    return queue


def test_a_local_transaction_is_rolled_back(console: Console, page: Page, held: str) -> None:
    with client(console) as connection:
        session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer(held).send(Message("one"))
        page.goto("/transactions?q=local")
        page.get_by_role("row").filter(has_text=connection.client_id).get_by_role("link").click()
        assert axe_findings(page) == []
        page.get_by_role("link", name="Roll back").click()
        expect(page.get_by_role("dialog")).to_contain_text("1 message put in it are gone")
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.get_by_role("status")).to_contain_text("Rolled back")
        expect(page.get_by_role("row").filter(has_text=connection.client_id)).to_have_count(0)


@pytest.mark.parametrize(("action", "state"), [("Commit", "Committed"), ("Roll back", "Rolled back")])
def test_a_prepared_branch_is_decided_and_forgotten(
    console: Console, page: Page, held: str, action: str, state: str
) -> None:
    xid = Xid(1, held.encode()[:60], b"b")
    with client(console) as connection:
        session = connection.create_xa_session()
        resource = session.xa_resource
        resource.start(xid, XaFlag.TMNOFLAGS)
        session.create_producer(held).send(Message("two"))
        resource.end(xid, XaFlag.TMSUCCESS)
        resource.prepare(xid)
        page.goto(f"/transactions/xa-branch/{xid}")
        assert axe_findings(page) == []
        confirm(page, action)
        expect(page.get_by_role("status")).to_contain_text(f"{state} heuristically")
        page.goto(f"/transactions/xa-branch/{xid}")
        expect(page.get_by_role("link", name=action, exact=True)).to_have_count(0)
        confirm(page, "Forget")
        expect(page.get_by_role("status")).to_contain_text("Forgotten")


def test_what_a_browse_lock_holds_is_given_back(
    console: Console, page: Page, viewer: Page, held: str
) -> None:
    with root_of(console.served) as root:
        locked = root.request("BROWSE-AND-LOCK", {}, type="postroom.message", name=held)
        assert locked.properties["statusCode"] == 200
        page.goto(f"/transactions?q={held}")
        page.get_by_role("row").filter(has_text=held).get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Browse lock")
        assert axe_findings(page) == []
        expect_error(viewer, "403")
        answer = viewer.goto(f"{page.url}?act=end")
        assert answer is not None
        assert answer.status == 403
        assert root.request("READ", type=QUEUE, name=held).body["messages_browse_locked"] == 1
        confirm(page, "Give back")
        expect(page.get_by_role("status")).to_have_text("Given back: 1 message.")
        assert root.request("READ", type=QUEUE, name=held).body["messages_browse_locked"] == 0
