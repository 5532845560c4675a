"""The harness runs a plugin as a cycle would, in either form, and checks ``what_if``."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.api.pod import Pod
from mooring.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PreFilterResult,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import Code
from mooring.testing import PluginHarness, check_what_if, make_namespace, make_node, make_pod, make_pvc, run_plugin
from mooring.testing.harness import Form

NODES = [make_node(name).obj() for name in ("a", "b", "c")]
POD = make_pod("p").obj()


class Columns(Plugin):
    """Rejects node b, scores by name, doubles on normalising."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        return Verdicts.reject(np.array([name == "b" for name in nodes.names]), Status.unschedulable("not b"))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> np.ndarray:
        return np.array([ord(name) - ord("a") + 1 for name in nodes.names], dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: np.ndarray) -> np.ndarray:
        return scores * 2


class PerNode(Plugin):
    """The same, node by node."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        return "not b" if node.name == "b" else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return ord(node.name) - ord("a") + 1

    def normalize_scores(self, state: CycleState, pod: Pod, scores: np.ndarray) -> np.ndarray:
        return scores * 2


@pytest.mark.parametrize("plugin", [Columns, PerNode])
def test_both_forms_give_one_result(plugin: type[Plugin]) -> None:
    """What a plugin said comes out by node name, whichever form it has."""
    result = run_plugin(plugin, POD, nodes=NODES)
    assert result.rejected == {"b": ("not b",)}
    assert result.feasible == ["a", "c"]
    assert (result.raw_scores, result.scores) == ({"a": 1, "c": 3}, {"a": 2, "c": 6})


class Prefilter(Plugin):
    """Answers PreFilter and PreScore as the pod's labels say."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | PreFilterResult | None:
        return {
            "skip": Status.skip(),
            "reject": Status.unresolvable("no"),
            "narrow": PreFilterResult.only(["a"]),
            "": None,
        }[pod.labels.get("pre", "")]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str:
        return "full"

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        return Status.skip()

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 1


def test_pre_filter_decides_whether_filter_is_asked() -> None:
    """Skip passes every node, a rejection asks about none, a narrowing is reported."""
    harness = PluginHarness(Prefilter, nodes=NODES)
    skipped = harness.run(make_pod("p").label(pre="skip").obj())
    assert skipped.feasible == ["a", "b", "c"]
    assert (skipped.pre_score.code, skipped.scores) == (Code.SKIP, {})
    rejected = harness.run(make_pod("p").label(pre="reject").obj())
    assert (rejected.pre_filter.reasons, rejected.filter) == (("no",), {})
    narrowed = harness.run(make_pod("p").label(pre="narrow").obj())
    assert narrowed.pre_filter_nodes == {"a"}
    assert not harness.run(POD).feasible


def test_objects_find_their_places() -> None:
    """Pods go to their node or the nominator, namespaces to the table too, everything else to a lister."""
    harness = PluginHarness(
        PerNode,
        nodes=NODES,
        pods=[make_pod("placed").node("a").obj(), make_pod("named").nominated("b").obj(), POD],
        objects=[make_namespace("x").obj(), make_pvc("claim").obj()],
    )
    assert [pod.name for pod in harness.info("a").pods] == ["placed"]
    assert [info.name for info in harness.handle.nominator.on_node("b")] == ["named"]
    assert "x" in harness.table.namespaces
    claim = make_pvc("claim").obj()
    assert harness.handle.lister(type(claim)).get("claim", "default") == claim


class AtMost(Plugin):
    """Takes as many pods a node as the pod's label says; wrong about victims if told so."""

    class Args:
        wrong: bool = False

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        return "full" if node.pod_count >= int(pod.labels["most"]) else None

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        return None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        def verdicts(values: np.ndarray) -> Verdicts:
            return Verdicts.reject(values[0] >= int(pod.labels["most"]), Status.unschedulable("full"))

        effects = victims.present.astype(np.int64) * (0 if self.args.wrong else 1)
        return WhatIf(victims.nodes.pod_count[None], effects[None], verdicts)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_if_is_compared_with_removing_pods(wrong: bool) -> None:
    """A model that disagrees with filtering again is found out."""
    pods = [make_pod(f"p{number}").node("a" if number < 3 else "b").obj() for number in range(5)]
    harness = PluginHarness(AtMost, args={"wrong": wrong}, nodes=NODES, pods=pods)
    victims = {"a": [pod.uid for pod in pods[:3]], "b": [pods[3].uid], "c": []}
    pod = make_pod("new").label(most="2").obj()
    if wrong:
        with pytest.raises(AssertionError, match="what_if says"):
            check_what_if(harness, pod, victims)
    else:
        check_what_if(harness, pod, victims)


def test_floats_are_truncated_as_in_a_cycle() -> None:
    class Both(Plugin):
        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> float:
            return 2.9

        def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> np.ndarray:
            return np.full(len(nodes), 2.9)

    for form in ("columns", "per_node"):
        assert run_plugin(Both, POD, nodes=NODES, form=form).scores == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("pre_filter", 7, "returned int; return None, a reason"),
        ("filter", 7, "returned int; return None, a reason"),
        ("filter_nodes", [True], "filter_nodes returned list of 1"),
        ("score", float("nan"), "score returned nan"),
        ("score_nodes", np.zeros(2), "return 3 numbers"),
    ],
)
def test_answers_that_a_cycle_would_refuse_are_refused(method: str, answer: object, told: str) -> None:
    plugin = type("Mine", (Plugin,), {method: lambda self, state, pod, nodes: answer})
    with pytest.raises(TypeError, match=told):
        run_plugin(plugin, POD, nodes=NODES)


@pytest.mark.parametrize("form", ["columns", "per_node"])
def test_a_declared_range_of_scores_is_scaled(form: Form) -> None:
    class Model(Plugin):
        score_range = (0.0, 1.0)

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> float:
            return 0.9 if node.name == "a" else 0.25

        def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> np.ndarray:
            return np.array([0.9 if name == "a" else 0.25 for name in nodes.names])

    assert run_plugin(Model, POD, nodes=NODES, form=form).scores == {"a": 90, "b": 25, "c": 25}
    Model.score_range = None  # type: ignore[assignment]
    with pytest.warns(
        UserWarning, match=r"Model: all scores are between 0 and 1.*declare score_range = \(0\.0, 1\.0\)"
    ):
        run_plugin(Model, POD, nodes=NODES, form=form)
