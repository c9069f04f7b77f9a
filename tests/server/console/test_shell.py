"""What all pages have: signing in and out, theme, headers, files; a broker that goes and comes back."""

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from postroom.server.configuration.http import HttpConfig
from postroom.server.console.pages import PAGES
from postroom.server.console.pages.accounts import Report
from postroom.server.http.tokens import TOKENS_NAME
from postroom.spark.report.style import DARK, LIGHT
from tests.server.console.console_pages import Console, axe_findings, expect_error, with_users
from tests.server.http_client import Served, get, serving

pytestmark = pytest.mark.sockets

PHONE = {"width": 390, "height": 844}
BROWSER = {"accept": "text/html"}
WIDE = {"width": 1280, "height": 900}
PATHS = (
    *(page.path for page in PAGES if "{" not in page.path and not isinstance(page, Report)),
    "/queues?act=create",
    "/users/ann",
    "/roles/viewer",
)


def sign_in(page: Page, user: str, password: str = "") -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password or user)
    page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_comes_to_the_page_that_was_wanted_and_signs_out(console: Console) -> None:
    with console.page("") as page:
        expect_error(page, "401")
        page.goto("/queues?q=x&sort=-consumers")
        expect(page).to_have_url(re.compile("/sign-in"))
        assert axe_findings(page) == []
        sign_in(page, "root", "wrong")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_label("User")).to_have_value("root")
        sign_in(page, "root")
        expect(page).to_have_url(f"{console.url}/queues?q=x&sort=-consumers")
        page.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(f"{console.url}/sign-in")
        page.goto("/queues")
        expect(page).to_have_url(re.compile("/sign-in"))


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/\nx"]
)
def test_signing_in_leads_nowhere_else(served: Served, target: str) -> None:
    body = urlencode({"user": "root", "password": "root", "next": target}).encode()
    kind = "application/x-www-form-urlencoded"
    answer = get(served.url, "/sign-in", method="POST", body=body, content_type=kind)
    assert (answer.status, answer.headers["location"]) == (303, "/")


def test_a_form_without_its_token_does_nothing(console: Console) -> None:
    with console.page() as page:
        page.goto("/queues")
        answer = page.request.post(
            "/queues?act=create", form={"name": "forged"}, headers={"origin": console.url}
        )
        assert answer.status == 403
        assert not console.served.broker.call(lambda broker: "forged" in broker.manager.queues)


@pytest.mark.sample(1)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("scheme", "size"), [("light", PHONE), ("dark", WIDE)])
def test_every_page_is_accessible_and_fits(
    console: Console, path: str, scheme: str, size: dict[str, int]
) -> None:
    with console.page(viewport=size, color_scheme=scheme) as page:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert axe_findings(page) == []


def test_the_navigation_is_a_menu_on_a_phone(console: Console) -> None:
    with console.page(viewport=PHONE) as page:
        page.goto("/")
        page.locator("summary").click()
        page.get_by_role("navigation", name="Menu").get_by_role("link", name="Queues").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_the_theme_is_the_systems_until_another_is_chosen(console: Console) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with console.page(color_scheme="dark") as page:
        page.goto("/")
        dark = page.evaluate(background)
        page.get_by_role("button", name="Light").click()
        light = page.evaluate(background)
        assert light != dark
        page.goto("/queues")
        assert page.evaluate(background) == light
        expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_colours_are_those_of_the_report(console: Console) -> None:
    with console.page() as page:
        for scheme, colors in (("light", LIGHT), ("dark", DARK)):
            page.goto("/")
            page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
            read = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name)"
            assert {name: page.evaluate(read, name) for name in colors} == colors


def test_headers_of_pages_and_files(served: Served) -> None:
    page = get(served.url, "/sign-in")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    path = re.search(r'href="(/static/[0-9a-f]{12}/console\.css)"', page.body.decode())
    assert path is not None
    style = get(served.url, path[1])
    assert "immutable" in style.headers["cache-control"]
    assert style.headers["content-type"].startswith("text/css")
    assert get(served.url, path[1], accept_encoding="gzip").headers["content-encoding"] == "gzip"
    for lost in ("/static/000000000000/console.css", "/static/", "/static/../routes.py", "/static/%2e%2e/x"):
        assert get(served.url, lost).status == 404


def test_paths_that_there_are_not(served: Served) -> None:
    page = get(served.url, "/nothing", **BROWSER)
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert get(served.url, "/nothing").json()["error"] == "not-found"


def test_nobody_signs_in_where_there_are_no_users(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served, Console(browser, served).page("") as page:
        page.goto("/sign-in")
        expect(page).to_have_url(f"{served.url}/")
        expect(page.get_by_text("anonymous")).to_be_visible()
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


def test_a_page_notices_that_the_broker_stops_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    with with_users(tmp_path / "data") as first:
        address = first.url.removeprefix("http://")
        console = Console(browser, first)
        context = console.page()
        page = context.__enter__()
        expect_error(page, "net::ERR")
        expect_error(page, "503")
        page.goto("/")
        expect(page.locator("#away")).to_be_hidden()
    expect(page.locator("#away")).to_contain_text("The broker doesn't answer", timeout=15_000)
    (tmp_path / "data" / TOKENS_NAME).unlink()
    with with_users(tmp_path / "data", address):
        # Its session has ended with the broker: the page asks for another.
        expect(page).to_have_url(re.compile("/sign-in"), timeout=15_000)
        sign_in(page, "root")
        expect(page.get_by_role("heading", level=1)).to_contain_text("postroom")
        context.__exit__(None, None, None)


def test_a_session_that_ends_takes_its_open_pages_along(console: Console) -> None:
    with console.page("") as page:
        page.goto("/")
        sign_in(page, "ann")
        expect(page.locator("#figures")).to_be_visible()
        other = page.context.new_page()
        other.goto("/queues")
        other.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(re.compile("/sign-in"), timeout=15_000)


def test_the_overview_has_what_matters(page: Page, console: Console) -> None:
    page.goto("/")
    expect(page.get_by_text("No alarms")).to_be_visible()
    for heading in ("Where messages are", "Ledger", "Disk", "Messages per second", "Messages by state"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(2)


def test_without_the_console_its_paths_are_nobodys(tmp_path: Path) -> None:
    with serving(tmp_path / "data", HttpConfig(address="127.0.0.1:0", console=False)) as served:
        for path in ("/", "/queues", "/sign-in"):
            assert get(served.url, path, **BROWSER).json()["error"] == "not-found"
