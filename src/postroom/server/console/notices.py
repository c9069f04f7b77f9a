"""What an action has done, for the page that comes next: kept here, so that no URL makes a page say it."""

import secrets
from collections import OrderedDict
from typing import Final, NamedTuple

MAX_NOTICES: Final = 1000
"""Kept at a time; one more drops the oldest."""


class Notice(NamedTuple):
    """One line for the user."""

    text: str
    csrf_token: str
    """Of the session that may read it."""


class Notices:
    """Of all sessions; each is shown once."""

    def __init__(self) -> None:
        self._notices: Final[OrderedDict[str, Notice]] = OrderedDict()

    def keep(self, text: str, csrf_token: str) -> str:
        """Its key."""
        key = secrets.token_urlsafe(8)
        self._notices[key] = Notice(text, csrf_token)
        if len(self._notices) > MAX_NOTICES:
            self._notices.popitem(last=False)
        return key

    def take(self, key: str, csrf_token: str) -> str:
        """The text, once; "" where that session has none."""
        found = self._notices.get(key)
        if found is None or found.csrf_token != csrf_token:
            return ""
        del self._notices[key]
        return found.text
