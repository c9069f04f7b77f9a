"""The pages on frameworks and languages: what their programs leave on the queues and in the ledger."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from postroom.client import ConnectionFactory, Message
from tests.clients.broker import BrokerProcess
from tests.clients.driver import HERE, make_ready
from tests.clients.pages import Page, fates, files_of

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
WAIT_S = 30


def received(broker: BrokerProcess, queue: str, count: int) -> list[Message]:
    """The next messages of a queue, waited for."""
    with ConnectionFactory(broker.url).create_context() as context:
        consumer = context.create_consumer(queue)
        messages = [consumer.receive(WAIT_S) for _ in range(count)]
    assert None not in messages
    return [message for message in messages if message is not None]


def send_bytes(broker: BrokerProcess) -> None:
    """An order that is no text."""
    with ConnectionFactory(broker.url).create_context() as context:
        context.create_producer().send("orders", b"\xff")


def check_failed(dead: Message) -> None:
    """One whose handler failed each of its four times."""
    assert dead.body == "rotten pears"
    assert dead.annotations["x-opt-dead-letter-queue"] == "orders"
    assert dead.annotations["x-opt-dead-letter-description"] == "4 failures, limit 3"


def check_refused(dead: Message) -> None:
    """One that was rejected, with the reason that the page gives."""
    assert dead.body == b"\xff"
    assert dead.annotations["x-opt-dead-letter-reason"] == "amqp:decode-error"
    assert dead.annotations["x-opt-dead-letter-description"] == "an order is a text"


def test_spring_boot(own_broker: BrokerProcess, tmp_path: Path) -> None:
    make_ready("spring_boot")
    page = Page("use-with-spring-boot.md", own_broker, tmp_path)
    page.run_commands()
    page.write_files()
    libraries = f"{HERE}/spring-boot/target/lib/*"
    page.run(
        ["javac", "-parameters", "-d", "classes", "-cp", libraries, *map(str, tmp_path.glob("src/**/*.java"))]
    )
    application = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"classes:src/main/resources:{libraries}"]
    application += ["com.example.orders.OrdersApplication", "apples", "rotten pears"]
    with page.running(application):
        assert [invoice.body for invoice in received(own_broker, "invoices", 1)] == ["invoice for apples"]
        check_failed(*received(own_broker, "orders.dead", 1))
    own_broker.stop()
    assert fates(own_broker) == {
        "orders": {"consumed": 1, "dead_lettered": 1},
        "orders.dead": {"consumed": 1},
        "invoices": {"consumed": 1},
    }


def test_spring_boot_of_the_page_is_the_one_that_is_fetched() -> None:
    page = (HERE.parent.parent / "docs" / "howto" / "use-with-spring-boot.md").read_text()
    assert files_of(page)["pom.xml"] == (HERE / "spring-boot" / "pom.xml").read_text()


def check_worker(page: Page, worker: list[str], shop: list[str]) -> None:
    """Of three orders one is done, one fails four times, and one is refused."""
    page.run([*shop, "apples", "rotten pears"])
    send_bytes(page.broker)
    with page.running(worker) as process:
        assert [invoice.body for invoice in received(page.broker, "invoices", 1)] == ["invoice for apples"]
        dead = received(page.broker, "orders.dead", 2)
        check_failed(*(each for each in dead if each.body != b"\xff"))
        check_refused(*(each for each in dead if each.body == b"\xff"))
    assert process.returncode == 0
    page.broker.stop()
    assert fates(page.broker) == {
        "orders": {"consumed": 1, "dead_lettered": 2},
        "orders.dead": {"consumed": 2},
        "invoices": {"consumed": 1},
    }


def test_node(own_broker: BrokerProcess, tmp_path: Path) -> None:
    make_ready("rhea")
    page = Page("use-with-node.md", own_broker, tmp_path)
    page.environment["NODE_PATH"] = str(HERE / "rhea" / "node_modules")
    page.run_commands()
    page.write_files()
    check_worker(page, ["node", "worker.js"], ["node", "shop.js"])


def test_go(own_broker: BrokerProcess, tmp_path: Path) -> None:
    make_ready("go_amqp")
    page = Page("use-with-go.md", own_broker, tmp_path)
    page.run_commands()
    page.write_files()
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go-amqp" / name, tmp_path)
    page.run(["go", "build", "-o", "orders", "."])
    check_worker(page, ["./orders"], ["./orders"])


# --- FastAPI

FAILURES = {"main": "4 failures, limit 3; the last: ValueError: ", "with_app": "ValueError: "}
"""The description of an order that fails each time, before the exception's text."""


def fetch(url: str, body: object = None) -> str:
    """GET, or POST of JSON; the answer's body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("module", FAILURES)
def test_fastapi(module: str, own_broker: BrokerProcess, tmp_path: Path) -> None:
    page = Page("use-with-fastapi.md", own_broker, tmp_path)
    page.run_commands()
    page.write_files()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = [sys.executable, "-m", "uvicorn", f"{module}:api", "--fd", str(listening.fileno())]
        with page.running(server, listening.fileno()):
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            fetch(f"{url}/orders", {"id": 1, "item": "apples"})
            fetch(f"{url}/orders", {"id": 2, "item": "rotten pears"})
            with pytest.raises(HTTPError, match="422"):
                fetch(f"{url}/orders", {"id": 3})
            with ConnectionFactory(own_broker.url).create_context() as context:
                context.create_producer().send("orders", "apples, please")
            assert [invoice.body for invoice in received(own_broker, "invoices", 1)] == ["invoice for apples"]
            dead = {str(letter.body): letter.annotations for letter in received(own_broker, "orders.dead", 2)}
            if module == "with_app":
                assert fetch(f"{url}/health") == '"receiving"'
    description = dead['{"id":2,"item":"rotten pears"}']["x-opt-dead-letter-description"]
    assert description == f"{FAILURES[module]}who would buy rotten pears?"
    assert "Invalid JSON" in str(dead["apples, please"]["x-opt-dead-letter-description"])
    own_broker.stop()
    assert fates(own_broker) == {
        "orders": {"consumed": 1, "dead_lettered": 2},
        "orders.dead": {"consumed": 2},
        "invoices": {"consumed": 1},
    }


# --- Django


class Django:
    """The project of the page, and its server."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.environment["DJANGO_SETTINGS_MODULE"] = "shop.settings"
        page.run_commands()
        page.write_files()
        self.manage("migrate", "--run-syncdb")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "django", *arguments]

    def manage(self, *arguments: str) -> str:
        return self.page.run(self.command(*arguments))

    def rows(self, expression: str) -> object:
        """What the models say."""
        program = f"import json; from shop.models import *; print(json.dumps({expression}))"
        return json.loads(self.manage("shell", "--no-imports", "-c", program))

    def order(self, listening: socket.socket, path: str, item: str) -> int:
        """POST an order; the status."""
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/{path}"
        data = urllib.parse.urlencode({"item": item}).encode()
        try:
            with urllib.request.urlopen(url, data, timeout=WAIT_S) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code


def test_django(own_broker: BrokerProcess, tmp_path: Path) -> None:
    """What is rolled back is never sent; what on_commit loses while the broker is away, the outbox keeps."""
    django = Django(Page("use-with-django.md", own_broker, tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = [sys.executable, "-m", "uvicorn", "shop.asgi:application", "--fd", str(listening.fileno())]
        with django.page.running(server, listening.fileno()):
            assert django.order(listening, "orders", "apples") == 202
            assert django.order(listening, "orders", "an item whose name is far too long") == 422
            own_broker.stop()
            assert django.order(listening, "orders", "pears") == 202
            assert django.order(listening, "sure-orders", "plums") == 202
            own_broker.start()
            assert django.order(listening, "orders", "figs") == 202
    django.manage("send_outgoing")
    assert django.rows("[Outgoing.objects.count(), Order.objects.count()]") == [0, 4]
    with ConnectionFactory(own_broker.url).create_context() as context:
        context.create_producer().send("orders", "4711")  # an order that isn't there
    with django.page.running(django.command("pack_orders")) as worker:
        (dead,) = received(own_broker, "orders.dead", 1)
    assert worker.returncode == 0
    assert dead.annotations["x-opt-dead-letter-description"] == (
        "4 failures, limit 3; the last: DoesNotExist: Order matching query does not exist."
    )
    packed = django.rows("sorted(Order.objects.filter(is_packed=True).values_list('item', flat=True))")
    assert packed == ["apples", "figs", "plums"]
    own_broker.stop()
    assert fates(own_broker) == {
        "orders": {"consumed": 3, "dead_lettered": 1},
        "orders.dead": {"consumed": 1},
    }


def test_the_outbox_of_django_sends_nothing_twice(own_broker: BrokerProcess, tmp_path: Path) -> None:
    django = Django(Page("use-with-django.md", own_broker, tmp_path))
    again = "Outgoing.objects.create(pk=7, queue='orders', text='7').pk"
    for _ in range(2):
        assert django.rows(again) == 7  # as after a crash between the message and the row's end
        django.manage("send_outgoing")
    own_broker.stop()
    assert fates(own_broker) == {"orders": {"available": 1}}
