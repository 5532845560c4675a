"""Reports of NUMA zones for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.plugins.node_resource_topology.zones import NodeResourceTopology

SINGLE = {"topologyManagerPolicy": "single-numa-node"}
POD = {**SINGLE, "topologyManagerScope": "pod"}


def report(
    node: str,
    *zones: dict[str, Any],
    attributes: dict[str, str] | None = None,
    policies: tuple[str, ...] = (),
    numbers: tuple[int, ...] | None = None,
    costs: dict[int, dict[int, int]] | None = None,
    annotations: dict[str, str] | None = None,
) -> NodeResourceTopology:
    """A node's zones, each given by what it has left; numbered from 0 unless told otherwise."""
    raw_zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": "0", "allocatable": "0", "available": left} for name, left in zone.items()
            ],
            "costs": [
                {"name": f"node-{there}", "value": value} for there, value in (costs or {}).get(number, {}).items()
            ],
        }
        for number, zone in zip(numbers or range(len(zones)), zones, strict=True)
    ]
    return raw_report(node, raw_zones, attributes, policies, annotations)


def raw_report(
    node: str,
    zones: list[dict[str, Any]],
    attributes: dict[str, str] | None = None,
    policies: tuple[str, ...] = (),
    annotations: dict[str, str] | None = None,
) -> NodeResourceTopology:
    raw = {
        "metadata": {"name": node, "annotations": annotations or {}},
        "zones": zones,
        "attributes": [{"name": name, "value": value} for name, value in (attributes or {}).items()],
        "topologyPolicies": list(policies),
    }
    return msgspec.convert(raw, NodeResourceTopology)
