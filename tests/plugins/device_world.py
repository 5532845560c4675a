"""Builders of devices for tests."""

from __future__ import annotations

from typing import Any

from mooring.api.codec import fit
from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.plugins.dynamic_resources.allocator import Search, Solution, Usage
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.claim_plan import ClaimPlan
from mooring.plugins.dynamic_resources.pools import DeviceContents, Pool, SliceDevices, gather_pools
from mooring.plugins.dynamic_resources.selectors import Selectors
from mooring.releases import V1_36, Release

DRIVER = "gpu.example.com"
UNUSED = Usage({}, {}, {})


def gpu_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return fit({"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}, DeviceClass)


def gpu_slice(node: str = "n0", devices: int | list[dict[str, Any]] = 2, **spec: Any) -> ResourceSlice:
    """A slice of a node, whose pool has the node's name."""
    listed = [{"name": f"gpu-{n}"} for n in range(devices)] if isinstance(devices, int) else devices
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    selection = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": node}
    name = spec.pop("name", f"slice-{node}")
    body = {"driver": DRIVER, "pool": pool, "devices": listed, **selection, **spec}
    return fit({"metadata": {"name": name}, "spec": body}, ResourceSlice)


def exactly(count: int = 1, name: str = "r", device_class: str = "gpu", **fields: Any) -> dict[str, Any]:
    mode = {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": device_class, **mode, **fields}}


def claim(*requests: dict[str, Any], name: str = "c", namespace: str = "default", **fields: Any) -> ResourceClaim:
    """A claim; its uid is its name."""
    devices = {"requests": list(requests or [exactly()]), **fields.pop("devices", {})}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **fields.pop("metadata", {})}
    return fit({"metadata": metadata, "spec": {"devices": devices}, **fields}, ResourceClaim)


def allocated(*devices: str, pool: str = "n0", **result: Any) -> dict[str, Any]:
    """The status of a claim with an allocation on one node."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": each, **result} for each in devices]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
    return {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}}


def pools(*slices: ResourceSlice, node: str = "n0", release: Release = V1_36) -> list[Pool]:
    contents = DeviceContents(allocator_features(release))
    made = [SliceDevices(each, contents, release) for each in slices]
    return gather_pools(node, made, lambda pool: [each for each in made if each.pool == pool], lambda _selector: True)


def plans(
    *claims: ResourceClaim, classes: tuple[DeviceClass, ...] = (gpu_class(),), release: Release = V1_36
) -> list[ClaimPlan]:
    known, selectors = {each.name: each for each in classes}, Selectors(release)
    return [ClaimPlan(each.spec, known.get, selectors, release) for each in claims]


def search(
    found: list[Pool],
    *claims: ResourceClaim,
    usage: Usage = UNUSED,
    classes: tuple[DeviceClass, ...] = (gpu_class(),),
    release: Release = V1_36,
) -> Solution | None:
    return Search(plans(*claims, classes=classes, release=release), found, usage, lambda: None).run()


def names(found: list[Pool], solution: Solution | None) -> list[list[str]] | None:
    """The names of the chosen devices by claim."""
    if solution is None:
        return None
    return [[found[each.position[0]].ids[each.position[1]][2] for each in part.devices] for part in solution]
