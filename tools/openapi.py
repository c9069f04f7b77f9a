"""Writes the description of the API into the reference.

``python -m tools.openapi`` rewrites ``docs/reference/openapi.json`` and the table of operations in
``docs/reference/http-operations.inc``; a test compares them.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from postroom.model.entity_types import BRANCH_TYPE, SINK_TYPE, SPARK_SUBSCRIPTION_TYPE
from postroom.server.http.api.openapi import description
from postroom.server.http.api.operation import PREFIX
from postroom.server.http.api.routes import all_operations

REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
UNVERSIONED: Final = "0"
"""In place of the version: the description changes with what it describes alone."""

_XA: Final = "of a transaction manager, which speaks AMQP in the session that works on the branch"
_SINK: Final = "of a task of Spark's sink, whose messages come over the same connection"
_SPARK: Final = "of a streaming query, which says by it what its checkpoint has"

NOT_OFFERED: Final[Mapping[tuple[str, str], str]] = {
    **{(BRANCH_TYPE, each): _XA for each in ("END", "PREPARE", "COMMIT", "ROLLBACK", "RECOVER", "FORGET")},
    **{(SINK_TYPE, each): _SINK for each in ("BEGIN", "SEAL", "ROLLBACK", "COMMIT")},
    **{(SPARK_SUBSCRIPTION_TYPE, each): _SPARK for each in ("PLAN", "REGISTER", "CONFIRM")},
}
"""Which operations of the management node the API doesn't offer, and why, by type and operation. A test
compares it with all."""


def written() -> Mapping[str, str]:
    """The files as they are to be."""
    operations = all_operations()
    document = description(operations)
    document["info"]["version"] = UNVERSIONED
    rows = ["| request | what | operation of the management node |", "|---|---|---|"]
    for each in sorted(operations, key=lambda one: (one.tag, one.path, one.method)):
        reached = ", ".join(f"`{type}` `{name}`" for type, name in each.reaches) or "–"
        rows.append(f"| `{each.method} {PREFIX}{each.path}` | {each.summary} | {reached} |")
    others = ["| type | operation | not offered: |", "|---|---|---|"]
    others += [f"| `{type}` | `{name}` | {why} |" for (type, name), why in NOT_OFFERED.items()]
    return {
        "openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        "http-operations.inc": "\n".join([*rows, "", *others]) + "\n",
    }


if __name__ == "__main__":
    for name, text in written().items():
        (REFERENCE / name).write_text(text)
    sys.exit(0)
