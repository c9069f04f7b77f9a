"""Topics, subscriptions, connections and channels."""

import pytest
from playwright.sync_api import Page, expect
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection

from postroom.client.sync import ConnectionFactory
from tests.server.console.console_pages import Console, axe_findings, confirm, expect_error, root_of

pytestmark = pytest.mark.sockets


def test_a_topic_and_its_subscription(console: Console, page: Page, viewer: Page, queue: str) -> None:
    page.goto("/topics")
    confirm(page, "New topic", name=queue)
    expect(page.get_by_role("status")).to_have_text(f"Created: topic {queue}.")
    url = console.served.broker.url.replace("amqp://", "amqp://root:root@")
    with ConnectionFactory(url, client_id="shop").create_connection() as connection:
        session = connection.create_session()
        session.create_durable_consumer(queue, "prices").close()
    with root_of(console.served) as root:
        root.connection.create_sender(queue).send(ProtonMessage(body="5", durable=True))
    page.reload()
    viewer.goto(page.url)
    expect_error(viewer, "403")
    confirm(viewer, "Publish a message", body="refused")
    expect(viewer.get_by_role("alert")).to_contain_text("has no right")
    page.get_by_role("link", name="Publish a message").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"1 subscription to {queue} now")
    page.get_by_role("link", name="Cancel").click()
    confirm(page, "Publish a message", body="6")
    expect(page.get_by_role("status")).to_have_text("Published: 1 message, to 1 subscription.")
    page.get_by_role("link", name=f"{queue}::shop/prices").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{queue}::shop/prices")
    assert axe_findings(page) == []
    viewer.goto(page.url)
    expect_error(viewer, "403")
    confirm(viewer, "Purge")
    expect(viewer.get_by_role("alert")).to_contain_text("has no right")
    confirm(page, "Purge")
    expect(page.get_by_role("status")).to_have_text("Purged: 2 messages deleted.")
    confirm(page, "Pause", switch="consumption")
    expect(page.get_by_text("Consumption is paused.")).to_be_visible()
    confirm(page, "Delete subscription")
    expect(page.get_by_role("status")).to_have_text(f"Deleted: subscription {queue}::shop/prices.")
    page.goto(f"/topics/{queue}")
    assert axe_findings(page) == []
    page.get_by_role("link", name="Delete topic").click()
    expect(page.get_by_role("dialog")).to_contain_text("the 0 subscriptions to it alone with 0 messages")
    page.get_by_role("dialog").get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("status")).to_contain_text(f"Deleted: topic {queue}")


def test_a_connection_is_closed(console: Console, page: Page, viewer: Page, queue: str) -> None:
    url = console.served.broker.url
    connection = BlockingConnection(url, timeout=15, user="ann", password="ann")
    container = connection.container.container_id
    try:
        page.goto(f"/connections?q={container}")
        page.get_by_role("row").filter(has_text=container).get_by_role("link").click()
        expect(page.get_by_role("main")).to_contain_text(container)
        assert axe_findings(page) == []
        viewer.goto(page.url)
        expect_error(viewer, "403")
        confirm(viewer, "Close")
        expect(viewer.get_by_role("alert")).to_contain_text("has no right")
        confirm(page, "Close")
        expect(page.get_by_role("status")).to_contain_text("Closed: the connection from")
        with pytest.raises(Exception, match=r"closed by 'root'|Connection"):
            connection.create_sender(queue).send(ProtonMessage())
    finally:
        connection.close()


def test_a_channel_is_stopped_and_started(console: Console, page: Page, viewer: Page, queue: str) -> None:
    settings = {"channel_type": "sender", "connection": "amqp://127.0.0.1:1", "transmission_queue": queue}
    with root_of(console.served) as root:
        assert root.status("CREATE", {"usage": "transmission"}, type="postroom.queue", name=queue) == 201
        made = root.request("CREATE", settings, type="postroom.channel", name="TO.NOWHERE")
        assert made.properties["statusCode"] == 201, made.properties
    page.goto("/channels")
    page.get_by_role("link", name="TO.NOWHERE").click()
    confirm(page, "Start")
    expect(page.get_by_role("status")).to_contain_text("Started: TO.NOWHERE")
    expect(page.locator("#figures")).to_contain_text("retrying")
    assert axe_findings(page) == []
    expect_error(page, "502")
    confirm(page, "Ping")
    expect(page.get_by_role("alert")).to_contain_text("127.0.0.1:1")
    viewer.goto("/channels/TO.NOWHERE")
    expect_error(viewer, "403")
    confirm(viewer, "Stop")
    expect(viewer.get_by_role("alert")).to_contain_text("has no right")
    page.goto("/channels/TO.NOWHERE")
    confirm(page, "Stop", mode="force")
    expect(page.get_by_role("status")).to_contain_text("Stopping: TO.NOWHERE")
    page.goto("/channels/TO.NOWHERE")
    confirm(page, "Reset", sequence="7")
    expect(page.get_by_role("status")).to_have_text("Reset: TO.NOWHERE goes on with 7.")
    page.get_by_role("link", name="Resolve").click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing is in doubt")
    page.goto("/channels/TO.NOWHERE")
    confirm(page, "Delete")
    expect(page.get_by_role("status")).to_have_text("Deleted: channel TO.NOWHERE.")
