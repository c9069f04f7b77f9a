"""The heap of what mostly comes in order: always the smallest first."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.queues.ascending_heap import AscendingHeap, Item

Pair = st.tuples(st.integers(0, 30), st.integers(0, 3))


@given(st.lists(st.one_of(Pair, st.none()), max_size=200))
def test_the_smallest_comes_first_whatever_the_order(steps: list[tuple[int, int] | None]) -> None:
    heap, model = AscendingHeap(), []
    for step in steps:
        if step is not None:
            heap.push((*step, "what comes along"))
            model.append(step)
        elif model:
            smallest = min(model)
            assert heap.first()[:2] == smallest and heap.pop()[:2] == smallest
            model.remove(smallest)
        assert len(heap) == len(model) and bool(heap) == bool(model)
    assert [item[:2] for item in heap.items()] == sorted(model)


def test_what_comes_in_order_is_never_compared_with_each_other() -> None:
    class Incomparable:
        """Raises TypeError where two are compared by order."""

    heap = AscendingHeap()
    items: list[Item] = [(number // 2, 7, Incomparable()) for number in range(5000)]
    for item in items:
        heap.push(item)
    assert [heap.pop() for _ in items] == items and not heap


def test_one_is_removed_wherever_it_stands() -> None:
    heap = AscendingHeap()
    for item in [(5, 0), (7, 0), (6, 0), (9, 0), (8, 0)]:
        heap.push(item)
    for item in [(7, 0), (8, 0)]:
        heap.remove(item)
    heap.push((7, 1))
    assert [heap.pop() for _ in range(4)] == [(5, 0), (6, 0), (7, 1), (9, 0)]


def test_others_take_the_place_of_what_is_there() -> None:
    heap = AscendingHeap()
    for item in [(5, 0), (4, 0)]:
        heap.push(item)
    heap.replace([(1, 0), (3, 0)])
    heap.push((2, 0))
    assert heap.items() == [(1, 0), (2, 0), (3, 0)]
    heap.replace([])
    assert not heap and len(heap) == 0
