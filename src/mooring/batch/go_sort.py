"""Go's sort.Slice, for orders that contradict themselves.

With a consistent order every sort gives the same result, and ``sorted`` is the right choice. Volcano sorts CPU cores
with a comparison for which two cores can each come before the other. The result then depends on the steps of Go's sort
(a pattern-defeating quicksort), so that they are the same here. An order that contradicts itself cannot make it run
forever: each step is bounded by the number of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_INSERTION: Final = 12
_NINTHER: Final = 50
_MOST_SWAPS: Final = 12
_PARTIAL_STEPS: Final = 5
_UINT64: Final = (1 << 64) - 1


def go_sort(items: list[T], less: Callable[[T, T], bool]) -> None:
    """Sort a list in place as Go's sort.Slice does."""
    _Sort(items, less).quick(0, len(items), len(items).bit_length())


class _Sort(Generic[T]):
    def __init__(self, items: list[T], less: Callable[[T, T], bool]) -> None:
        self.items = items
        self._less = less

    def before(self, left: int, right: int) -> bool:
        return self._less(self.items[left], self.items[right])

    def swap(self, left: int, right: int) -> None:
        items = self.items
        items[left], items[right] = items[right], items[left]

    def quick(self, low: int, high: int, bad_pivots: int) -> None:
        balanced = partitioned = True
        while True:
            length = high - low
            if length <= _INSERTION:
                self._insertion(low, high)
                return
            if bad_pivots == 0:
                self._heap(low, high)
                return
            if not balanced:
                self._shuffle(low, high)
                bad_pivots -= 1
            pivot, swaps = self._pivot(low, high)
            if swaps == _MOST_SWAPS:  # probably in reverse order
                self.items[low:high] = self.items[low:high][::-1]
                pivot = (high - 1) - (pivot - low)
                swaps = 0
            if balanced and partitioned and swaps == 0 and self._nearly_sorted(low, high):
                return
            if low > 0 and not self.before(low - 1, pivot):
                low = self._partition_equal(low, high, pivot)
                continue
            middle, partitioned = self._partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.quick(low, middle, bad_pivots)
                low = middle + 1
            else:
                self.quick(middle + 1, high, bad_pivots)
                high = middle

    def _insertion(self, low: int, high: int) -> None:
        for start in range(low + 1, high):
            self._shift_left(start, low)

    def _shift_left(self, place: int, stop: int) -> None:
        while place > stop and self.before(place, place - 1):
            self.swap(place, place - 1)
            place -= 1

    def _heap(self, low: int, high: int) -> None:
        length = high - low
        for root in range((length - 1) // 2, -1, -1):
            self._sift_down(root, length, low)
        for last in range(length - 1, -1, -1):
            self.swap(low, low + last)
            self._sift_down(0, last, low)

    def _sift_down(self, root: int, end: int, first: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self.before(first + child, first + child + 1):
                child += 1
            if not self.before(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def _shuffle(self, low: int, high: int) -> None:
        """Exchange three elements in the middle with others, chosen by a generator that starts with the length."""
        length = high - low
        mask = (1 << length.bit_length()) - 1
        number, middle = length, low + length // 4 * 2
        for place in range(middle - 1, middle + 2):
            number ^= number << 13 & _UINT64
            number ^= number >> 7
            number ^= number << 17 & _UINT64
            other = number & mask
            self.swap(place, low + (other - length if other >= length else other))

    def _pivot(self, low: int, high: int) -> tuple[int, int]:
        """Return the place of the pivot, and how many exchanges its choice needed."""
        quarter = (high - low) // 4
        places = [low + quarter, low + 2 * quarter, low + 3 * quarter]
        swaps = 0
        if high - low >= _NINTHER:
            for number, place in enumerate(places):
                places[number], more = self._median(place - 1, place, place + 1)
                swaps += more
        middle, more = self._median(*places)
        return middle, swaps + more

    def _median(self, first: int, second: int, third: int) -> tuple[int, int]:
        swaps = 0
        if self.before(second, first):
            first, second, swaps = second, first, swaps + 1
        if self.before(third, second):
            second, swaps = third, swaps + 1
        if self.before(second, first):
            second, swaps = first, swaps + 1
        return second, swaps

    def _nearly_sorted(self, low: int, high: int) -> bool:
        """Mend up to five pairs in the wrong order; return whether all elements are in order then."""
        place = low + 1
        for _ in range(_PARTIAL_STEPS):
            while place < high and not self.before(place, place - 1):
                place += 1
            if place == high:
                return True
            if high - low < _NINTHER:
                return False
            self.swap(place, place - 1)
            if place - low >= 2:
                self._shift_left(place - 1, 0)
            if high - place >= 2:
                for right in range(place + 1, high):
                    if not self.before(right, right - 1):
                        break
                    self.swap(right, right - 1)
        return False

    def _partition_equal(self, low: int, high: int, pivot: int) -> int:
        self.swap(low, pivot)
        left, right = low + 1, high - 1
        while True:
            while left <= right and not self.before(low, left):
                left += 1
            while left <= right and self.before(low, right):
                right -= 1
            if left > right:
                return left
            self.swap(left, right)
            left, right = left + 1, right - 1

    def _partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """Return the pivot's new place, and whether the elements were already partitioned."""
        self.swap(low, pivot)
        left, right = low + 1, high - 1
        exchanged = False
        while True:
            while left <= right and self.before(left, low):
                left += 1
            while left <= right and not self.before(right, low):
                right -= 1
            if left > right:
                self.swap(right, low)
                return right, not exchanged
            self.swap(left, right)
            exchanged = True
            left, right = left + 1, right - 1
