"""The pages whose commands are run word by word."""

from tests.docs.walking import ROOT

ELSEWHERE = {"index", "asyncio-worker"}
"""The worker's page, whose program runs beside its commands, is played by tests/clients/test_tutorial.py."""


TUTORIALS = sorted(page for page in (ROOT / "docs" / "tutorial").glob("*.md") if page.stem not in ELSEWHERE)


PAGES = [ROOT / "README.md", *TUTORIALS]
