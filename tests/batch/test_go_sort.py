"""Go's sort: the same order as sort.Slice of Go 1.26, also with comparisons that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.batch.go_sort import go_sort

#: Length, kind of list, and what sort.Slice made of it with a contradictory and with a consistent comparison.
RECORDED = [
    (8, 0, 203794640, 1773791506),
    (8, 1, 2290600439, 285701909),
    (8, 2, 2945599381, 2945599381),
    (8, 3, 3692148689, 3662626769),
    (8, 4, 889375196, 1460737752),
    (12, 0, 3632959526, 1112458670),
    (12, 1, 1710111883, 1886280009),
    (12, 2, 2270081879, 3867668673),
    (12, 3, 1486872046, 160513492),
    (12, 4, 495253251, 764757067),
    (13, 0, 3259202530, 3257261026),
    (13, 1, 354854595, 298552171),
    (13, 2, 2811383676, 3264758910),
    (13, 3, 63585263, 3311295727),
    (13, 4, 3338709397, 487990601),
    (20, 0, 1262846975, 698217243),
    (20, 1, 392381335, 1565571393),
    (20, 2, 744612901, 785543553),
    (20, 3, 3349046130, 2437995250),
    (20, 4, 924060039, 8065695),
    (33, 0, 1953624004, 2092304180),
    (33, 1, 313415611, 1077393395),
    (33, 2, 233520758, 642585582),
    (33, 3, 2126830, 2911458128),
    (33, 4, 1758369341, 4184522411),
    (49, 0, 193041118, 2472522990),
    (49, 1, 3570977949, 1730890059),
    (49, 2, 2706751206, 2166394060),
    (49, 3, 518180465, 1535973361),
    (49, 4, 3109789011, 2000489787),
    (50, 0, 670281630, 1615609500),
    (50, 1, 3097979846, 3653402522),
    (50, 2, 3393726668, 3090477348),
    (50, 3, 645741972, 1060838612),
    (50, 4, 1137942938, 1391451962),
    (64, 0, 1141707370, 2227003884),
    (64, 1, 600438929, 3669601235),
    (64, 2, 2474493039, 3565664659),
    (64, 3, 1713330286, 357606100),
    (64, 4, 1080819699, 387745047),
    (100, 0, 1078571045, 2934142049),
    (100, 1, 2772204011, 769543453),
    (100, 2, 817607817, 1467004677),
    (100, 3, 2853667279, 275137683),
    (100, 4, 2749669875, 386524609),
    (128, 0, 1123821033, 932603221),
    (128, 1, 1312144183, 1890232589),
    (128, 2, 3666543309, 1839338633),
    (128, 3, 3232658544, 3779280978),
    (128, 4, 3588818828, 975628278),
    (300, 0, 4171702649, 2530394939),
    (300, 1, 1004621663, 3282907985),
    (300, 2, 2283309897, 3215093657),
    (300, 3, 3670150319, 540180403),
    (300, 4, 3060022004, 1236010440),
]


def listed(length: int, kind: int) -> list[int]:
    """The list that was sorted: random numbers, ascending, descending, few values, and nearly sorted."""
    state = length * 7 + kind
    found = []
    for place in range(length):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn = state >> 33
        nearly = drawn % 50 if place % 17 == 5 else 2 * place
        found.append([drawn % 1000, place, length - place, drawn % 4, nearly][kind])
    return found


def contradictory(left: int, right: int) -> bool:
    return left % 7 < right % 7 or left % 5 > right % 5 or left < right


def consistent(left: int, right: int) -> bool:
    return left % 10 < right % 10


def digest(items: list[int]) -> int:
    found = 17
    for item in items:
        found = (found * 31 + item) % 2**32
    return found


@pytest.mark.parametrize(("length", "kind", "first", "second"), RECORDED)
def test_the_order_is_that_of_go(length: int, kind: int, first: int, second: int) -> None:
    comparisons: list[tuple[Callable[[int, int], bool], int]] = [(contradictory, first), (consistent, second)]
    for less, recorded in comparisons:
        items = listed(length, kind)
        go_sort(items, less)
        assert sorted(items) == sorted(listed(length, kind))
        assert digest(items) == recorded


@pytest.mark.parametrize("items", [[], [1]])
def test_short_lists(items: list[int]) -> None:
    before = list(items)
    go_sort(items, contradictory)
    assert items == before


def test_a_comparison_that_is_always_true_ends() -> None:
    items = list(range(500))
    go_sort(items, lambda _left, _right: True)
    assert sorted(items) == list(range(500))
