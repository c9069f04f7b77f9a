"""Writes the table of what each operation of the management node needs into the reference.

``python -m tools.rights_docs`` rewrites ``docs/reference/rights.inc``; a test compares it.
"""

import sys
from pathlib import Path

from postroom.server.management.authorization import RULES

FILE = Path(__file__).parent.parent / "docs" / "reference" / "rights.inc"


def written() -> str:
    """The table as it is to be."""
    lines = ["| type | operation | needs | an act |", "|---|---|---|---|"]
    for type, operations in RULES.items():
        for operation, rule in operations.items():
            lines.append(f"| `{type}` | `{operation}` | {rule.words} | {'yes' if rule.act else '–'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
    sys.exit(0)
