"""A browser for the tests of the folder, and a broker with users for those of a module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tools.peers.chromium import launched

from tests.server.console.console_pages import Console, with_users
from tests.server.http_client import Served


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """While it is there its library's event loop counts as running: no longer than this folder's tests."""
    with sync_playwright() as playwright:
        opened = launched(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with with_users(tmp_path_factory.mktemp("console") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def console(browser: Browser, served: Served) -> Console:
    return Console(browser, served)


@pytest.fixture
def page(console: Console) -> Iterator[Page]:
    """A page of root, who may do everything."""
    with console.page() as opened:
        yield opened


@pytest.fixture
def viewer(console: Console) -> Iterator[Page]:
    """A page of ann, who may see everything and change nothing."""
    with console.page("ann") as opened:
        yield opened
