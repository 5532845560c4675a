"""The heap pops in the order of Go's container/heap, also when the comparison changes meanwhile."""

from __future__ import annotations

import heapq
from operator import lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.batch.heap import Heap


def drain(heap: Heap[int]) -> list[int]:
    return [heap.pop() for _ in range(len(heap))]


@given(st.lists(st.integers(0, 20)))
def test_items_come_out_in_order(items: list[int]) -> None:
    assert drain(Heap(lt, items)) == sorted(items)


@pytest.mark.parametrize(
    ("items", "places"),
    [
        ([3, 1, 2], [1, 3, 2]),
        ([5, 4, 3, 2, 1], [1, 2, 4, 5, 3]),
        ([1, 1, 1], [1, 1, 1]),
    ],
)
def test_pushed_items_are_where_go_puts_them(items: list[int], places: list[int]) -> None:
    assert Heap(lt, items)._items == places


def test_a_changing_comparison_gives_what_go_gives() -> None:
    """The keys change after the pushes. heapq would return another order, so it cannot replace this heap."""
    keys = {name: number for number, name in enumerate("abcdefg")}
    heap = Heap(lambda left, right: keys[left] < keys[right], keys)
    keys |= {"b": 9, "c": 8, "d": 0}
    order = [heap.pop() for _ in range(7)]
    assert order == ["a", "g", "f", "e", "d", "c", "b"]

    class Entry:
        def __init__(self, name: str) -> None:
            self.name = name

        def __lt__(self, other: Entry) -> bool:
            return keys[self.name] < keys[other.name]

    keys.update((name, number) for number, name in enumerate("abcdefg"))
    entries = [Entry(name) for name in "abcdefg"]
    heapq.heapify(entries)
    keys |= {"b": 9, "c": 8, "d": 0}
    assert [heapq.heappop(entries).name for _ in range(7)] != order


def test_a_copy_is_independent() -> None:
    heap = Heap(lt, [2, 1, 3])
    copy = heap.copy()
    assert drain(copy) == [1, 2, 3]
    assert len(heap) == 3
    assert drain(heap) == [1, 2, 3]
