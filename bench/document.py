"""The tables that the documentation shows: each section is of the last run that has measured it."""

from __future__ import annotations

import re

FAILED = "### Failed"


def merged(page: str, measured: str) -> str:
    """The page with the sections measured now in the place of those with the same title; others stay, but for
    what had failed then."""
    sections = _sections(page)
    sections.pop(FAILED, None)
    return "\n".join((sections | _sections(measured)).values())


def _sections(text: str) -> dict[str, str]:
    """By their first line; what has no title is one with the name that its first line is."""
    parts = [part.strip("\n") + "\n" for part in re.split(r"(?m)^(?=### )", text) if part.strip()]
    return {part.partition("\n")[0]: part for part in parts}
