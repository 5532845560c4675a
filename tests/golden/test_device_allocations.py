"""The device allocator of release 1.37: the same allocations and errors as upstream's.

The cases are those of 1.36, and cases with alpha feature gates.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from mooring.releases import V1_37, Release, with_gates
from mooring.simulation.evaluate import evaluate
from tests.golden import decisions

# As recorded: `compare` decodes them.
EXPECTED = decisions.by_id("dra-1.37/allocations.jsonl.gz")
CASES = {name: case for name, case in decisions.by_id("dra/cases.jsonl.gz").items() if name in EXPECTED}
ALPHA = decisions.by_id("dra-1.37-alpha/allocations.jsonl.gz")
ALPHA_CASES = decisions.by_id("dra-1.37-alpha/cases.jsonl.gz")
THEMES = sorted({name.partition("-")[0] for name in CASES})


def compare(
    recorded: bytes, allocations: bytes, release: Release | None = None, *, all_to_allocate: bool = False
) -> tuple[Counter[str], list[str]]:
    """Compare with a release, or with 1.37 and the gates of the case."""
    case, expected = msgspec.json.decode(recorded), msgspec.json.decode(allocations)
    gated, _ = with_gates(V1_37, case.pop("gates", {}))
    answer = evaluate(case, release=release or gated)
    found, differences = Counter[str](), []
    for node, status in answer.get("filter", {}).items():
        ours = answer.get("allocations", {}).get(node, {})
        ours = {name: each for name, each in ours.items() if name != "<extended-resources>"}
        theirs, error = expected["allocations"].get(node), expected.get("errors", {}).get(node)
        if status.get("plugin", "DynamicResources") != "DynamicResources":
            continue  # another plugin rejects the node first
        if error is not None:
            found["errors"] += 1
            if not any(error in reason for reason in status["reasons"]):
                differences.append(f"{node}: {error!r} not in {status['reasons']}")
        elif theirs is None:
            found["none"] += 1
            if ours:
                differences.append(f"{node}: {ours} instead of none")
        elif status["code"] == "Success" and "allocations" in answer:
            found["allocations"] += 1
            differences += [f"{node}: {each}" for each in decisions.compare(theirs, ours)]
        elif status["code"] != "Success" and all_to_allocate:
            differences.append(f"{node}: {status} instead of {theirs}")
    return found, differences


@pytest.mark.parametrize("theme", THEMES)
def test_allocations(theme: str) -> None:
    for name, case in CASES.items():
        if name.startswith(f"{theme}-"):
            _, differences = compare(case, EXPECTED[name])
            assert not differences, (name, differences)


@pytest.mark.parametrize("theme", ["derived", "expression", "groups", "skip"])
def test_alpha_gates(theme: str) -> None:
    found = Counter[str]()
    for name, case in ALPHA_CASES.items():
        if name.startswith(f"{theme}-"):
            counts, differences = compare(case, ALPHA[name], all_to_allocate=True)
            assert not differences, (name, differences)
            found += counts
    assert min(found["allocations"], found["none"], found["errors"]) >= 5


@pytest.mark.parametrize("theme", ["derived", "groups", "skip"])
def test_alpha_gates_change_answers(theme: str) -> None:
    changed = 0
    for name, case in ALPHA_CASES.items():
        if name.startswith(f"{theme}-"):
            changed += bool(compare(case, ALPHA[name], V1_37, all_to_allocate=True)[1])
    assert changed >= 5


def test_the_cases_cover_allocations_errors_and_rejections() -> None:
    assert len(CASES) >= 240
    found, _ = compare(CASES["basic-4101-0000"], EXPECTED["basic-4101-0000"])
    assert found["allocations"]
    assert found["none"]
