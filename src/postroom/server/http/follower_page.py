"""What a member that follows shows a browser: how it is, who is active, and a link there.

Nobody signs in at a follower, and nothing of HTTP's libraries is needed: the page is made of text alone.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final
from urllib.parse import urlsplit

from postroom.server.status import ACTIVE

CONTENT_TYPE: Final = "text/html; charset=utf-8"
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none';"
    " frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
REFRESH_S: Final = 5
_SCHEMES: Final = ("https", "http")
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;"
    "padding:0 1rem}dt{font-weight:600;margin-top:.75rem}dd{margin:0}"
)


def console_among(urls: Iterable[str]) -> str:
    """The first of a member's URLs that a browser opens; "": it has none."""
    for url in urls:
        try:
            parts = urlsplit(url)
        except ValueError:  # of what is no address
            continue
        if parts.scheme in _SCHEMES and parts.hostname:
            return url
    return ""


def follower_page(report: Mapping[str, Any], health: Mapping[str, Any], is_open: bool) -> bytes:
    """HTML; ``health``: the body of the probe of readiness; not ``is_open``: only that it isn't active."""
    state = escape(str(report["state"]))
    title, when = "This is not the active member", f"It is {state}, and serves them once it is active"
    if report["state"] == ACTIVE:
        title, when = "This member has just become active", "It is starting, and serves them in a moment"
    rows = _rows(report, health) if is_open else {}
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{shown}</dd>" for name, shown in rows.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="{REFRESH_S}"><title>{title} · Postroom</title>'
        f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>"
        f"<p>Its console and HTTP API are not here yet. {when}.</p>"
        f"<dl>{listed}</dl></main></body></html>"
    ).encode()


def _rows(report: Mapping[str, Any], health: Mapping[str, Any]) -> dict[str, str]:
    """What is shown, as HTML by its title."""
    rows = {}
    if "active_member" in report:
        rows["This member"] = escape(str(report["member"]))
        rows["Active member"] = _active(report)
        rows["Behind it"] = f"{report['behind']:,} entries, {report['behind_s']} s"
    failures = [
        f"{escape(name)}: {escape(check['what'])}"
        for name, check in health["checks"].items()
        if check["status"] == "fail"
    ]
    rows["Health"] = "<br>".join(failures) or "ready to take over"
    return rows


def _active(report: Mapping[str, Any]) -> str:
    name = escape(str(report["active_member"]))
    if not name:
        return "nobody, as far as was read"
    url = escape(console_among(report["active_urls"]))
    return f'{name}: <a href="{url}">{url}</a>' if url else f"{name}; where its console is isn't known"
