"""The soak in short: after hostile and ordinary pods have come and gone, the engine's tables are as they were."""

from __future__ import annotations

import pytest

from bench.hostile.shapes import SHAPES
from bench.soak import Soak, pod, table_sizes
from mooring.columns import templates

#: Every other pod is hostile, so that each shape occurs.
EVERY = 2


async def test_tables_return_to_their_sizes() -> None:
    soak = Soak(20, scale=0.002, alive=10, hostile_every=EVERY)
    await soak.run(EVERY * len(SHAPES))
    before = table_sizes(soak.engine)
    await soak.run(2 * EVERY * len(SHAPES))
    assert table_sizes(soak.engine) == before
    assert soak.placed > len(SHAPES)
    assert before["pods"] == before["queue"] == before["terms of placed pods"] == 0
    assert soak.engine.cache.table.check() == []


async def test_dropped_templates_leave_no_answers_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_KEEP_IDLE", 4)
    soak = Soak(5, scale=0.001, alive=2, hostile_every=1)
    registry = soak.engine.cache.table.templates
    registry._evict_at = 8
    await soak.run(60)
    answers = soak.engine.profiles.first.filtering._answers
    assert len(registry) <= 9
    assert len(answers._by_template) <= len(registry)
    assert len(answers._by_signature._entries) <= len(registry)


def test_hostile_pods_have_names_of_their_own() -> None:
    every = len(SHAPES)
    index = SHAPES.index("extended resources")
    first, second = (pod(EVERY * (index + every * turn), scale=0.002, hostile_every=EVERY) for turn in range(1, 3))
    assert b"example.com/r" in first
    assert first != second
