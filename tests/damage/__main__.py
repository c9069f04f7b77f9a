"""All damages of a ledger's files, for all readers: ``python -m tests.damage``; a line a cell."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.damage.matrix import Matrix


def main() -> int:
    """Play the whole matrix; 1 if a cell is wrong."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root:
        matrix = Matrix(Path(root))
        for cell in matrix.cells(matrix.damages):
            counts["wrong" if cell.wrong else "refused" if cell.refusal else cell.excuse or ""] += 1
            print(cell, flush=True)
    for what, count in counts.most_common():
        print(f"{count:5}  {what}")
    print(f"{counts.total() - counts['wrong']} passed, {counts['wrong']} failed")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
