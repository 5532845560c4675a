from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.volcano_admission.reviewing import State, defaulted, queue, refusal

PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def with_hierarchy(path: str, weights: str) -> dict[str, Any]:
    return queue("q", annotations={PATH: path, WEIGHTS: weights})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (queue("q"), ""),
        (queue("q", state="Closed"), ""),
        (queue("q", state=""), ""),
        (
            queue("q", state="Wrong"),
            'requestBody.spec.state: Invalid value: "Wrong": queue state must be in [Open Closed]',
        ),
        (queue("q", deserved={"cpu": "1"}), ""),
        (queue("q", deserved={"cpu": "1"}, capability={"memory": "1Gi"}), ""),
        (queue("q", guarantee={"resource": {"cpu": "1"}}, deserved={"cpu": "1"}, capability={"memory": "1"}), ""),
        (queue("q", guarantee={"resource": {"cpu": "1"}}), "deserved[cpu] must be >= guarantee[cpu]=1"),
        (
            queue("q", guarantee={"resource": {"cpu": "2"}}, deserved={"cpu": "1500m"}),
            'requestBody.spec.deserved.cpu: Invalid value: "1500m": deserved[cpu]=1500m must be >= guarantee[cpu]=2',
        ),
        (queue("q", deserved={"cpu": 3}, capability={"cpu": "2"}), "deserved[cpu]=3 must be <= capability[cpu]=2"),
        (queue("q", capability={"cpu": "-1"}), "must be greater than or equal to 0"),
        (queue("q", capability={"nvidia.com/gpu": "0.5"}), "must be an integer"),
        (queue("q", capability={"cpu": "1e999999999999"}), ""),
        (with_hierarchy("root/a", "1/2"), ""),
        (with_hierarchy("root/a", ""), f"{PATH} must have the same length with {WEIGHTS}"),
        (with_hierarchy("", "1/2"), f"{PATH} must have the same length with {WEIGHTS}"),
        (with_hierarchy("root/a/b", "1/2"), "must have the same length"),
        (with_hierarchy("root/a", "1/-2"), "-2 in the 1/-2 must be larger than 0"),
        (with_hierarchy("root/a", "1/x"), "x in the 1/x is invalid number"),
        (
            with_hierarchy("root/sci", "1/2"),
            "root/sci is not allowed to be in the sub path of root/sci/dev of queue sci-dev",
        ),
        (queue("q", parent="q"), "queue q cannot use itself as parent"),
        (queue("q", parent="none"), "failed to get parent queue none of queue q"),
        (
            queue("q", parent="busy"),
            "queue busy cannot be the parent queue of queue q because it has allocated Pods: 2",
        ),
        (queue("q", parent="busy-parent"), ""),
        (queue("q", parent="four"), ""),
        (queue("q", parent="five"), "queue q exceeds the maximum allowed depth of 5"),
        (queue("q", parent="loop"), "queue q exceeds the maximum allowed depth of 5"),
        (queue("q", parent="limited", capability={"cpu": "4"}), ""),
        (
            queue("q", parent="limited", capability={"cpu": "5"}),
            "queue q capability[cpu]=5 exceeds its ancestor's capability=4",
        ),
        (
            queue("q", parent="below", capability={"cpu": "4500m"}),
            "capability[cpu]=4500m exceeds its ancestor's capability=4",
        ),
        (
            queue("q", parent="below", capability={"memory": "2Gi"}),
            "capability[memory]=2Gi exceeds its ancestor's capability=1Gi",
        ),
        (queue("q", parent="shares", deserved={"cpu": "2"}), ""),
        (
            queue("q", parent="shares", deserved={"cpu": "3"}),
            (
                "queue shares validation failed: sum of children's deserved (cpu 5000.00, memory 0.00) exceeds parent's"
                " deserved limit (cpu 4000.00, memory 0.00)"
            ),
        ),
        (
            queue("q", parent="shares", deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "2"}}),
            (
                "shares validation failed: sum of children's guarantee (cpu 2000.00, memory 0.00) exceeds parent's"
                " guarantee limit (cpu 1000.00, memory 0.00)"
            ),
        ),
        (queue("q", parent="shares", deserved={"nvidia.com/gpu": "1"}), "nvidia.com/gpu 1000.00"),
    ],
)
def test_new_queues(given: dict[str, Any], message: str) -> None:
    state = State(
        queue("sci-dev", annotations={PATH: "root/sci/dev", WEIGHTS: "1/1/1"}),
        queue("busy", pods=2),
        queue("busy-parent", pods=2),
        queue("its-child", parent="busy-parent"),
        queue("one", parent="root"),
        queue("two", parent="one"),
        queue("three", parent="two"),
        queue("four", parent="three"),
        queue("five", parent="four"),
        queue("loop", parent="loop"),
        queue("limited", capability={"cpu": "4", "memory": "1Gi"}),
        queue("below", parent="limited"),
        queue("shares", deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "1"}}),
        queue("sibling", parent="shares", deserved={"cpu": "2"}),
    )
    found = refusal("queues", given, state=state)
    assert message in found if message else not found


def test_all_errors_of_one_queue_are_reported() -> None:
    found = refusal("queues", queue("q", state="Wrong", capability={"cpu": "-1"}))
    assert found.startswith("[requestBody.spec.capability.cpu: ")
    assert found.endswith("must be in [Open Closed]]")


PARENT = queue("p", capability={"cpu": "8"}, deserved={"cpu": "8"}, guarantee={"resource": {"cpu": "2"}})
TREE = State(
    queue("root", capability={"cpu": "100"}),
    queue("default"),
    PARENT,
    queue("c", parent="p", deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "1"}}),
    queue("g", parent="c", capability={"cpu": "6"}),
    queue("busy", pods=1),
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (PARENT, {**PARENT, "spec": {**PARENT["spec"], "weight": 3}}, ""),
        (
            PARENT,
            queue("p", capability={"cpu": "8000m"}, deserved={"cpu": "8"}, guarantee={"resource": {"cpu": 2}}),
            "",
        ),
        (
            PARENT,
            queue("p", capability={"cpu": "5"}, deserved={"cpu": "5"}, guarantee={"resource": {"cpu": "2"}}),
            "queue p capability[cpu]=5 is smaller than its descendants' max capability=6",
        ),
        (
            PARENT,
            queue("p", deserved={"cpu": "3"}, guarantee={"resource": {"cpu": "2"}}),
            "queue p validation failed: sum of children's deserved (cpu 4000.00, memory 0.00) exceeds parent's",
        ),
        (PARENT, queue("p", deserved={"cpu": "8"}), "sum of children's guarantee"),
        (queue("g", parent="c"), queue("g", parent="none"), "failed to get parent queue none of queue g"),
        (
            queue("root", capability={"cpu": "100"}),
            queue("root", capability={"cpu": "1"}),
            "root queue's resource attributes (capability, deserved, guarantee) cannot be modified",
        ),
        (queue("root", capability={"cpu": "100"}), queue("root", capability={"cpu": "100"}, weight=2), ""),
        (queue("q"), queue("q", state="Wrong"), "queue state must be in"),
    ],
)
def test_changed_queues(old: dict[str, Any], new: dict[str, Any], message: str) -> None:
    found = refusal("queues", new, old, state=TREE)
    assert message in found if message else not found


def test_the_protection_of_the_root_queue_can_be_turned_off() -> None:
    new, old = queue("root", capability={"cpu": "1"}), queue("root", capability={"cpu": "100"})
    assert refusal("queues", new, old, state=TREE, protect_root_queue=False) == ""


@pytest.mark.parametrize(
    ("name", "checks", "message"),
    [
        ("root", False, "`root` queue can not be deleted"),
        ("default", False, "`default` queue can not be deleted"),
        ("p", False, "queue p can not be deleted because it has 1 child queues: c"),
        ("g", False, ""),
        ("busy", False, ""),
        ("busy", True, "queue busy cannot be deleted because it has allocated Pods: 1"),
    ],
)
def test_deletions(name: str, checks: bool, message: str) -> None:
    document = {"metadata": {"name": name}}
    assert refusal("queues", document, state=TREE, operation="DELETE", check_allocated_pods=checks) == message


def test_defaults() -> None:
    assert defaulted("queues", queue("q"))["spec"] == {"reclaimable": True, "weight": 1}
    given: dict[str, Any] = {"reclaimable": False, "weight": 5}
    assert defaulted("queues", queue("q", **given))["spec"] == given
    found = defaulted("queues", with_hierarchy("a/b", "2/3"))["metadata"]["annotations"]
    assert found == {PATH: "root/a/b", WEIGHTS: "1/2/3"}
    kept = with_hierarchy("root/a", "1/2")
    assert defaulted("queues", kept)["metadata"] == kept["metadata"]
    assert defaulted("queues", {"metadata": {"annotations": 3}, "spec": []}) == {
        "metadata": {"annotations": 3},
        "spec": [],
    }
