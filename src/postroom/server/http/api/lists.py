"""Lists: pages of the things of a type, filtered and sorted where that is wanted."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from postroom.server.http.api.arguments import PageOf
from postroom.server.http.api.operation import PREFIX, Call, CarryOut, attributes
from postroom.server.http.errors import Refusal
from postroom.server.management.request import Attributes


def listed(path: str, entity_type: str, row: Any) -> CarryOut:
    """Gives a page of the things of a type."""

    async def carry_out(call: Call) -> Any:
        page: PageOf = call.query
        gateway = call.shared.gateway
        if page.prefix or page.contains or page.state or page.sort:
            rows = _chosen(await gateway.all_rows(call.requester, entity_type), page, row)
            total, rows = len(rows), rows[page.offset : page.offset + page.limit]
        else:
            rows, total = await gateway.query(call.requester, entity_type, page.offset, page.limit)
        return paged([attributes(each, row) for each in rows], total, f"{PREFIX}{path}", page)

    return carry_out


def paged(items: list[Any], total: int, path: str, page: Any) -> dict[str, Any]:
    """A page, and where the next one is."""
    found = {"items": items, "total": total, "offset": page.offset, "limit": page.limit, "next": None}
    end = page.offset + len(items)
    if items and end < total:
        fields = {name: getattr(page, name) for name in type(page).__struct_fields__}
        query = {name: _text(value) for name, value in fields.items() if value or name == "limit"}
        found["next"] = f"{path}?{urlencode({**query, 'offset': end}, doseq=True)}"
    return found


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _chosen(rows: Iterable[Attributes], page: PageOf, row: Any) -> list[Attributes]:
    contains = page.contains.casefold()
    found = [
        each
        for each in rows
        if each["name"].startswith(page.prefix)
        and contains in each["name"].casefold()
        and page.state in ("", each.get("state"))
    ]
    key = page.sort.removeprefix("-")
    if not key:
        return found
    if key not in row.__struct_fields__:
        raise Refusal(400, "bad-query", f"sort: there is no attribute {key!r:.100}")
    return sorted(found, key=lambda each: _order(each.get(key)), reverse=page.sort.startswith("-"))


def _order(value: Any) -> tuple[bool, Any]:
    """What is unknown comes first; lists go by their length."""
    if isinstance(value, list | dict):
        return True, len(value)
    return value is not None, value if value is not None else 0
