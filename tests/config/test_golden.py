"""All golden configuration files give the verdicts, paths and configurations that kube-scheduler gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.golden_compare import cases, compare
from tests.config.helpers import answer

CASES = list(cases())
CHUNKS = 12


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_golden(chunk: int) -> None:
    different = {
        case["id"]: problems
        for case, expected in CASES[chunk::CHUNKS]
        if (problems := compare({**case, "expected": expected}, answer(case)))
    }
    assert different == {}


def test_there_are_532_cases() -> None:
    assert len(CASES) == 532


def test_failing_files_fail_at_the_same_stage() -> None:
    refused = [(case, expected) for case, expected in CASES if not expected["ok"]]
    assert [case["id"] for case, expected in refused if answer(case)["stage"] != expected["stage"]] == []


def test_errors_are_as_many_as_kube_scheduler_finds() -> None:
    """Where it names places, it names each as often as we do."""

    def paths(each: dict[str, Any]) -> list[str]:
        return sorted(error["path"] for error in each["errors"])

    refused = [(case, expected) for case, expected in CASES if not expected["ok"] and "" not in paths(expected)]
    assert [case["id"] for case, expected in refused if paths(answer(case)) != paths(expected)] == []


def test_every_error_has_a_line_and_a_message() -> None:
    refused = [answer(case) for case, expected in CASES if not expected["ok"]]
    assert [
        each["id"] for each in refused for error in each["errors"] if not (error["message"] and error["line"])
    ] == []


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({"ok": False}, True),
        ({"effective": {"apiVersion": "x/v1", "parallelism": 16, "profiles": []}}, False),
        ({"effective": {"apiVersion": "x/v1", "parallelism": 17, "profiles": []}}, True),
        ({"effective": {"apiVersion": "x/v1", "parallelism": 16, "profiles": [], "extra": None}}, False),
        ({"effective": {"apiVersion": "x/v1", "parallelism": 16, "profiles": [{"pluginConfig": {}}]}}, True),
    ],
)
def test_compare_sees_differences(changed: dict[str, Any], problems: bool) -> None:
    right = {"ok": True, "effective": {"apiVersion": "x/v1", "parallelism": 16, "profiles": []}}
    assert bool(compare({"expected": right}, {**right, **changed})) == problems


@pytest.mark.parametrize(
    ("expected", "given", "problems"),
    [
        (["a"], ["a"], 0),
        (["a"], ["a", "b"], 1),
        (["a", ""], ["a", "b"], 0),
        (["a", ""], ["b"], 1),
        ([""], ["b"], 0),
    ],
)
def test_compare_of_errors(expected: list[str], given: list[str], problems: int) -> None:
    def refusal(paths: list[str]) -> dict[str, Any]:
        return {"ok": False, "errors": [{"path": path} for path in paths]}

    assert len(compare({"expected": refusal(expected)}, refusal(given))) == problems
