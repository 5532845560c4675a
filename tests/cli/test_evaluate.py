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
from tests.simulation.manifests import node, pod

CASE = {"id": "a", "objects": [node("n1"), node("n2", cpu="1")], "pod": pod("p", cpu="2")}


def evaluate(text: str | bytes, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", *arguments], input=text)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


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
    (answer,) = answers(evaluate(json.dumps(case), "--emulated-version=1.36"))
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
        (json.dumps({**CASE, "id": "x", "objects": 3}), "objects: not a list"),
        (json.dumps({**CASE, "id": "x", "objects": [3]}), "objects[0]: not an object"),
        (json.dumps({**CASE, "id": "x", "objects": [{"kind": "Node"}]}), "objects[0]"),
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
    assert "extenders are not called" in answer["note"]
    assert answer["filter"]["n1"]["code"] == "Success"


GATE = '''
from mooring.framework import PermitWait, Plugin


class Pairs(Plugin):
    """Lets pods go two by two."""

    def permit(self, state, pod, node_name):
        if pod.labels.get("alone"):
            return "nobody goes alone"
        waiting = list(self.handle.waiting_pods)
        if not waiting:
            state.pods_to_activate.add("default/other")
            return PermitWait(5)
        for each in waiting:
            each.allow(self.name)
'''


def attempts(tmp_path: Path, case: dict[str, Any]) -> dict[str, Any]:
    file = tmp_path / "pairs.py"
    file.write_text(GATE)
    file.chmod(0o644)
    (answer,) = answers(evaluate(json.dumps(case), "--plugin", f"Pairs={file}"))
    return answer


def pending(name: str, cpu: str = "2") -> dict[str, Any]:
    made = pod(name, cpu=cpu)
    made["metadata"] |= {"uid": name, "creationTimestamp": f"2024-01-01T00:00:0{name[-1]}Z"}
    return made


def test_several_attempts_in_one_process(tmp_path: Path) -> None:
    """Wait, release, refusal, a pod listed again, time that passes, room that is taken."""
    alone = pending("a4")
    alone["metadata"]["labels"] = {"alone": "yes"}
    pods = [pending("a2"), pending("a1"), pending("a2"), alone, pending("a3"), pending("a5", cpu="100")]
    answer = attempts(tmp_path, {"objects": [node("n1", cpu="8")], "pods": pods, "elapse": {"1": 1, "5": 6}})
    first, passed, second, again, refused, held, timeout, never = answer["attempts"]
    assert first["permit"] == {"code": "Wait", "timeoutSeconds": 5}
    assert first["activated"] == ["default/other"]
    assert passed == {"elapsedSeconds": 1}
    assert second["permit"]["code"] == "Success"
    assert second["allowed"] == ["default/a2"]
    assert again == {"pod": "default/a2", "skipped": True}
    assert refused["permit"] == {"code": "Unschedulable", "reasons": ["nobody goes alone"]}
    assert held["node"] == "n1"
    assert timeout["rejected"] == [
        {
            "pod": "default/a3",
            "plugin": "Pairs",
            "reason": "rejected due to timeout after waiting 5s at plugin Pairs",
        }
    ]
    assert never["preemption"]["status"]["code"] == "Unschedulable"
    assert answer["queueOrder"] == answer["queueOrderAfter"]
    assert answer["queueOrder"] == [f"default/a{number}" for number in (1, 2, 3, 4, 5)]
    assert "waiting" not in answer


def test_who_still_waits(tmp_path: Path) -> None:
    answer = attempts(tmp_path, {"objects": [node("n1")], "pods": [pending("a1")]})
    assert answer["waiting"] == ["default/a1"]


def test_a_preemptor_takes_the_node_that_room_was_made_on() -> None:
    victim = pod("old", cpu="3", nodeName="n1", priority=-1)
    victim["metadata"]["uid"] = "old"
    objects = [node("n1"), node("n2", cpu="1"), victim]
    (answer,) = answers(evaluate(json.dumps({"objects": objects, "pods": [pending("p1"), pending("p1")]})))
    failed, placed = answer["attempts"]
    assert failed["preemption"] == {
        "status": {
            "code": "Success",
            "reasons": ["preemption: found a potential placement for pod on node n1, preempting 1 victims"],
        },
        "nominatedNode": "n1",
        "victims": ["default/old"],
    }
    assert placed["node"] == "n1"
    assert "scores" not in placed


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"pods": 3}, "pods: not a list"),
        ({"pods": [node("n")]}, "pods[0]: not a Pod"),
        ({"pods": [3]}, "pods[0]: not an object"),
        ({"elapse": 3}, "elapse: not an object"),
        ({"elapse": {"1": 3}}, "there is no attempt '1'"),
        ({"elapse": {"x": 3}}, "there is no attempt 'x'"),
        ({"elapse": {"0": "3"}}, "elapse.0: '3' is no number of seconds"),
        ({"elapse": {"0": -1}}, "elapse.0: -1 is no number of seconds"),
    ],
)
def test_attempts_that_cannot_be_read(change: dict[str, Any], error: str) -> None:
    (answer,) = answers(evaluate(json.dumps({"objects": [], "pods": [pending("p1")], **change})))
    assert error in answer["error"]
