"""Pod templates: equal pods share one."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from mooring.api.codec import decode_json
from mooring.api.pod import Pod
from mooring.columns.templates import PodTemplate, template_key
from mooring.framework import NodeTable
from mooring.testing import make_node, make_pod


def table_of(*nodes) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.add_node(node)
    return table


def test_equal_pods_share_a_template():
    table = table_of()
    one, two = (make_pod(name).label(app="x").req(cpu="1").obj() for name in ("one", "two"))
    other = make_pod("other").label(app="y").req(cpu="1").obj()
    assert table.template(one) is table.template(two)
    assert table.template(one) is not table.template(other)


def test_idle_templates_take_limited_memory(monkeypatch):
    """A tenant can create many large pods, all different."""
    monkeypatch.setattr("mooring.columns.templates._KEEP_IDLE_BYTES", 50_000)
    table = table_of(make_node("n").obj())
    table.templates._evict_at_bytes = 100_000
    placed = make_pod("placed").label(app="placed", pad="x" * 60).obj()
    table.add_pod(placed, "n")
    for number in range(200):
        table.template(make_pod("p").label({f"key-{number}-{i}": "x" * 60 for i in range(20)}).obj())
    assert len(table.templates) < 80
    assert table.template(placed) is table.pods[placed.uid].template


def test_templates_with_other_labels_take_limited_memory(monkeypatch):
    """A tenant can change the labels of a pod as often as they like."""
    monkeypatch.setattr("mooring.columns.templates._KEEP_IDLE", 4)
    table = table_of(make_node("n").obj())
    table.templates._evict_at = 8
    first = make_pod("first").node("n").obj()
    table.add_pod(first)
    pod = make_pod("pod").node("n").obj()
    table.add_pod(pod)
    for number in range(100):
        table.add_pod(make_pod("pod").label(number=str(number), other="x" * (number * 40)).node("n").obj())
        table.add_pod(make_pod("pod").node("n").obj())
    gc.collect()
    alive = [each for each in gc.get_objects() if isinstance(each, PodTemplate) and each.labels.get("number")]
    assert len(alive) <= 8
    assert table.check() == []


def test_a_template_with_other_labels_shares_what_was_compiled():
    table = table_of(make_node("n").label(zone="a").obj())
    pod = make_pod("p").req(cpu="1").label(app="a").pod_affinity("zone", {"app": "a"}).node_selector(zone="a")
    table.add_pod(pod.node("n").obj())
    old = table.pods[pod.obj().uid].template
    assert all((old.affinity, old.node_requirement, old.resource_key))  # compile them
    table.add_pod(pod.label(app="a", zone="a").node("n").obj())
    new = table.pods[pod.obj().uid].template
    again = NodeTable().template(new.pod)
    assert new is not old
    assert (new.requests, new.nonzero, new.host_ports) == (again.requests, again.nonzero, again.host_ports)
    assert (new.labels, new.namespace, new.affinity) == (again.labels, again.namespace, again.affinity)
    assert new.affinity is old.affinity
    assert new.node_requirement is old.node_requirement
    assert (new.resource_key, new.constraints.key) == (again.resource_key, again.constraints.key)
    assert new.number != old.number


def test_a_new_version_of_a_pod_has_the_template_of_its_key():
    table = NodeTable()
    old = make_pod("a").req(cpu="1").label({"app": "a"}).obj()
    template = table.template(old)
    for new in (
        make_pod("a").req(cpu="1").label({"app": "a"}).obj(),
        make_pod("a").req(cpu="2").label({"app": "a"}).obj(),
        make_pod("a").req(cpu="1").label({"app": "b"}).obj(),
        make_pod("a").req(cpu="1").label({"app": "a"}).node("n").obj(),
    ):
        found = table.templates.of_update(old, new)
        assert found is table.template(new)
        assert (found is template) == (template_key(new) == template_key(old))


def test_an_observed_binding_encodes_nothing_but_the_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server adds the zone of the node to the labels."""
    table = table_of(make_node("n").obj())
    pods = [make_pod(name).req(cpu="1").label(app="a").node("n") for name in ("a", "b")]
    for pod in pods:
        table.add_pod(pod.obj())
    monkeypatch.setattr("mooring.columns.templates.template_key", None)
    for pod in pods:
        table.add_pod(pod.label(app="a", zone="z").obj())
    first, second = (table.pods[pod.obj().uid].template for pod in pods)
    monkeypatch.undo()
    assert first is second
    assert first.labels == {"app": "a", "zone": "z"}
    assert first is table.template(make_pod("c").req(cpu="1").label(app="a", zone="z").obj())
    assert table.check() == []


def test_a_placed_template_has_few_objects_that_the_garbage_collector_visits() -> None:
    """Visiting the objects of thousands of templates takes longer than their creation."""
    table = table_of(make_node("n").obj())
    template = table.add_pod(make_pod("p").req(cpu="1", memory="1Gi").label(app="a").node("n").obj()).template
    assert template.placed == {0: 1}
    parts = (template.placed, template.terminating, template.scalars, template.requests, template.cache)
    assert not any(map(gc.is_tracked, parts))


def test_a_template_counts_the_resources_that_a_node_offers_after_it_was_relabelled() -> None:
    table = table_of(make_node("n").obj())
    pod = make_pod("p").req({"cpu": "1", "example.com/gpu": "2"}).label(app="a").node("n")
    table.add_pod(pod.obj())
    table.add_node(make_node("m").capacity({"example.com/gpu": "4"}).obj())
    table.add_pod(pod.label(app="a", zone="z").obj())
    assert table.check() == []
    assert table.nodes[table.row_of["n"]].requested("example.com/gpu") == 2


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"metadata": {"name": "b", "uid": "b"}}, True),
        ({"spec": {"priority": 5}}, True),
        ({"spec": {"nodeName": "n"}}, True),
        ({"metadata": {"labels": {"app": "b"}}}, False),
        ({"metadata": {"namespace": "other"}}, False),
        ({"metadata": {"ownerReferences": [{"name": "o", "uid": "o"}]}}, False),
        ({"spec": {"nodeSelector": {"disk": "ssd"}}}, False),
        ({"status": {"allocatedResources": {"cpu": "1"}}}, False),
        ({"status": {"resources": {"requests": {"cpu": "1"}}}}, False),
        ({"status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}]}}, False),
        ({"status": {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}}, False),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}, True),
    ],
    ids=str,
)
def test_the_next_pod_has_the_template_of_its_key(change: dict[str, Any], same: bool) -> None:
    """The last template is found without a key."""

    def pod(**more: dict[str, Any]) -> Pod:
        plain: dict[str, Any] = {
            "metadata": {"name": "a", "uid": "a", "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c"}]},
        }
        return msgspec.convert({part: plain.get(part, {}) | more.get(part, {}) for part in (*plain, *more)}, Pod)

    templates = NodeTable().templates
    first, second = templates.of(pod()), templates.of(pod(**change))
    assert (first is second) == same == (template_key(first.pod) == template_key(second.pod))
    assert templates.of(pod(**change)) is second
    assert templates.of(pod()) is first


def test_pods_of_a_controller_share_a_template_although_the_server_names_a_volume_of_each_at_random() -> None:
    """The API server adds the token of the service account to every pod, as a volume with a random name."""
    table = NodeTable()

    def pod(number: int, *volumes: dict[str, Any]) -> Pod:
        token = {"name": f"kube-api-access-{number}x", "projected": {"sources": [{"serviceAccountToken": {}}]}}
        raw = {
            "metadata": {"name": f"web-{number}", "uid": f"web-{number}"},
            "spec": {"containers": [{"name": "c"}], "volumes": [*volumes, token]},
        }
        return decode_json(msgspec.json.encode(raw), Pod)

    assert pod(1).spec.volumes == ()
    assert table.templates.of(pod(1)) is table.templates.of(pod(2))
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert [each.name for each in pod(1, data).spec.volumes] == ["data"]
    assert table.templates.of(pod(1, data)) is table.templates.of(pod(2, data))
    assert table.templates.of(pod(1, data)) is not table.templates.of(pod(1))


_CONTAINER = {"name": "c"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
                    }
                }
            }
        },
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
                    ]
                }
            }
        },
        {"tolerations": [{"key": "team", "operator": "Exists"}]},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
            ]
        },
        {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        {"hostNetwork": True},
        {"hostUsers": False},
        {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]},
        {"initContainers": [{"name": "i", "resources": {"requests": {"example.com/gpu": "1"}}}]},
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
        {"overhead": {"cpu": "1"}},
    ],
    ids="-".join,
)
def test_pods_with_other_constraints_share_no_answers(spec: dict[str, Any]) -> None:
    templates = NodeTable().templates
    plain, other = (
        templates.of(msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [_CONTAINER], **each}}, Pod))
        for each in ({}, spec)
    )
    assert plain.constraints is not other.constraints


def test_pods_that_differ_in_amounts_labels_or_images_share_constraints() -> None:
    templates = NodeTable().templates
    first = templates.of(make_pod("a").req(cpu="1", memory="1Gi").label(app="a").obj())
    second = templates.of(make_pod("b").req(cpu="2", memory="3Gi").label(app="b").obj())
    assert first is not second
    assert first.constraints is second.constraints
