"""The plugin benchmark: all kinds of plugins implement the same rule, so that their times can be compared."""

from __future__ import annotations

import asyncio

import pytest

from bench.plugins.__main__ import decide, make_engine, measure
from bench.plugins.ways import WAYS, Setup
from mooring.live.extenders import ExtenderClient

PODS = 40


async def places(setup: Setup) -> list[str]:
    client = ExtenderClient()
    engine = make_engine(setup, nodes=30, pods=PODS, client=client)
    try:
        return [(await decide(engine)).node_name for _ in range(PODS)]
    finally:
        await client.close()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    with WAYS["per-node"]() as setup:
        return asyncio.run(places(setup))


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"none"}))
def test_all_ways_place_pods_alike(way: str, expected: list[str]) -> None:
    assert len(set(expected)) > 3
    assert not [name for name in expected if name.endswith("0")]
    with WAYS[way]() as setup:
        assert asyncio.run(places(setup)) == expected


def test_a_row() -> None:
    with WAYS["columns"]() as setup:
        row = asyncio.run(measure(setup, nodes=20, pods=30, seconds=60.0))
    assert (row["nodes"], row["decisions"], row["evaluated"]) == (20, 30, 20)
    assert row["decisions_per_s"] > 0
