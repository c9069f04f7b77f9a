"""A browser on the console: what a page may do, and what a test does with it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page
from proton.utils import BlockingConnection

from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.passwords import MIN_ITERATIONS, hash_password
from postroom.server.configuration.roles import RoleConfig
from tests.server.http_client import Served, get, serving
from tests.server.management_peer import Manager

ROOT: Final = Path(__file__).parents[3]
TIMEOUT_MS: Final = 15_000
AXE: Final = ROOT / "tools/assets/node_modules/axe-core/axe.min.js"
SERIOUS: Final = ("serious", "critical")

USERS: Final = {name: hash_password(name, iterations=MIN_ITERATIONS) for name in ("root", "ann", "eve")}
ROLES: Final = [
    RoleConfig("administrator", members=["root"]),
    RoleConfig("viewer", members=["ann"], grants=["inquire, browse on #", "inquire on queue manager"]),
]
"""root may do everything, ann see everything and change nothing, eve nothing at all."""


def with_users(folder: Path, address: str = "127.0.0.1:0") -> AbstractContextManager[Served]:
    """A broker with root, ann and eve."""
    return serving(folder, HttpConfig(address=address, max_requests_per_s=1000), users=USERS, role=ROLES)


@contextmanager
def root_of(served: Served) -> Iterator[Manager]:
    """The management node, for its administrator."""
    url = served.broker.url
    with closing(BlockingConnection(url, timeout=15, user="root", password="root")) as connection:
        yield Manager(connection)


@dataclass
class Faults:
    """What no page may do: errors on its console, breaches of its policy, requests elsewhere."""

    origin: str
    found: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of texts that a test brings about itself."""

    def watch(self, page: Page) -> None:
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("request", lambda request: self._check_origin(request.url))

    def check(self) -> None:
        assert not self.found

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in self.expected):
            self.found.append(f"{kind}: {text}")

    def _check_origin(self, url: str) -> None:
        split = urlsplit(url)
        if (
            split.scheme not in ("data", "about", "blob")
            and f"{split.scheme}://{split.netloc}" != self.origin
        ):
            self.found.append(f"a request to {url}")


class Console:
    """The console of one broker, in a browser."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.browser: Final = browser
        self.served: Final = served
        self.url: Final = served.url
        self._cookies: Final[dict[str, str]] = {}

    @contextmanager
    def page(self, user: str = "root", **options: Any) -> Iterator[Page]:
        """A page of a user who has signed in ("": nobody); fails at its end for what no page may do."""
        context = self.browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(TIMEOUT_MS)
        faults = Faults(self.url)
        try:
            if user:
                self._sign_in(context, user)
            page = context.new_page()
            faults.watch(page)
            page.faults = faults  # type: ignore[attr-defined]
            yield page
        finally:
            context.close()
        faults.check()

    def _sign_in(self, context: BrowserContext, user: str) -> None:
        if user not in self._cookies:
            body = json.dumps({"user": user, "password": user}).encode()
            answer = get(
                self.url, "/api/v1/session", method="POST", body=body, content_type="application/json"
            )
            assert answer.status == 201, answer.body
            self._cookies[user] = answer.headers["set-cookie"].partition(";")[0]
        name, _, value = self._cookies[user].partition("=")
        context.add_cookies([{"name": name, "value": value, "url": self.url}])


def expect_error(page: Page, text: str) -> None:
    """This test brings it about that the browser's console has that."""
    page.faults.expected.append(text)  # type: ignore[attr-defined]


def confirm(page: Page, action: str, **values: str) -> None:
    """Open an action's dialog, fill its form in, and carry it out."""
    page.wait_for_load_state()  # before, the link leads to a page
    page.get_by_role("link", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    for name, value in values.items():
        control = dialog.locator(f"[name={name}]")
        if control.evaluate("element => element.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
    dialog.get_by_role("button", name=action, exact=True).click()


def axe_findings(page: Page) -> list[str]:
    """What axe-core finds wrong with the page, of what matters."""
    if not AXE.exists():
        subprocess.run([ROOT / "tools/assets.sh", "--install"], check=True, stdout=subprocess.DEVNULL)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]
