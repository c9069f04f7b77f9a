"""Things in their order, in portions of about the same size: what one task takes, or one file."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def portions(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """As many in each as have `most` together, but at least one."""
    portion: list[Item] = []
    total = 0
    for item in items:
        if portion and total + size(item) > most:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size(item)
    if portion:
        yield portion
