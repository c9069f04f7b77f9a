"""Accounts: whether every message is accounted for, as the last audit has found, and how fresh tables are.

Audits and the pipeline run elsewhere, with Spark; they put what they find into a folder: ``audit.json``
(``postroom audit --out``), ``report.html`` (``postroom report --out``) and ``pipeline.json`` (``postroom
pipeline status --json``). It is shown as it is there.
"""

import json
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.model.rights import Right
from postroom.server.console import security_headers
from postroom.server.console.page import Page
from postroom.server.console.visit import Visit
from postroom.server.http.errors import Refusal

AUDIT, REPORT, PIPELINE = "audit.json", "report.html", "pipeline.json"
MAX_BYTES: Final = 64 << 20
"""Of a file that is read."""
MAX_VIOLATIONS: Final = 100
"""Shown."""


class Found:
    """One of the files: what it has, when it was written, or why it can't be shown."""

    def __init__(self, file: Path) -> None:
        self.values: dict[str, Any] = {}
        self.written_us = 0
        self.problem = ""
        try:
            status = file.stat()
            self.written_us = status.st_mtime_ns // 1000
            if status.st_size > MAX_BYTES:
                self.problem = f"{file.name} is larger than {MAX_BYTES >> 20} MiB"
                return
            values = json.loads(file.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self.problem = f"{file.name} can't be read: {error}"
            return
        if isinstance(values, dict):
            self.values = values
        else:
            self.problem = f"{file.name} is no object in JSON"


def accounts_of(folder: Path) -> dict[str, Any]:
    """What the page shows of a folder."""
    audit, pipeline = Found(folder / AUDIT), Found(folder / PIPELINE)
    cuts = _rows(audit, "cuts", ("name", "ledger_id", "first_position", "position"))
    managers = _rows(audit, "managers", ("ledger_id",))
    lags = [
        {"table": table["name"], **at}
        for table in _rows(pipeline, "tables", ("name", "ledgers"))
        for at in table["ledgers"]
        if isinstance(at, dict) and {"ledger_id", "position", "lag"} <= at.keys()
    ]
    return {
        "audit": audit,
        "cuts": cuts,
        "managers": managers,
        "violations": _rows(audit, "violations", ("rule",))[:MAX_VIOLATIONS],
        "unproven": _rows(audit, "unproven", ("why",))[:MAX_VIOLATIONS],
        "pipeline": pipeline,
        "lags": lags,
        "has_report": (folder / REPORT).is_file(),
    }


def _rows(found: Found, key: str, needed: tuple[str, ...]) -> list[dict[str, Any]]:
    """Those of a list that have what is shown of them: the file may be of another version."""
    rows = found.values.get(key, [])
    if not isinstance(rows, list):
        return []
    return [row for row in rows if isinstance(row, dict) and row.keys() >= set(needed)]


def _folder(visit: Visit) -> Path | None:
    name = visit.console.shared.config.accounts
    return Path(name) if name else None


class Accounts(Page, path="/accounts"):
    """The last audit and the pipeline's freshness."""

    async def show(self, visit: Visit) -> Response:
        await visit.console.shared.gateway.require(visit.requester, Right.READ_LEDGER, "READ", self.path)
        folder = _folder(visit)
        if folder is None:
            return visit.page("accounts.html", folder="")
        broker = await visit.manage("READ", BROKER_TYPE, BROKER_NAME)
        shown = await run_in_threadpool(accounts_of, folder)
        return visit.page(
            "accounts.html", folder=str(folder), durable_through=broker["durable_through"], **shown
        )


class Report(Page, path="/accounts/report"):
    """The report, in a place of its own: its script sees nothing of the console's session."""

    async def show(self, visit: Visit) -> Response:
        await visit.console.shared.gateway.require(visit.requester, Right.READ_LEDGER, "READ", self.path)
        folder = _folder(visit)
        if folder is None or not (folder / REPORT).is_file():
            raise Refusal(404, "not-found", f"there is no {REPORT} in the folder of accounts")
        return FileResponse(folder / REPORT, headers=security_headers.REPORT, media_type="text/html")
