"""Amounts of memory of a card, and whole cards."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import decode_object
from mooring.api.node import Node
from mooring.batch.whole_gpus import WholeCards
from tests.batch.cases import node
from tests.batch.test_shared_gpus import asking


def whole(*, by_number: bool, unhealthy: str = "") -> WholeCards:
    amounts: dict[str, Any] = {"volcano.sh/gpu-number": "3", "volcano.sh/gpu-memory": "24000"}
    made = node("a", **amounts)
    made["metadata"]["annotations"] = {"volcano.sh/gpu-unhealthy-ids": unhealthy}
    item = decode_object(made)
    assert isinstance(item, Node)
    found = WholeCards.of(item, by_number=by_number)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("by_number", "limits", "expected"),
    [
        (False, {"gpu_memory": 3000}, "1"),
        (False, {"gpu_memory": 9000}, None),
        (True, {"gpu_number": 1}, "2"),
        (True, {"gpu_number": 2}, None),
    ],
)
def test_memory_of_a_card_and_whole_cards(by_number: bool, limits: dict[str, Any], expected: str | None) -> None:
    pool = whole(by_number=by_number, unhealthy="0,x")
    pool.add(asking("old", {"volcano.sh/gpu-index": "1,7,-1"}, gpu_memory=4000))
    assert pool.fit(asking(**limits), "").annotations.get("volcano.sh/gpu-index") == expected


def test_the_annotations_of_a_bind() -> None:
    pool = whole(by_number=True)
    assert pool.bind_annotations({"volcano.sh/gpu-index": "1"}, 1.5)["volcano.sh/predicate-time"] == "1500000000"
    assert pool.bind_annotations({}, 1.5) == {}
