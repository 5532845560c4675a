"""Shares of GPUs: the cards of a node, and the cards that a pod gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.codec import decode_object
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_config import config_of
from mooring.batch.device_pools import Policy
from mooring.batch.shared_gpus import SharedCards, exclusive_rules, shares_of
from tests.batch.cases import node, pod

A100, T4 = "NVIDIA-A100", "NVIDIA-T4"
IDS = "volcano.sh/vgpu-ids-new"


def vgpus(*cards: tuple[int, int, str]) -> Node:
    """A node with cards: how many pods may share each, its memory, its type."""
    texts = (f"GPU-{n},{limit},{memory},{kind},true,hami-core:" for n, (limit, memory, kind) in enumerate(cards))
    return with_cards("".join(texts))


def with_cards(text: str) -> Node:
    offered = {"vgpu-number": "100", "vgpu-memory": "100000", "vgpu-cores": "400"}
    amounts: dict[str, Any] = {f"volcano.sh/{name}": amount for name, amount in offered.items()}
    made = node("a", **amounts)
    made["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": text}
    found = decode_object(made)
    assert isinstance(found, Node)
    return found


def asking(name: str = "p", annotations: dict[str, str] | None = None, **limits: Any) -> Pod:
    made = pod(name, "g")
    amounts = {f"volcano.sh/{key.replace('_', '-')}": str(amount) for key, amount in limits.items()}
    made["spec"]["containers"][0]["resources"]["limits"] = amounts
    made["metadata"]["annotations"].update(annotations or {})
    found = decode_object(made)
    assert isinstance(found, Pod)
    return found


def cards(*given: tuple[int, int, str]) -> SharedCards:
    found = SharedCards.of(vgpus(*given))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"vgpu_number": 1}, "GPU-1,NVIDIA,8000,0:"),
        ({"vgpu_number": 1, "vgpu_memory": 3000, "vgpu_cores": 30}, "GPU-1,NVIDIA,3000,30:"),
        ({"vgpu_memory": 3000}, "GPU-1,NVIDIA,3000,0:"),
        ({"vgpu_number": 2, "vgpu_memory": 1000}, "GPU-1,NVIDIA,1000,0:GPU-0,NVIDIA,1000,0:"),
        ({"vgpu_number": 3}, None),
        ({"vgpu_number": 1, "vgpu_memory": 17000}, None),
        ({"vgpu_number": 1, "vgpu_memory": 9000}, "GPU-0,NVIDIA,9000,0:"),
        ({"vgpu_number": 1, "vgpu_cores": 101}, None),
    ],
)
def test_the_cards_for_a_pod(limits: dict[str, Any], expected: str | None) -> None:
    fit = cards((4, 16000, A100), (4, 8000, T4)).fit(asking(**limits), "")
    assert fit.annotations.get(IDS) == expected
    assert bool(fit.reason) is (expected is None)


@pytest.mark.parametrize(("policy", "card"), [("", 2), ("binpack", 1), ("spread", 0)])
def test_the_policy_chooses_among_cards(policy: Policy, card: int) -> None:
    pool = cards(*[(4, 16000, A100)] * 3)
    for number, memory in ((1, 4000), (2, 2000)):
        pool.add(asking(f"old-{number}", {IDS: f"GPU-{number},NVIDIA,{memory},0:"}, vgpu_number=1))
    fit = pool.fit(asking(vgpu_number=1, vgpu_memory=1000), policy)
    assert fit.annotations[IDS].startswith(f"GPU-{card},")
    assert fit.score == (100 * 5000 / 16000 if policy == "binpack" else 0)


@pytest.mark.parametrize(
    ("annotations", "fits"),
    [
        ({"nvidia.com/use-gputype": "a100"}, True),
        ({"nvidia.com/use-gputype": "T4,V100"}, False),
        ({"nvidia.com/nouse-gputype": "A100"}, False),
        ({"nvidia.com/nouse-gputype": "T4"}, True),
        ({"volcano.sh/vgpu-mode": "mig"}, False),
        ({"volcano.sh/vgpu-podgroup-policy": "spread"}, False),
    ],
)
def test_annotations_select_cards(annotations: dict[str, str], fits: bool) -> None:
    pool = cards((4, 16000, A100))
    pool.add(asking("old", {IDS: "GPU-0,NVIDIA,1000,0:"}, vgpu_number=1))
    assert bool(pool.fit(asking("new", annotations, vgpu_number=1, vgpu_memory=100), "").annotations) is fits


@pytest.mark.parametrize(
    ("used", "cores", "fits"),
    [(100, 0, False), (60, 50, False), (60, 40, True), (10, 100, False), (0, 100, False)],
    ids=["full", "too many cores", "enough cores", "exclusive", "exclusive beside a pod without cores"],
)
def test_cores(used: int, cores: int, fits: bool) -> None:
    pool = cards((4, 16000, A100))
    pool.add(asking("old", {IDS: f"GPU-0,NVIDIA,1,{used}:"}, vgpu_number=1))
    assert bool(pool.fit(asking(vgpu_memory=1, vgpu_cores=cores), "").annotations) is fits


def test_shares_are_returned() -> None:
    pool, old = cards((1, 16000, A100)), asking("old", {IDS: "GPU-0,NVIDIA,1000,0:"}, vgpu_number=1)
    pool.add(old)
    pool.add(old)
    assert pool.fit(asking(vgpu_number=1, vgpu_memory=1), "").reason
    pool.remove(old)
    assert not pool.fit(asking(vgpu_number=1), "").reason


@pytest.mark.parametrize(
    "text",
    ["", ":", ";;;", "GPU-0", "GPU-0,NVIDIA:", "GPU-0,NVIDIA,-5,-5:", "GPU-0,NVIDIA,1e9,٣:", "," * 9999, "x,y,z,w"],
)
def test_hostile_annotations_of_pods_take_nothing(text: str) -> None:
    pool = cards((4, 16000, A100))
    pool.add(asking("old", {IDS: text}, vgpu_number=1))
    assert not pool.fit(asking(vgpu_memory=16000), "").reason
    assert all(share.memory >= 0 and share.cores >= 0 for share in shares_of(text))


@pytest.mark.parametrize("text", ["", "GPU-0", "GPU-0,1:", "GPU-0,1,2,3,4:"])
def test_registrations_that_cannot_be_parsed_are_no_cards(text: str) -> None:
    amounts: dict[str, Any] = {f"volcano.sh/vgpu-{name}": "8" for name in ("number", "memory", "cores")}
    made = node("a", **amounts)
    made["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": text}
    found = decode_object(made)
    assert isinstance(found, Node)
    assert SharedCards.of(found) is None


def test_the_annotations_of_a_bind() -> None:
    found = cards((4, 16000, A100)).bind_annotations({IDS: "GPU-0,NVIDIA,1,0:"}, 12.5)
    assert found == {
        IDS: "GPU-0,NVIDIA,1,0:",
        "volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,1,0:",
        "volcano.sh/vgpu-node": "a",
        "volcano.sh/vgpu-time": "12",
        "volcano.sh/bind-time": "12",
        "volcano.sh/bind-phase": "allocating",
    }


CONFIG = config_of(
    {
        "device-config.yaml": """
nvidia:
  resourceCountName: example.com/cards
  resourceMemoryName: example.com/memory
  resourceMemoryPercentageName: example.com/percent
  resourceCoreName: example.com/cores
  knownMigGeometries:
  - models: [A100]
    allowedGeometries:
    - group: group1
      geometries: [{name: 1g, memory: 5120, count: 7}]
    - group: group2
      geometries: [{name: 2g, memory: 10240, count: 3}, {name: 1g, memory: 5120, count: 1}]
"""
    }
).gpu


def renamed(name: str = "p", annotations: dict[str, str] | None = None, **limits: Any) -> Pod:
    made = pod(name, "g")
    resources = made["spec"]["containers"][0]["resources"]
    resources["limits"] = {f"example.com/{key}": str(amount) for key, amount in limits.items()}
    made["metadata"]["annotations"].update(annotations or {})
    found = decode_object(made)
    assert isinstance(found, Pod)
    return found


def labelled(made: Pod, labels: dict[str, str]) -> Pod:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


def registered(text: str, rules: tuple[dict[str, str], ...] = ()) -> SharedCards:
    found = SharedCards.of(with_cards(text), CONFIG, rules)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"cards": 1, "percent": 25}, "GPU-0,NVIDIA,4000,0:"),
        ({"cards": 1, "percent": 25, "memory": 9000}, "GPU-0,NVIDIA,4000,0:"),
        ({"cards": 1, "percent": 101, "memory": 9000}, "GPU-0,NVIDIA,9000,0:"),
        ({"cards": 1, "percent": 101}, "GPU-0,NVIDIA,16000,0:"),
        ({"memory": 10, "cores": 20}, "GPU-0,NVIDIA,10,20:"),
        ({"cards": 1, "percent": 102}, None),
    ],
)
def test_names_of_resources_from_the_config_map(limits: dict[str, Any], expected: str | None) -> None:
    fit = registered(f"GPU-0,4,16000,{A100},true,hami-core:").fit(renamed(**limits), "")
    assert fit.annotations.get(IDS) == expected


@pytest.mark.parametrize(
    ("old", "memory", "expected"),
    [
        ("", 4000, "GPU-0[group1-0],NVIDIA,4000,0:"),
        ("", 6000, "GPU-0[group2-0],NVIDIA,6000,0:"),
        ("", 11000, None),
        ("GPU-0[group1-0],NVIDIA,4000,0:", 4000, "GPU-0[group1-1],NVIDIA,4000,0:"),
        ("GPU-0[group1-1],NVIDIA,4000,0:", 4000, "GPU-0[group1-0],NVIDIA,4000,0:"),
        ("GPU-0[group1-0],NVIDIA,4000,0:", 6000, None),
        ("GPU-0[group2-0],NVIDIA,4000,0:", 4000, "GPU-0[group2-1],NVIDIA,4000,0:"),
        ("GPU-0[group2-3],NVIDIA,4000,0:", 4000, None),
        ("GPU-0[group2-9],NVIDIA,4000,0:", 4000, "GPU-0[group1-0],NVIDIA,4000,0:"),
        ("GPU-0[group9-0],NVIDIA,4000,0:", 4000, "GPU-0[group1-0],NVIDIA,4000,0:"),
        ("GPU-0,NVIDIA,4000,0:", 4000, "GPU-0[group1-0],NVIDIA,4000,0:"),
    ],
)
def test_instances_of_cards(old: str, memory: int, expected: str | None) -> None:
    pool = registered(f"GPU-0,7,40960,{A100},true,mig:")
    pool.add(renamed("old", {IDS: old}, cards=1))
    asked = renamed(cards=1, memory=memory)
    assert pool.fit(asked, "").annotations.get(IDS) == expected
    assert pool.fit(asked, "").annotations.get(IDS) == expected, "a trial changes nothing"
    assert pool.fit(renamed("q", {"volcano.sh/vgpu-mode": "hami-core"}, cards=1, memory=1), "").reason


def test_two_containers_get_different_instances() -> None:
    pool = registered(f"GPU-0,7,40960,{A100},true,mig:")
    made = renamed(cards=1, memory=4000)
    twice = msgspec.structs.replace(made.spec, containers=(*made.spec.containers, *made.spec.containers))
    both = msgspec.structs.replace(made, spec=twice)
    ids = "GPU-0[group1-0],NVIDIA,4000,0:;GPU-0[group1-1],NVIDIA,4000,0:"
    assert pool.fit(both, "").annotations[IDS] == ids
    pool.add(renamed("old", {IDS: ids}, cards=1))
    assert pool.fit(made, "").annotations[IDS] == "GPU-0[group1-2],NVIDIA,4000,0:"


def test_cards_of_unknown_models_are_shared_by_software() -> None:
    pool = registered(f"GPU-0,7,40960,{T4},true,mig:")
    assert pool.fit(renamed(cards=1, memory=4000), "").annotations[IDS] == "GPU-0,NVIDIA,4000,0:"


@pytest.mark.parametrize(
    ("labels", "other", "fits"),
    [
        ({"app": "a"}, {"app": "a"}, False),
        ({"app": "a"}, {"app": "b"}, True),
        ({"app": "b"}, {"app": "b"}, True),
        ({"app": "a", "tier": "x"}, {"tier": "x"}, True),
        ({"app": "c", "tier": "x"}, {"app": "c", "tier": "x", "more": ""}, False),
    ],
)
@pytest.mark.parametrize("leaving", [False, True])
def test_exclusive_rules(labels: dict[str, str], other: dict[str, str], fits: bool, leaving: bool) -> None:
    pool = registered(f"GPU-0,7,40960,{A100},true,hami-core:", ({"app": "a"}, {"app": "c", "tier": "x"}))
    old = labelled(renamed("old", {IDS: "GPU-0,NVIDIA,1,0:"}, cards=1), other)
    (pool.keep_rules if leaving else pool.add)(old)
    new = labelled(renamed(cards=1, memory=1), labels)
    assert (not pool.fit(new, "").reason) is fits
    if not leaving:
        pool.remove(old)
        assert not pool.fit(new, "").reason


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (None, ()),
        ("app", ()),
        ([{"app": "a"}, {}, "x", {"app": 3}, {"app": "b", "n": 1}], ({"app": "a"}, {"app": "b"})),
    ],
)
def test_what_is_not_a_label_is_left_out_of_rules(value: Any, rules: tuple[dict[str, str], ...]) -> None:
    assert exclusive_rules(value) == rules
