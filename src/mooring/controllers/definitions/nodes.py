"""The definitions of Volcano's objects about nodes: Numatopology, NodeShard and ColocationConfiguration."""

from __future__ import annotations

from mooring.controllers.definitions.structural_schema import (
    Schema,
    column,
    condition,
    definition,
    label_selector,
    listed,
    made_of,
    mapped,
    moment,
    text,
)


def _index() -> Schema:
    return {"type": "integer", "minimum": 0}


def _percent(default: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": 100, "default": default}


#: The NUMA nodes and CPUs of a node, which Volcano's resource exporter writes.
NUMA_TOPOLOGY = definition(
    "nodeinfo.volcano.sh",
    "v1alpha1",
    "Numatopology",
    properties={
        "spec": made_of(
            {
                "policies": mapped(text()),
                "resReserved": mapped(text()),
                "numares": mapped(made_of({"allocatable": text(), "capacity": {"type": "integer"}})),
                "cpuDetail": mapped(made_of({key: _index() for key in ("numa", "socket", "core")})),
            }
        )
    },
    short_names=("numatopo",),
    plural="numatopologies",
    namespaced=False,
)

#: The nodes of one of several schedulers.
NODE_SHARD = definition(
    "shard.volcano.sh",
    "v1alpha1",
    "NodeShard",
    properties={
        "spec": made_of({"nodesDesired": listed(text())}, required=("nodesDesired",)),
        "status": made_of(
            {
                **{key: listed(text()) for key in ("nodesInUse", "nodesToAdd", "nodesToRemove")},
                "lastUpdateTime": moment(),
            }
        ),
    },
    columns=(column("AGE", ".metadata.creationTimestamp", "date"),),
    required=("spec",),
    short_names=("nsh",),
    namespaced=False,
    status=True,
)

#: The settings of Volcano's agent, which shares nodes between online and offline workloads.
COLOCATION_CONFIGURATION = definition(
    "config.volcano.sh",
    "v1alpha1",
    "ColocationConfiguration",
    properties={
        "spec": made_of(
            {
                "selector": label_selector(),
                "memoryQos": made_of({"highRatio": _percent(100), "lowRatio": _percent(0), "minRatio": _percent(0)}),
            }
        ),
        "status": made_of(
            {
                "conditions": listed(
                    condition(), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
                )
            }
        ),
    },
    required=("spec",),
    status=True,
)
