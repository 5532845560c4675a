"""NPUs of MindCluster: those of a node, and the ones that a pod gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.codec import decode_object
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_pools import Fit
from mooring.batch.mindcluster_npus import NPU_CORES, MindClusterNpus
from mooring.batch.mindcluster_reports import NpuReport, NpuReports
from tests.batch.cases import Object, node, pod

KIND = "huawei.com/Ascend310P"


def npu_node(chips: int = 2, cores: int = 8, **labels: str | None) -> Object:
    """A node with NPUs of 8 AI cores and 7 AI CPUs."""
    known = {
        "accelerator": "huawei-Ascend310P",
        "servertype": f"Ascend310P-{cores}",
        "node.kubernetes.io/npu.chip.name": "310P3",
    }
    amounts: dict[str, Any] = {NPU_CORES: str(chips * cores)}
    made = node("a", labels={key: text for key, text in {**known, **labels}.items() if text is not None}, **amounts)
    names = {f"Ascend310P-{number}": {"IP": "", "SuperDeviceID": 0} for number in range(chips)}
    made["metadata"]["annotations"] = {"baseDeviceInfos": json.dumps(names)}
    return made


def report(**more: str) -> NpuReports:
    lists = {KIND: "", **{f"{KIND}-{name}": text for name, text in more.items()}}
    return NpuReports({"a": NpuReport(lists, 5)})


def npus(
    *pods: Pod | tuple[Pod, bool], made: Object | None = None, reports: NpuReports | None = None
) -> MindClusterNpus:
    item = decode_object(made or npu_node())
    assert isinstance(item, Node)
    found = MindClusterNpus.of(item, reports or report())
    assert found is not None
    found.start((each, False) if isinstance(each, Pod) else each for each in pods)
    return found


def asking(cores: int, name: str = "p", on: str = "", real: str | None = "x", **labels: str) -> Pod:
    """A pod that requests AI cores, or that has NPUs; ``real`` is what the device plugin reports."""
    made = pod(name, "g", cpu="")
    made["metadata"]["uid"] = f"uid-{name}"
    amounts = {NPU_CORES: str(cores)}
    made["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": dict(amounts)}
    made["metadata"]["labels"] = {"ring-controller.atlas": "ascend-310P"}
    made["metadata"]["labels"].update({key.replace("_", "-"): text for key, text in labels.items()})
    if on:
        made["metadata"]["annotations"][NPU_CORES] = on
        if real is not None:
            made["metadata"]["annotations"]["huawei.com/AscendReal"] = real
    found = decode_object(made)
    assert isinstance(found, Pod)
    return found


def given(fit: Fit) -> str | None:
    return fit.annotations.get(NPU_CORES)


@pytest.mark.parametrize(
    ("cores", "labels", "expected"),
    [
        (1, {}, "0-vir01"),
        (2, {}, "0-vir02_1c"),
        (2, {"vnpu_level": "high"}, "0-vir02"),
        (2, {"vnpu_level": "odd"}, "0-vir02_1c"),
        (4, {}, "0-vir04_3c"),
        (4, {"vnpu_level": "high"}, "0-vir04"),
        (4, {"vnpu_dvpp": "yes"}, "0-vir04_4c_dvpp"),
        (4, {"vnpu_dvpp": "no", "vnpu_level": "high"}, "0-vir04_3c_ndvpp"),
        (8, {}, "0"),
        (16, {}, "0,1"),
        (24, {}, None),
        (3, {}, None),
        (0, {}, None),
        (2, {"vnpu_dvpp": "perhaps"}, None),
        (8, {"vnpu_dvpp": "perhaps"}, "0"),
    ],
)
def test_templates(cores: int, labels: dict[str, str], expected: str | None) -> None:
    assert given(npus().fit(asking(cores, **labels), "")) == expected


def test_the_npu_with_the_least_room_is_used() -> None:
    tested = npus(asking(2, "q", on="1-vir02_1c"))
    assert given(tested.fit(asking(2), "")) == "1-vir02_1c"
    tested.remove(asking(2, "q"))
    assert given(tested.fit(asking(2), "")) == "0-vir02_1c"


def test_pods_of_a_session_use_what_they_get() -> None:
    tested = npus()
    chosen = []
    for number in range(5):
        text = given(tested.fit(asking(4, f"p{number}"), ""))
        chosen.append(text)
        if text:
            tested.add(asking(4, f"p{number}", on=text))
    assert chosen == ["0-vir04_3c", "0-vir04_3c", "1-vir04_3c", "1-vir04_3c", None]
    tested.remove(asking(4, "p0"))
    assert given(tested.fit(asking(4), "")) == "0-vir04_3c"


def test_fewer_cpus_where_no_npu_has_enough() -> None:
    """Two vNPUs with 4 of the 7 AI CPUs of an NPU do not fit, but one with 3 does."""
    high = asking(4, vnpu_level="high")
    crowded = npus((asking(4, "q", on="0-vir04"), True), made=npu_node(1))
    found = crowded.fit(high, "")
    assert (given(found), found.reduced) == ("0-vir04_3c", True)
    free = npus().fit(high, "")
    assert (given(free), free.reduced) == ("0-vir04", False)
    fit = npus(asking(4, "q", on="0-vir04"), made=npu_node(1)).fit(high, "")
    assert fit.reason == "the node runs pods with another template of vNPUs", "with fewer AI CPUs, it is another one"


@pytest.mark.parametrize(
    ("held", "cores", "fits"),
    [("0-vir01", 1, True), ("0-vir01", 2, False), ("0", 1, False), ("0", 8, False), ("0-vir01", 8, False)],
)
def test_a_node_runs_pods_of_one_template(held: str, cores: int, fits: bool) -> None:
    assert bool(given(npus(asking(1, "q", on=held)).fit(asking(cores), ""))) == fits


def test_the_template_of_a_pod_that_is_being_deleted_does_not_count_but_its_npu_does() -> None:
    tested = npus((asking(8, "q", on="0"), True), made=npu_node(1))
    assert tested.fit(asking(1), "").reason == "no NPU has enough free AI cores and AI CPUs"


def test_npus_in_parts_are_not_given_whole() -> None:
    tested = npus((asking(1, "q", on="0-vir01"), True), made=npu_node(2))
    assert given(tested.fit(asking(8), "")) == "1"
    assert given(tested.fit(asking(16), "")) is None


@pytest.mark.parametrize("real", [None, ""])
def test_an_npu_waits_for_the_report_of_the_device_plugin(real: str | None) -> None:
    tested = npus(asking(1, "q", on="0-vir01", real=real))
    assert given(tested.fit(asking(1), "")) == "1-vir01"


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        ("vir04_4c_dvpp", "yes", False),
        ("vir04_4c_dvpp", "null", False),
        ("vir04_4c_dvpp", "no", True),
        ("vir04_3c", "yes", False),
        ("vir04_3c", "null", True),
        ("vir04_3c_ndvpp", "yes", True),
        ("vir04_3c_ndvpp", "null", True),
    ],
)
def test_the_image_processor(held: str, wanted: str, fits: bool) -> None:
    tested = npus((asking(4, "q", on=f"0-{held}"), True), made=npu_node(1))
    assert bool(given(tested.fit(asking(4, vnpu_dvpp=wanted), ""))) == fits


@pytest.mark.parametrize(
    ("groups", "cores", "fits"), [(2, 4, True), (3, 4, False), (3, 2, True), (4, 2, False), (4, 1, True)]
)
def test_groups_of_cores(groups: int, cores: int, fits: bool) -> None:
    """Pods of one core in so many groups leave at least four cores."""
    busy = [
        (asking(1, f"q{number}", on="0-vir01", real=f"Ascend310P-1c-{number}-0_{number}"), True)
        for number in range(groups)
    ]
    assert bool(given(npus(*busy, made=npu_node(1)).fit(asking(cores), ""))) == fits


@pytest.mark.parametrize(
    ("reports", "first"),
    [
        (report(), "0"),
        (report(Unhealthy="Ascend310P-0"), "1"),
        (report(Recovering="Ascend310P-0"), "1"),
        (report(Unhealthy="Ascend310P-0,Ascend310P-1"), None),
        (NpuReports({"a": NpuReport({KIND: "Ascend310P-1"}, 5)}, self_maintained=False), "1"),
        (NpuReports({"a": NpuReport({KIND: "Ascend310P-1"}, 0)}, self_maintained=False), None),
        (NpuReports(), None),
        (NpuReports(report().devices, {"a": "PreSeparate"}), None),
        (NpuReports(report().devices, {"a": "UnHealthy"}), "0"),
    ],
)
def test_reports(reports: NpuReports, first: str | None) -> None:
    assert given(npus(reports=reports).fit(asking(8), "")) == first


def test_npus_that_pods_have_otherwise_are_not_free() -> None:
    made = pod("q", "g")
    made["metadata"]["annotations"][KIND] = "Ascend310P-0"
    other = decode_object(made)
    assert isinstance(other, Pod)
    assert given(npus(other).fit(asking(8), "")) == "1"


@pytest.mark.parametrize(
    "labels",
    [
        {"accelerator": None},
        {"accelerator": "huawei"},
        {"servertype": "Ascend310P"},
        {"servertype": "Ascend310P-x"},
        {"servertype": "Ascend310P-0"},
        {"servertype": "Ascend310P-7"},
        {"servertype": "Ascend310P-16"},
        {"node.kubernetes.io/npu.chip.name": None},
    ],
)
def test_nodes_with_other_labels_get_no_pods(labels: dict[str, str | None]) -> None:
    fit = npus(made=npu_node(**labels)).fit(asking(8), "")
    assert fit.final
    assert not fit.annotations


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}'])
def test_annotations_that_cannot_be_parsed(text: str) -> None:
    made = npu_node()
    made["metadata"]["annotations"]["baseDeviceInfos"] = text
    assert given(npus(made=made).fit(asking(8), "")) is None


@pytest.mark.parametrize("text", ["", "x", "0-", "-", "0-vir01-x", "x-vir01", "0,x", "0," * 5000, "9" * 50, "-1"])
def test_hostile_annotations_of_pods(text: str) -> None:
    tested = npus((asking(8, "q", on=text), True))
    assert given(tested.fit(asking(8), "")) is not None
    tested.add(asking(8, "r", on=text))
    tested.remove(asking(8, "r"))


def test_a_pod_without_npus_uses_none_whatever_its_annotation_says() -> None:
    made = pod("q", "g")
    made["metadata"]["annotations"][NPU_CORES] = "0,1"
    found = decode_object(made)
    assert isinstance(found, Pod)
    assert given(npus(found).fit(asking(16), "")) == "0,1"


def test_what_is_evicted_and_kept_after_all_is_as_before() -> None:
    held = asking(1, "q", on="0-vir01")
    tested = npus(held)
    tested.remove(held)
    assert given(tested.fit(asking(16), "")) == "0,1"
    tested.add(held)
    assert tested.fit(asking(16), "").final


def test_other_types() -> None:
    labels = {
        "accelerator": "huawei-Ascend910",
        "servertype": "Ascend910-20",
        "node.kubernetes.io/npu.chip.name": "910B3",
    }
    made = npu_node(1, 20, **labels)
    reports = NpuReports({"a": NpuReport({"huawei.com/Ascend910": "Ascend910-3"}, 5)}, self_maintained=False)
    assert given(npus(made=made, reports=reports).fit(asking(20), "")) == "3"


def test_annotations_at_the_bind() -> None:
    assert npus().bind_annotations({NPU_CORES: "0"}, 2.5) == {NPU_CORES: "0", "predicate-time": "2500000000"}


def test_nodes_without_npus() -> None:
    item = decode_object(node("b"))
    assert isinstance(item, Node)
    assert MindClusterNpus.of(item, NpuReports()) is None
