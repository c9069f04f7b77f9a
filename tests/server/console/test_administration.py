"""Users and roles, acts, accounts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from postroom.server.configuration.http import HttpConfig
from tests.server.console.console_pages import ROLES, USERS, Console, axe_findings, confirm, expect_error
from tests.server.http_client import serving

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accounts")


@pytest.fixture(scope="module")
def console(browser: Browser, accounts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    http = HttpConfig(address="127.0.0.1:0", max_requests_per_s=1000, accounts=str(accounts))
    with serving(tmp_path_factory.mktemp("data") / "data", http, users=USERS, role=ROLES) as served:
        yield Console(browser, served)


def test_a_role_and_a_user_from_nothing_to_signing_in(console: Console, page: Page, browser: Browser) -> None:
    page.goto("/roles")
    confirm(page, "New role", name="packer", description="packs")
    expect(page.get_by_role("status")).to_have_text("Created: role packer.")
    confirm(page, "Grant", rights="get, inquire", on="parcels.*")
    expect(page.get_by_role("main")).to_contain_text("get, inquire on parcels.*")
    page.goto("/users")
    confirm(page, "New user", name="tom", roles="packer", password="tom")
    expect(page.get_by_role("main")).to_contain_text("get, inquire on parcels.*")
    assert axe_findings(page) == []
    with console.page("tom") as own:
        own.goto("/queues")
        expect(own.locator(".user")).to_have_text("tom")
        confirm(page, "Lock")
        expect(page.get_by_role("main")).to_contain_text("nobody signs in as this user")
        own.goto("/queues")
        expect(own.get_by_role("heading", name="Sign in")).to_be_visible()
    confirm(page, "Unlock")
    confirm(page, "Set password", password="jerry")
    expect(page.get_by_role("status")).to_have_text("Set: the password of tom.")
    confirm(page, "Delete")
    expect(page.get_by_role("status")).to_have_text("Deleted: tom.")
    page.goto("/roles/packer")
    confirm(page, "Revoke", rights="get", on="parcels.*")
    expect(page.get_by_role("main")).to_contain_text("inquire on parcels.*")
    expect(page.get_by_role("main")).not_to_contain_text("get, inquire")
    confirm(page, "Delete")
    expect(page.get_by_role("status")).to_have_text("Deleted: packer.")


def test_who_can_t_administer_users_changes_none(viewer: Page) -> None:
    expect_error(viewer, "403")
    answer = viewer.goto("/users/eve?act=roles")
    assert answer is not None
    assert answer.status == 403
    viewer.goto("/users")
    confirm(viewer, "New user", name="max", password="max")
    expect(viewer.get_by_role("alert")).to_contain_text("has no right")


def test_acts_are_searched_and_paged(console: Console, page: Page, viewer: Page, queue: str) -> None:
    page.goto("/queues")
    confirm(page, "Create a queue", name=queue)
    expect(page.get_by_role("status")).to_be_visible()
    page.goto(f"/acts?q={queue}")
    row = page.get_by_role("row").filter(has_text="CREATE")
    expect(row).to_contain_text("root")
    expect(row).to_contain_text("201")
    assert axe_findings(page) == []
    page.goto("/acts?q=no-such-act")
    expect(page.get_by_role("main")).to_contain_text("No acts like these")
    expect_error(viewer, "403")
    answer = viewer.goto("/acts")
    assert answer is not None
    assert answer.status == 403


def test_accounts_show_what_audits_have_found(page: Page, accounts: Path) -> None:
    page.goto("/accounts")
    expect(page.get_by_role("main")).to_contain_text("There is no audit.json")
    audit = {
        "verdict": "clean",
        "sentence": "Audit of positions here 1 to 9: every message is accounted for",
        "events": 9,
        "entries": 3,
        "cuts": [{"name": "here", "ledger_id": "x", "first_position": 1, "position": 9}],
        "violations": [],
        "unproven": [],
    }
    (accounts / "audit.json").write_text(json.dumps(audit))
    table = {
        "name": "events",
        "ledgers": [{"ledger_id": "x", "position": 7, "lag": {"events": 2, "seconds": 1.5}}],
    }
    (accounts / "pipeline.json").write_text(json.dumps({"tables": [table]}))
    (accounts / "report.html").write_text(
        "<title>Report</title><p id=p>no</p><script>document.getElementById('p').textContent = 'drawn';"
        "try { document.cookie } catch (e) { document.title = 'apart' }</script>"
    )
    page.goto("/accounts")
    expect(page.get_by_role("main")).to_contain_text("every message is accounted for")
    expect(page.get_by_role("row").filter(has_text="events")).to_contain_text("1.5")
    assert axe_findings(page) == []
    with page.expect_popup() as opened:
        page.get_by_role("link", name="The report with pictures").click()
    expect(opened.value.locator("#p")).to_have_text("drawn")
    assert opened.value.title() == "apart"
    (accounts / "audit.json").write_text("[")
    page.goto("/accounts")
    expect(page.get_by_role("alert")).to_contain_text("audit.json can't be read")
