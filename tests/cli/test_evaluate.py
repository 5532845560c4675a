"""`mooring evaluate` from the outside: a line for a line, and the rest go on when one cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cli.main import main
from tests.simulate.manifests import node, pod

CASE = {"id": "a", "objects": [node("n1"), node("n2", cpu="1")], "pod": pod("p", cpu="2")}


def evaluate(text: str | bytes, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", *arguments], input=text)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_case_is_answered_in_full() -> None:
    (answer,) = answers(evaluate(json.dumps(CASE)))
    assert answer["id"] == "a"
    assert answer["preFilter"] == {"code": "Success", "reasons": []}
    assert answer["filter"] == {
        "n1": {"code": "Success", "reasons": []},
        "n2": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeResourcesFit",
            "reasons": ["Insufficient cpu"],
        },
    }
    assert answer["totals"] == {"n1": sum(answer["scores"]["n1"].values())}


def test_preemption_is_answered_where_nothing_fits() -> None:
    victim = pod("old", cpu="3", nodeName="n1", priority=-1)
    victim["metadata"]["uid"] = "old"
    case = {**CASE, "objects": [node("n1"), victim]}
    (answer,) = answers(evaluate(json.dumps(case)))
    assert answer["preemption"] == {
        "status": {"code": "Success", "reasons": []},
        "nominatedNode": "n1",
        "victims": ["default/old"],
    }
    assert "scores" not in answer


@pytest.mark.parametrize("compressed", [False, True])
def test_from_a_file(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / "cases"
    data = f"{json.dumps(CASE)}\n\n{json.dumps(CASE)}\n".encode()
    file.write_bytes(gzip.compress(data) if compressed else data)
    result = CliRunner().invoke(main, ["evaluate", str(file)])
    assert [answer["id"] for answer in answers(result)] == ["a", "a"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"id": "x"}', "pod: not an object"),
        ('{"id": "x", "pod": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}}', "pod: not a Pod"),
        ('{"id": "x", "objects": 3, "pod": {}}', "objects: not a list"),
        ('{"id": "x", "objects": [3], "pod": {}}', "objects[0]: not an object"),
        ('{"id": "x", "objects": [{"kind": "Node"}], "pod": {}}', "objects[0]"),
        (
            json.dumps({**CASE, "id": "x", "objects": [node("n", cpu="lots")]}),
            "status.allocatable.cpu: 'lots' is not a quantity",
        ),
        (json.dumps({**CASE, "id": "x", "config": {"kind": "Pod"}}), "config"),
        (json.dumps({**CASE, "id": "x", "config": 3}), "config"),
        (
            json.dumps(
                {
                    **CASE,
                    "id": "x",
                    "config": {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}],
                    },
                }
            ),
            "Nope",
        ),
    ],
)
def test_a_case_that_cannot_be_read_is_told_and_the_rest_go_on(line: str, error: str) -> None:
    result = evaluate(f"{line}\n{json.dumps(CASE)}\n")
    broken, fine = answers(result)
    assert result.exit_code == 1
    assert error in broken["error"]
    assert broken["id"] in ("x", None)
    assert "totals" in fine
    assert result.stderr == ""


def test_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(main, ["evaluate", "missing.jsonl"])
    assert result.exit_code == 2
    assert "missing.jsonl" in result.stderr


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "spec", "name"]), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": JSON,
            "objects": JSON | st.lists(st.just(node("n")) | JSON, max_size=3),
            "pod": st.just(pod("p")) | JSON,
            "config": JSON,
        },
    )
)
def test_every_line_has_an_answer(case: dict[str, Any]) -> None:
    result = evaluate(json.dumps(case))
    (answer,) = answers(result)
    assert result.exit_code == (1 if "error" in answer else 0)
    assert "error" in answer or "filter" in answer


def test_it_says_that_extenders_are_left_out() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://nowhere.invalid", "filterVerb": "filter"}],
    }
    (answer,) = answers(evaluate(json.dumps({**CASE, "config": config})))
    assert "extenders are not asked" in answer["note"]
    assert answer["filter"]["n1"]["code"] == "Success"
