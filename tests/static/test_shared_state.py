"""What all features of the queue manager share stays small: who needs more keeps it as its own state or part.

Attributes of a base count, too.
"""

import ast
from pathlib import Path

import pytest

MANAGER = Path(__file__).resolve().parents[2] / "src" / "postroom" / "manager"


def attributes_of(path: str, name: str) -> set[str]:
    """What the methods of a class assign to ``self``."""
    tree = ast.parse((MANAGER / path).read_text())
    (found,) = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name]
    return {
        node.attr
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


DESTINATION = ("kernel/destination.py", "Destination")


@pytest.mark.parametrize(
    ("classes", "fewer_than"),
    [
        ([("kernel/core.py", "Core")], 25),
        ([DESTINATION], 20),
        ([DESTINATION, ("destinations/topic.py", "Topic")], 30),
        ([DESTINATION, ("queues/queue.py", "Queue")], 30),
    ],
)
def test_what_is_shared_is_small(classes: list[tuple[str, str]], fewer_than: int) -> None:
    found = set().union(*(attributes_of(*each) for each in classes))

    assert 0 < len(found) < fewer_than
