from __future__ import annotations

import pytest

from bench.compare import ROOT, Benchmark, benchmarks, run, shown, verdict


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ([100, 101, 102], [110, 111, 112], "+9.9 %"),
        ([100, 101, 102], [90, 91, 92], "-9.9 %"),
        ([100, 105, 110], [108, 112, 115], "+6.7 % (noise)"),
        ([100, 100], [100, 100], "+0.0 % (noise)"),
    ],
)
def test_a_change_counts_only_if_the_ranges_do_not_overlap(base: list[float], new: list[float], expected: str) -> None:
    assert verdict(base, new) == expected


@pytest.mark.parametrize(("value", "expected"), [(1266.04, "1,266.0"), (100.0, "100.0"), (0.4567, "0.457")])
def test_numbers_have_enough_digits_to_see_a_change(value: float, expected: str) -> None:
    assert shown(value) == expected


def test_each_kind_of_benchmark_has_commands() -> None:
    names = [each.name for each in benchmarks(("decide", "live", "batch"), 100)]
    assert {"decide basic", "live mixed", "batch, gangs of 10"} <= set(names)


def test_a_benchmark_runs_on_a_checkout() -> None:
    small = ("bench.decide", "--workload", "basic", "--nodes", "20", "--pods", "5", "-o", "json")
    assert run(Benchmark("small", small, ("median_us",)), ROOT)["median_us"] > 0
