"""What if: changes to a cluster, the comparison, and how many copies fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.config import default_config
from mooring.loading import load_setup
from mooring.simulation.outcome import Outcome
from mooring.simulation.run import build_scenario, simulate_scenario
from mooring.simulation.sources import Given, InputError
from mooring.simulation.what_if import Changes, Comparison, Fit, compare, fit, settle, unassign_all, with_weight
from tests.simulation.manifests import given, node, pod

HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 5,
}
SETUP = load_setup(None, source="")


def deployment(name: str, replicas: int, cpu: str = "1") -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("x", cpu=cpu)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def stateful_set(name: str, replicas: int) -> dict[str, Any]:
    made = deployment(name, replicas)
    made["kind"] = "StatefulSet"
    return made


def simulate(objects: Sequence[Given]) -> Outcome:
    scenario, sessions = build_scenario(objects, SETUP)
    return simulate_scenario(scenario, SETUP, sessions=sessions)


def settled(*documents: dict[str, Any]) -> tuple[Outcome, Changes]:
    """Return the present state of a cluster, and a copy of it to change."""
    objects = given(*documents)
    scenario, sessions = build_scenario(objects, SETUP)
    before = simulate_scenario(scenario, SETUP, sessions=sessions)
    return before, Changes(settle(objects, scenario, before))


def changed(before: Outcome, changes: Changes) -> Comparison:
    return compare(before, simulate(changes.given), changes.notes)


def test_nothing_changes_without_a_change() -> None:
    before, changes = settled(node("a"), node("b"), deployment("web", 3), pod("big", cpu="100"))
    result = changed(before, changes)
    assert (result.moved, result.scheduled, result.pending, result.evicted, result.deleted) == ([], [], [], [], [])


def test_a_drain_moves_the_pods_of_one_node_only() -> None:
    before, changes = settled(node("a"), node("b"), node("c"), deployment("web", 6))
    on_a = {each.key for each in before.pods if each.node == "a"}
    assert on_a
    changes.drain("a")
    result = changed(before, changes)
    assert {each.pod for each in result.moved} == on_a
    assert all(each.before == "a" and each.after in ("b", "c") for each in result.moved)
    assert result.pending == []


def test_a_drain_deletes_pods_that_no_controller_creates_again() -> None:
    before, changes = settled(node("a"), pod("bare", nodeName="a"))
    changes.drain("a")
    result = changed(before, changes)
    assert result.deleted == ["default/bare"]
    assert result.notes == ["deleted by the drain, because no controller creates them again: default/bare"]


def test_pods_without_room_become_pending_with_the_reason() -> None:
    before, changes = settled(node("a", cpu="4"), node("b", cpu="4"), deployment("web", 4, cpu="2"))
    changes.drain("a")
    result = changed(before, changes)
    assert len(result.pending) == 2
    assert {each.before for each in result.pending} == {"a"}
    assert "1 Insufficient cpu" in result.pending[0].message


def test_a_cordon_moves_nothing_and_closes_the_node() -> None:
    before, changes = settled(node("a"), deployment("web", 1))
    changes.cordon("a")
    changes.scale("deploy", "web", 2)
    result = changed(before, changes)
    assert result.moved == []
    (waiting,) = result.pending
    assert waiting.message.startswith("0/1 nodes are available: 1 node(s) were unschedulable.")


def test_new_nodes_make_pods_schedulable() -> None:
    big = node("a", cpu="2", labels={"node.kubernetes.io/instance-type": "m5.large"})
    before, changes = settled(big, deployment("web", 4, cpu="1"))
    assert sum(each.node is None for each in before.pods) == 2
    changes.add_nodes("m5.large", 1)
    result = changed(before, changes)
    assert [each.after for each in result.scheduled] == ["m5.large-new-1"] * 2
    assert result.as_dict()["utilization"]["cpu"] == {"before": 100.0, "after": 100.0}


def test_new_nodes_are_open_and_have_free_names() -> None:
    tainted = node(
        "a", unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    )
    changes = Changes(given(tainted, node("a-new-1")))
    changes.add_nodes("a", 2)
    added: list[Any] = [each.item for each in changes.given[2:]]
    assert [each.name for each in added] == ["a-new-2", "a-new-3"]
    assert not any(each.spec.unschedulable or each.spec.taints for each in added)
    assert [each.metadata.labels["kubernetes.io/hostname"] for each in added] == ["a-new-2", "a-new-3"]


@pytest.mark.parametrize(("workload", "kind"), [(deployment("web", 3), "deployment"), (stateful_set("web", 3), "sts")])
def test_scaling(workload: dict[str, Any], kind: str) -> None:
    before, changes = settled(node("a", cpu="8"), workload)
    changes.scale(kind, "web", 5)
    assert len(changed(before, changes).scheduled) == 2
    changes.scale(kind, "web", 1)
    result = changed(before, changes)
    assert len(result.deleted) == 2
    if kind == "sts":
        assert result.deleted == ["default/web-1", "default/web-2"]


def test_an_added_object_replaces_the_one_of_the_same_name() -> None:
    before, changes = settled(node("a", cpu="2"), pod("p", cpu="4"))
    changes.add(given(node("a", cpu="8")))
    assert [each.after for each in changed(before, changes).scheduled] == ["a"]


def test_evicted_pods() -> None:
    before, changes = settled(HIGH, node("a", cpu="2"), pod("low", cpu="2", nodeName="a"))
    changes.add(given(pod("high", cpu="2", priorityClassName="high")))
    result = changed(before, changes)
    assert [(each.pod, each.before, each.message) for each in result.evicted] == [
        ("default/low", "a", "evicted for default/high")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.drain("x"), "there is no node 'x'; `kubectl get nodes` lists the names"),
        (lambda c: c.scale("job", "web", 1), "cannot scale 'job'; give deployment, statefulset"),
        (lambda c: c.scale("deploy", "web", 1), "there is no Deployment default/web"),
        (lambda c: c.add_nodes("x", 1), "there is no node or instance type 'x' to copy; no node has the label"),
    ],
)
def test_what_cannot_be_changed(change: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        change(Changes(given(node("a"))))
    assert str(error.value).startswith(message)


def test_weights() -> None:
    config = with_weight(default_config(), "ImageLocality", 9)
    assert {each.weight for each in config.profiles[0].plugins["score"] if each.name == "ImageLocality"} == {9}
    with pytest.raises(InputError, match="NodeName is not enabled at score"):
        with_weight(default_config(), "NodeName", 9)


def test_all_pods_can_be_placed_again() -> None:
    daemon = pod("d", nodeName="a")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    items: list[Any] = [each.item for each in unassign_all(given(node("a"), pod("p", nodeName="a"), daemon))]
    assert [each.node_name for each in items[1:]] == ["", "a"]


# How many fit


@pytest.mark.parametrize("size", ["250m", "1", "3"])
def test_the_number_that_fits_is_that_of_adding_one_after_the_other(size: str) -> None:
    cluster = given(node("a", cpu="4"), node("b", cpu="20"), pod("p", cpu="1", nodeName="a"))
    found = fit(cluster, given(pod("new", cpu=size)), simulate, limit=1000)
    expected = {"250m": 12 + 80, "1": 3 + 20, "3": 1 + 6}[size]
    assert found.copies == expected
    assert sum(found.nodes.values()) == expected
    assert found.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_copy_fits_as_a_whole() -> None:
    found = fit(given(node("a", cpu="10")), given(deployment("web", 2), pod("one", cpu="1")), simulate, limit=100)
    assert (found.copies, found.nodes) == (3, {"a": 9})


def test_names_that_are_taken_and_limits() -> None:
    cluster = given(node("a", cpu="10"), pod("new", cpu="1", nodeName="a"))
    assert fit(cluster, given(pod("new", cpu="1")), simulate, limit=2) == Fit(
        copies=2, nodes={"a": 2}, message="", limit=2
    )


def test_a_copy_that_evicts_does_not_fit() -> None:
    cluster = given(HIGH, node("a", cpu="2"), pod("low", cpu="1", nodeName="a"))
    found = fit(cluster, given(pod("high", cpu="1", priorityClassName="high")), simulate, limit=5)
    assert (found.copies, found.message) == (1, "it would evict default/low")
