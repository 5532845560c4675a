"""What MindCluster reports about the NPUs of nodes, in ConfigMaps: which of them are healthy, and whether the node is.

ClusterD collects the reports of all nodes (the default); otherwise each node has ConfigMaps of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.batch.conf import INIT_PARAMETERS, BatchConf

_MINDX: Final = "mindx-dl"
_DEVICES: Final = "mindx-dl-deviceinfo-"
_NODES: Final = "mindx-dl-nodeinfo-"
_ALL_DEVICES: Final = "cluster-info-device-"
_ALL_NODES: Final = "cluster-info-node-cm"


class Place(NamedTuple):
    """A namespace and a label; ConfigMaps with the value `true` of it are read."""

    namespace: str
    label: str


class NpuReport(msgspec.Struct, frozen=True):
    """The NPUs of a node by resource, for example `huawei.com/Ascend310P: Ascend310P-0,Ascend310P-1`."""

    devices: dict[str, str] = msgspec.field(default_factory=dict, name="DeviceList")
    updated: int = msgspec.field(default=0, name="UpdateTime")


class _NodeStatus(msgspec.Struct, frozen=True):
    status: str = msgspec.field(default="", name="NodeStatus")


class _OwnReport(msgspec.Struct, frozen=True):
    report: NpuReport = msgspec.field(default=NpuReport(), name="DeviceInfo")


class _OwnStatus(msgspec.Struct, frozen=True):
    status: _NodeStatus = msgspec.field(default=_NodeStatus(), name="NodeInfo")


class NpuReports(msgspec.Struct, frozen=True):
    """The reports of all nodes.

    Attributes:
        devices: The NPUs by the name of the node.
        statuses: The states of nodes by name, as far as they are reported.
        self_maintained: Whether the free NPUs follow from the node's annotation and its pods instead of the report.
    """

    devices: dict[str, NpuReport] = msgspec.field(default_factory=dict)
    statuses: dict[str, str] = msgspec.field(default_factory=dict)
    self_maintained: bool = True


def report_places(conf: BatchConf) -> tuple[Place, ...]:
    """Return where the ConfigMaps are."""
    if _is_true(conf, "useClusterInfoManager"):
        return (Place(_MINDX, "mx-consumer-volcano"),)
    return Place("kube-system", "mx-consumer-cim"), Place(_MINDX, "mx-consumer-cim")


def npu_reports(conf: BatchConf, config_maps: Iterable[Mapping[str, Any]]) -> NpuReports:
    """Read the ConfigMaps of these places. Those that cannot be parsed are left out."""
    devices: dict[str, NpuReport] = {}
    statuses: dict[str, str] = {}
    collected = _is_true(conf, "useClusterInfoManager")
    for each in config_maps:
        name, namespace, data = _head(each)
        if collected and name.startswith(_ALL_DEVICES):
            devices.update(_by_node(_parsed(data, name, dict[str, NpuReport]), _DEVICES))
        elif collected and name == _ALL_NODES:
            found = _parsed(data, name, dict[str, _NodeStatus])
            statuses.update((node, each.status) for node, each in _by_node(found, _NODES))
        elif not collected and namespace != _MINDX and name.startswith(_DEVICES):
            own = _parsed(data, "DeviceInfoCfg", _OwnReport)
            if own is not None:
                devices[name.removeprefix(_DEVICES)] = own.report
        elif not collected and namespace == _MINDX and name.startswith(_NODES):
            state = _parsed(data, "NodeInfo", _OwnStatus)
            if state is not None:
                statuses[name.removeprefix(_NODES)] = state.status.status
    return NpuReports(devices, statuses, _is_true(conf, "self-maintain-available-card"))


def in_places(config_map: Mapping[str, Any], places: Iterable[Place]) -> bool:
    """Return whether a ConfigMap is in one of the places."""
    metadata = config_map.get("metadata") or {}
    labels = metadata.get("labels") or {}
    return any(metadata.get("namespace") == place.namespace and labels.get(place.label) == "true" for place in places)


def _is_true(conf: BatchConf, name: str) -> bool:
    given = conf.configurations.get(INIT_PARAMETERS, {})
    return name not in given or given[name] is True or given[name] == "true"


def _head(config_map: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    metadata = config_map.get("metadata") or {}
    return metadata.get("name") or "", metadata.get("namespace") or "", config_map.get("data") or {}


def _parsed(data: Mapping[str, Any], key: str, kind: Any) -> Any:
    """Return the parsed value of a key; None if it is missing, empty or invalid."""
    text = data.get(key)
    try:
        return msgspec.json.decode(text, type=kind) if isinstance(text, str) and text else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _by_node(found: Mapping[str, Any] | None, prefix: str) -> Iterator[tuple[str, Any]]:
    return ((name.removeprefix(prefix), each) for name, each in (found or {}).items())
