"""Instances of cards: which one a request gets, and their identifiers."""

from __future__ import annotations

import pytest

from mooring.batch.device_config import MigGeometry, MigInstance
from mooring.batch.mig_instances import MigCard

GEOMETRIES = (
    MigGeometry("one", (MigInstance("1g", 5, 2),)),
    MigGeometry("two", (MigInstance("2g", 10, 1), MigInstance("1g", 5, 1))),
)


def taken(card: MigCard, *labels: str) -> MigCard:
    for label in labels:
        instance = card.parse(f"GPU-0{label}")
        assert instance is not None
        card.take(instance)
    return card


@pytest.mark.parametrize(
    ("used", "memory", "label"),
    [
        ((), 5, "[one-0]"),
        ((), 6, "[two-0]"),
        ((), 11, None),
        (("[one-0]",), 5, "[one-1]"),
        (("[one-0]", "[one-1]"), 1, None),
        (("[two-1]",), 5, None),
        (("[two-1]",), 6, None),
        (("[two-0]", "[two-1]"), 1, None),
    ],
)
def test_the_instance_for_a_request(used: tuple[str, ...], memory: int, label: str | None) -> None:
    card = taken(MigCard(GEOMETRIES), *used)
    found = card.find(memory)
    assert (None if found is None else card.label(found)) == label


def test_a_freed_card_keeps_its_geometry() -> None:
    card = taken(MigCard(GEOMETRIES), "[one-1]")
    instance = card.parse("x[one-1]")
    assert instance is not None
    card.free(instance)
    card.free(instance)
    assert card.find(6) is None
    found = card.find(5)
    assert found is not None
    assert card.label(found) == "[one-0]"


@pytest.mark.parametrize(
    "text", ["", "GPU-0", "[one]", "[one-]", "[one--1]", "[one-2]", "[three-0]", "][one", "[one-" + "9" * 99 + "]"]
)
def test_identifiers_without_an_instance(text: str) -> None:
    assert MigCard(GEOMETRIES).parse(text) is None


def test_a_trial_is_undone() -> None:
    card = MigCard(GEOMETRIES)
    state = card.state()
    taken(card, "[two-0]")
    card.restore(state)
    found = card.find(5)
    assert found is not None
    assert card.label(found) == "[one-0]"
