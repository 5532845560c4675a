"""NPUs: those of a node, and the ones that a pod gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.codec import decode_object
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_config import DEFAULT, NpuKind, NpuTemplate
from mooring.batch.device_pools import Fit, Policy
from mooring.batch.shared_npus import SharedNpus
from tests.batch.cases import node, pod

KIND = DEFAULT.npus[0]
LARGE = NpuKind("Ascend910B3", "huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory", 65536, 65536)
IDS = "hami.io/Ascend310P-devices-allocated"


def npu(name: str, count: int = 4, memory: int = 21527, network: Any = None) -> dict[str, Any]:
    made = {"id": name, "count": count, "devmem": memory, "devcore": 8, "type": "Ascend310P", "health": True}
    return made if network is None else {**made, "custominfo": {"NetworkID": network}}


def with_text(text: str, kind: NpuKind = KIND, offered: str = "8") -> SharedNpus | None:
    amounts: dict[str, Any] = {kind.resource_name: offered}
    made = node("a", **amounts)
    made["metadata"]["annotations"] = {f"hami.io/node-register-{kind.common_word}": text}
    found = decode_object(made)
    assert isinstance(found, Node)
    return SharedNpus.of(found, kind)


def npus(*given: dict[str, Any], kind: NpuKind = KIND) -> SharedNpus:
    found = with_text(json.dumps(given), kind)
    assert found is not None
    return found


def asking(*containers: dict[str, Any], name: str = "p", kind: NpuKind = KIND, ids: str = "") -> Pod:
    made = pod(name, "g")
    names = {"npus": kind.resource_name, "memory": kind.resource_memory_name}
    made["spec"]["containers"] = [
        {"name": f"c{number}", "resources": {"limits": {names[key]: str(value) for key, value in each.items()}}}
        for number, each in enumerate(containers)
    ]
    if ids:
        made["metadata"]["annotations"][IDS] = ids
    found = decode_object(made)
    assert isinstance(found, Pod)
    return found


def given(fit: Fit) -> str | None:
    return fit.annotations.get(IDS)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([{"npus": 1}], "A,Ascend310P,21527,0:;"),
        ([{"npus": 1, "memory": 1000}], "A,Ascend310P,3072,0:;"),
        ([{"memory": 5000}], "A,Ascend310P,6144,0:;"),
        ([{"npus": 1, "memory": 20000}], "A,Ascend310P,21527,0:;"),
        ([{"npus": 2}], "A,Ascend310P,21527,0:B,Ascend310P,21527,0:;"),
        ([{"npus": 2, "memory": 3072}], None),
        ([{"npus": 3}], None),
        ([{"npus": 1, "memory": 30000}], None),
        ([{"npus": 0}], "A,Ascend310P,21527,0:;"),
        ([{"npus": 1}, {}, {"memory": 1}], "A,Ascend310P,21527,0:;B,Ascend310P,3072,0:;"),
        ([{"memory": 1}, {"memory": 1}, {"memory": 1}], None),
    ],
)
def test_the_npus_for_a_pod(containers: list[dict[str, Any]], expected: str | None) -> None:
    fit = npus(npu("A"), npu("B")).fit(asking(*containers), "")
    assert given(fit) == expected
    assert bool(fit.reason) is fit.final is (expected is None)


def test_all_annotations() -> None:
    pool = npus(npu("A&"), npu("B"))
    fit = pool.fit(asking({"npus": 1}, {"memory": 1}), "")
    ids = "A&,Ascend310P,21527,0:;B,Ascend310P,3072,0:;"
    assert pool.bind_annotations(fit.annotations, 12.5) == {
        "hami.io/Ascend310P-devices-to-allocate": ids,
        "hami.io/Ascend310P-devices-allocated": ids,
        "huawei.com/Ascend310P": '[{"UUID":"A\\u0026"},{"UUID":"B","temp":"vir01"}]',
        "predicate-time": "12",
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-time": "12",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "12",
    }


@pytest.mark.parametrize(
    ("policy", "chosen", "score"), [("", "A", 0.0), ("binpack", "C", 100 * 9216 / 21527), ("spread", "B", 100.0)]
)
def test_the_policy_chooses_among_npus(policy: Policy, chosen: str, score: float) -> None:
    pool = npus(npu("A"), npu("B"), npu("C"))
    for number, (name, memory) in enumerate((("B", 3072), ("C", 6144), ("C", 3072))):
        pool.add(asking({"npus": 1}, name=f"old-{number}", ids=f"{name},Ascend310P,{memory},0:;"))
    fit = pool.fit(asking({"memory": 1}), policy)
    assert given(fit) == f"{chosen},Ascend310P,3072,0:;"
    assert fit.score == pytest.approx(score)


@pytest.mark.parametrize(
    ("ids", "fits"),
    [
        ("A,Ascend310P,21527,0:;", False),
        ("A,Ascend310P,3072,8:;", False),
        ("A,Ascend310P,3072,0:;", True),
        ("A,Ascend310P,-21527,-9:;", True),
        ("A,Ascend310P:;", True),
        ("A", True),
        ("X,Ascend310P,21527,0:;A,Ascend310P,21527,0:;", False),
        (",,,,,,,", True),
        (":;" * 9999, True),
    ],
)
def test_annotations_of_pods(ids: str, fits: bool) -> None:
    pool, old = npus(npu("A")), asking({"npus": 1}, name="old", ids=ids)
    pool.add(old)
    pool.add(old)
    assert (not pool.fit(asking({"memory": 5000}), "").reason) is fits
    pool.remove(old)
    assert not pool.fit(asking({"npus": 1}), "").reason


def test_the_number_of_pods_is_limited() -> None:
    pool = npus(npu("A", count=1))
    pool.add(asking({"npus": 1}, name="old", ids="A,Ascend310P,3072,0:;"))
    assert pool.fit(asking({"memory": 1}), "").reason == "no ascend device available"


@pytest.mark.parametrize(
    ("networks", "chosen", "score"),
    [((0, 1, 1), "BC", 10.0), ((0, 1, None), "AB", 0.0), ((0, "x", "x"), None, 0.0), ((2.0, True, 2), "AC", 10.0)],
)
def test_npus_of_a_container_are_in_one_network(networks: tuple[Any, ...], chosen: str | None, score: float) -> None:
    pool = npus(*(npu(name, 1, 65536, network) for name, network in zip("ABC", networks, strict=True)), kind=LARGE)
    fit = pool.fit(asking({"npus": 2}, kind=LARGE), "")
    expected = None if chosen is None else "".join(f"{name},Ascend910B3,65536,0:" for name in chosen) + ";"
    assert fit.annotations.get("hami.io/Ascend910B3-devices-allocated") == expected
    assert fit.score == score


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        "[null]",
        '[{"id": 3}]',
        '[{"count": 99999999999}]',
        "[" * 100_000,
        '[{"custominfo": []}]',
    ],
)
def test_registrations_that_cannot_be_parsed_are_no_npus(text: str) -> None:
    assert with_text(text) is None


def test_a_node_must_offer_the_resource() -> None:
    text = json.dumps([npu("A")])
    assert with_text(text) is not None
    assert with_text(text, offered="0") is None


def test_npus_without_memory_divide_by_nothing() -> None:
    kind = NpuKind("Ascend310P", KIND.resource_name, KIND.resource_memory_name, 1, 1, (NpuTemplate("t", 1),))
    fit = npus(npu("A", memory=0), kind=kind).fit(asking({"npus": 1}), "binpack")
    assert (given(fit), fit.score) == ("A,Ascend310P,0,0:;", 0.0)
