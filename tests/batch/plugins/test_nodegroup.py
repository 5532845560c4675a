"""nodegroup: affinity of queues to groups of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, node, queue, session_of, tasks_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = [node("none"), *(node(name, labels={"volcano.sh/nodegroup-name": name}) for name in ("g1", "g2", "g3"))]
LABEL, AFFINITY, UNSATISFIED = (
    "node group label not found",
    "node group affinity not specified",
    "node does not satisfy the node group affinity",
)


def affinity(near: dict[str, list[str]] | None = None, apart: dict[str, list[str]] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if near:
        found["nodeGroupAffinity"] = near
    if apart:
        found["nodeGroupAntiAffinity"] = apart
    return {"affinity": found}


def judged(spec: dict[str, Any], arguments: str = "") -> tuple[list[str], list[float]]:
    """What is said of the nodes none, g1, g2 and g3, and their scores."""
    session = session_of(conf(("nodegroup",), nodegroup=arguments), *NODES, queue("q", **spec), gang("g", 1, queue="q"))
    task, nodes = tasks_of(session)["g-task-0"], SessionNodes(session)
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(task, nodes)
    scores = session.total_scores(task, nodes)
    assert scores is not None
    return [verdicts.status(code).message if code else "" for code in verdicts.codes.tolist()], scores.tolist()


@pytest.mark.parametrize(
    ("spec", "reasons", "scores"),
    [
        ({}, [LABEL, AFFINITY, AFFINITY, AFFINITY], [0, 0, 0, 0]),
        (affinity({REQUIRED: ["g1"]}), [LABEL, "", UNSATISFIED, UNSATISFIED], [0, 100, 0, 0]),
        (affinity({PREFERRED: ["g1", "g2"]}), [LABEL, "", "", UNSATISFIED], [0, 50, 50, 0]),
        (affinity({REQUIRED: ["g1"], PREFERRED: ["g1"]}), [LABEL, "", UNSATISFIED, UNSATISFIED], [0, 150, 0, 0]),
        (
            affinity({REQUIRED: ["g1", "g2"]}, {REQUIRED: ["g2"]}),
            [LABEL, "", UNSATISFIED, UNSATISFIED],
            [0, 100, 100, 0],
        ),
        (affinity(None, {PREFERRED: ["g3"]}), [LABEL, UNSATISFIED, UNSATISFIED, ""], [0, 0, 0, -1]),
        (affinity(None, {PREFERRED: ["g3"], REQUIRED: ["g3"]}), [LABEL, UNSATISFIED, UNSATISFIED, ""], [0, 0, 0, -1]),
    ],
    ids=["no affinity", "required", "preferred", "both", "anti", "preferred anti", "preferred anti wins"],
)  # fmt: skip
def test_terms(spec: dict[str, Any], reasons: list[str], scores: list[float]) -> None:
    assert judged(spec) == (reasons, scores)


def test_preferred_groups_can_be_ordered() -> None:
    _, scores = judged(affinity({PREFERRED: ["g2", "g1"]}), "{enablePreferredOrder: true}")
    assert scores == [0, 25, 50, 0]


@pytest.mark.parametrize(("spec", "reason"), [({}, ""), (affinity({REQUIRED: ["g1"]}), LABEL)])
def test_unlabelled_nodes_without_strict(spec: dict[str, Any], reason: str) -> None:
    assert judged(spec, "{strict: false}")[0][0] == reason


def test_queues_inherit_with_hierarchy() -> None:
    text = 'actions: "enqueue"\ntiers:\n- plugins:\n  - {name: nodegroup, enableHierarchy: true}\n'
    queues = [queue("eng", **affinity({REQUIRED: ["g1"]})), queue("dev", parent="eng")]
    session = session_of(text, *NODES, *queues, gang("g", 1, queue="dev"))
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(tasks_of(session)["g-task-0"], SessionNodes(session))
    assert [bool(code) for code in verdicts.codes.tolist()] == [True, False, True, True]
