"""A scenario is put together from manifests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from mooring.api.core import Namespace
from mooring.api.decode_errors import ManifestError
from mooring.api.meta import parse_time
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.scenario import BEGINNING, build
from mooring.simulation.sources import InputError
from tests.simulation.manifests import given, node, pod, scenario, workload


def test_capacity_is_allocatable_where_nothing_else_is_said() -> None:
    bare = node("n")
    bare["status"] = {"capacity": {"cpu": "2", "pods": "10"}}
    assert scenario(bare).nodes[0].status.allocatable == {"cpu": "2", "pods": "10"}


def test_every_namespace_exists_and_has_its_name_as_a_label() -> None:
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}}
    made = scenario(team, pod("p", metadata={"namespace": "shop"}))
    labels = {item.name: item.labels for item in made.objects if isinstance(item, Namespace)}
    name = "kubernetes.io/metadata.name"
    assert labels == {"default": {name: "default"}, "shop": {name: "shop"}, "team": {name: "team", "a": "b"}}


def test_finished_pods_are_gone() -> None:
    assert scenario({**pod("p"), "status": {"phase": "Succeeded"}}).pods == []


def test_uids_are_given_once() -> None:
    one, other = scenario(pod("p"), pod("p", metadata={"namespace": "shop"})).pods
    assert one.pod.uid
    assert one.pod.uid != other.pod.uid
    assert scenario(pod("p")).pods[0].pod.uid == one.pod.uid


@pytest.mark.parametrize(
    ("objects", "time"),
    [
        ([pod("p")], BEGINNING),
        ([{**pod("p", nodeName="n"), "status": {"startTime": "2026-05-01T00:00:00Z"}}], "2026-05-01T00:00:00Z"),
        ([pod("p", metadata={"creationTimestamp": "2026-06-01T00:00:00Z"})], "2026-06-01T00:00:00Z"),
        ([pod("p", metadata={"creationTimestamp": "2020-06-01T00:00:00Z"})], BEGINNING),
    ],
)
def test_it_begins_after_all_that_has_happened(objects: list[Any], time: str) -> None:
    assert scenario(*objects).start == parse_time(time)


VOLUME = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}}


def storage_class(name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "x"}


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def claims(*objects: dict[str, Any]) -> dict[str, PersistentVolumeClaim]:
    return {item.name: item for item in scenario(*objects).objects if isinstance(item, PersistentVolumeClaim)}


@pytest.mark.parametrize(
    ("volume", "phase"),
    [
        (VOLUME, "Available"),
        ({**VOLUME, "spec": {"claimRef": {"name": "c", "namespace": "default"}}}, "Bound"),
        ({**VOLUME, "status": {"phase": "Released"}}, "Released"),
    ],
)
def test_volumes_are_in_the_state_their_controller_brings_them_to(volume: dict[str, Any], phase: str) -> None:
    (found,) = (item for item in scenario(volume).objects if isinstance(item, PersistentVolume))
    assert found.status.phase == phase


@pytest.mark.parametrize(
    ("classes", "spec", "expected"),
    [
        ([], {}, None),
        ([storage_class("a")], {}, None),
        ([storage_class("b", **DEFAULT), storage_class("a", **DEFAULT)], {}, "a"),
        ([storage_class("a", **DEFAULT)], {"storageClassName": "x"}, "x"),
        ([storage_class("a", **DEFAULT)], {"storageClassName": ""}, ""),
    ],
)
def test_claims_get_the_default_class(classes: list[Any], spec: dict[str, Any], expected: str | None) -> None:
    assert claims(*classes, {**CLAIM, "spec": spec})["c"].spec.storage_class_name == expected


def test_a_claim_that_names_its_volume_is_bound_to_it() -> None:
    bound = {**CLAIM, "spec": {"volumeName": "v"}}
    assert "pv.kubernetes.io/bind-completed" in claims(VOLUME, bound)["c"].annotations
    assert "pv.kubernetes.io/bind-completed" not in claims(bound)["c"].annotations


def test_ephemeral_volumes_have_claims() -> None:
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"storageClassName": "fast"}}
    made = claims(pod("p", volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]))["p-tmp"]
    assert (made.labels, made.spec.storage_class_name) == ({"x": "y"}, "fast")
    assert made.metadata.owner_references[0].name == "p"


@pytest.mark.parametrize(
    ("objects", "note"),
    [
        ([node("n"), {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}], "ignored: 1 LimitRange"),
        ([pod("p")], "there is no Node among the manifests"),
        (
            [{**node("n"), "status": {"allocatable": {"cpu": "1"}}}],
            "no pod can go to n: status.allocatable has no pods",
        ),
        (
            [node("n"), pod("p", nodeName="m")],
            "not counted, because their nodes are not among the manifests: default/p",
        ),
    ],
)
def test_notes(objects: list[Any], note: str) -> None:
    (found,) = scenario(*objects).notes
    assert note in found


def test_nothing_to_note() -> None:
    assert scenario(node("n"), pod("p"), workload("Deployment")).notes == []


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([pod("p"), pod("p")], "Pod p: given twice; leave one of them out, or give it another name"),
        ([pod("a", metadata={"uid": "u"}), pod("b", metadata={"uid": "u"})], "'u' is the uid of pod default/a too"),
        ([pod("p", priorityClassName="x")], "spec.priorityClassName: no PriorityClass with name x was found"),
        ([{**pod("p"), "spec": {}}], "spec.containers: is required; give the pod at least one container"),
    ],
)
def test_faults(objects: list[Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        scenario(*objects)
    assert message in str(caught.value)
    assert "test.yaml, line " in str(caught.value)


def test_twins_in_two_files_are_both_named() -> None:
    with pytest.raises(ManifestError, match=r"two\.yaml.*: Pod p: given here and in one\.yaml"):
        build([*given(pod("p"), name="one.yaml"), *given(pod("p"), name="two.yaml")])


# Fuzz: whatever stands in a manifest, it makes a scenario or a message.

SCALARS = st.none() | st.booleans() | st.integers(-3, 10) | st.sampled_from(["", "x", "1Gi", "app", "Exists", "In"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "app", "cpu", "key"]), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "affinity",
        "completionMode",
        "completions",
        "containers",
        "nodeName",
        "ordinals",
        "parallelism",
        "priority",
        "priorityClassName",
        "replicas",
        "resources",
        "selector",
        "template",
        "tolerations",
        "topologySpreadConstraints",
        "volumeClaimTemplates",
        "volumes",
    ]
)
KINDS = st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"])


@settings(max_examples=150, deadline=None)
@given_data(
    kind=KINDS, spec=st.dictionaries(FIELDS, TREES, max_size=4), inner=st.dictionaries(FIELDS, TREES, max_size=4)
)
def test_any_workload_is_expanded_or_refused(kind: str, spec: dict[str, Any], inner: dict[str, Any]) -> None:
    item = workload(kind, template=inner)
    item["spec"] |= spec
    message = ""
    try:
        scenario(node("n"), yaml.safe_dump(item))
    except (ManifestError, InputError) as error:
        message = str(error)
    assert "\n" not in message
