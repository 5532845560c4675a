"""The ConfigMaps of MindCluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import BatchConf, read_conf
from mooring.batch.mindcluster_reports import NpuReport, in_places, npu_reports, report_places
from mooring.batch.plugins import PLUGINS

LIST = {"huawei.com/Ascend310P": "Ascend310P-0"}


def conf(**parameters: Any) -> BatchConf:
    given = json.dumps([{"name": "init-params", "arguments": parameters}])
    read = read_conf(f"actions: allocate\nconfigurations: {given}\n", actions=ACTIONS, plugins=PLUGINS)
    assert read.warnings == ()
    return read


def config_map(name: str, namespace: str, **data: Any) -> dict[str, Any]:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    return {"metadata": {"name": name, "namespace": namespace}, "data": texts}


def collected(devices: Any, name: str = "cluster-info-device-0") -> dict[str, Any]:
    return config_map(name, "mindx-dl", **{name: devices})


def test_reports_of_all_nodes() -> None:
    found = npu_reports(
        conf(),
        [
            collected({"mindx-dl-deviceinfo-a": {"DeviceList": LIST, "UpdateTime": 7, "SuperPodID": -2}}),
            collected({"mindx-dl-nodeinfo-a": {"NodeStatus": "PreSeparate"}}, "cluster-info-node-cm"),
            collected({"a": {}}, "cluster-info-switch-0"),
        ],
    )
    assert found.devices == {"a": NpuReport(LIST, 7)}
    assert found.statuses == {"a": "PreSeparate"}
    assert found.self_maintained


def test_reports_of_each_node() -> None:
    found = npu_reports(
        conf(useClusterInfoManager="false", **{"self-maintain-available-card": False}),
        [
            config_map(
                "mindx-dl-deviceinfo-a",
                "kube-system",
                DeviceInfoCfg={"DeviceInfo": {"DeviceList": LIST, "UpdateTime": 7}},
            ),
            config_map("mindx-dl-deviceinfo-b", "mindx-dl", DeviceInfoCfg={}),
            config_map("mindx-dl-nodeinfo-a", "mindx-dl", NodeInfo={"NodeInfo": {"NodeStatus": "Healthy"}}),
            config_map("mindx-dl-nodeinfo-b", "kube-system", NodeInfo={"NodeInfo": {"NodeStatus": "Healthy"}}),
        ],
    )
    assert found.devices == {"a": NpuReport(LIST, 7)}
    assert found.statuses == {"a": "Healthy"}
    assert not found.self_maintained


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}', '{"a": {"DeviceList": []}}', "[" * 100_000])
def test_what_cannot_be_parsed_is_left_out(text: str) -> None:
    whole = {"mindx-dl-deviceinfo-a": {"DeviceList": LIST, "UpdateTime": 7}}
    found = npu_reports(conf(), [collected(text), collected(whole, "cluster-info-device-1"), {}])
    assert set(found.devices) == {"a"}


def test_places() -> None:
    assert [tuple(each) for each in report_places(conf())] == [("mindx-dl", "mx-consumer-volcano")]
    places = report_places(conf(useClusterInfoManager="false"))
    assert [tuple(each) for each in places] == [("kube-system", "mx-consumer-cim"), ("mindx-dl", "mx-consumer-cim")]
    inside = {"metadata": {"namespace": "mindx-dl", "labels": {"mx-consumer-cim": "true"}}}
    assert in_places(inside, places)
    assert not in_places(inside, report_places(conf()))
    assert not in_places({}, places)
