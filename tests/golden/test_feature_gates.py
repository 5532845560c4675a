"""Feature gates that are not at their defaults: the same decisions as kube-scheduler's."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from mooring.releases import Release, release_named, with_gates
from mooring.simulation.evaluate import evaluate
from tests.golden import decisions

EXPECTED = [msgspec.json.decode(each) for each in decisions.lines("feature-gates/expected.jsonl.gz")]
CASES = decisions.by_id("dra/cases.jsonl.gz") | decisions.by_id("feature-gates/cases.jsonl.gz")
SETTINGS = Counter((each["release"], each["gates"]) for each in EXPECTED)


def gated(version: str, gates: str) -> Release:
    wanted = {name: value == "true" for name, value in (each.split("=") for each in gates.split(","))}
    return with_gates(release_named(version), wanted)[0]


@pytest.mark.parametrize(("version", "gates"), SETTINGS)
def test_decisions(version: str, gates: str) -> None:
    release = gated(version, gates)
    for each in EXPECTED:
        if (each["release"], each["gates"]) == (version, gates):
            answer = evaluate(msgspec.json.decode(CASES[each["id"]]), release=release)
            if "scores" not in each["answer"]:
                answer.pop("scores", None)
                answer.pop("totals", None)
            answer.pop("hints", None)
            assert not decisions.compare(each["answer"], {"id": "", **answer}), each["id"]


@pytest.mark.parametrize(("version", "gates"), SETTINGS)
def test_the_gates_change_the_decisions(version: str, gates: str) -> None:
    release = release_named(version)
    first = next(each for each in EXPECTED if (each["release"], each["gates"]) == (version, gates))
    answer = evaluate(msgspec.json.decode(CASES[first["id"]]), release=release)
    compared = {name: value for name, value in answer.items() if name in first["answer"]}
    assert decisions.compare(first["answer"], compared)


def test_every_setting_has_cases() -> None:
    assert len(SETTINGS) == 21
    assert min(SETTINGS.values()) >= 3
