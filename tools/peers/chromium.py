"""Debian's Chromium, driven by Playwright: the browser that the console is tried with.

Its build without a window takes half the processor time of the whole browser with ``--headless``.
"""

from typing import Final

from playwright.sync_api import Browser, Playwright

CHROMIUM: Final = "/usr/bin/chromium-headless-shell"
OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small in containers: pages crash where it is full
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def launched(playwright: Playwright) -> Browser:
    """A new one, without a window; it asks nothing of the network by itself."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
