"""Builders make the objects that a manifest with the same fields would give."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.meta import KubeObject
from mooring.testing import (
    Builder,
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_namespace,
    make_node,
    make_pdb,
    make_pod,
    make_priority_class,
    make_pv,
    make_pvc,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
    make_storage_class,
    make_volume_attachment,
    selector,
)


def spec_of(builder: Builder[KubeObject]) -> dict[str, object]:
    return msgspec.to_builtins(builder.obj())


CASES = {
    "requests, each a container": (
        make_pod("p").req(cpu="1").req({"nvidia.com/gpu": 2}, ephemeral_storage="1Gi"),
        {
            "spec": {
                "containers": [
                    {"name": "c1", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "c2", "resources": {"requests": {"nvidia.com/gpu": 2, "ephemeral-storage": "1Gi"}}},
                ]
            }
        },
    ),
    "image and ports belong to the last container": (
        make_pod("p").req(cpu="1").image("web").port(80).port(53, "UDP", host_ip="127.0.0.1"),
        {
            "spec": {
                "containers": [
                    {
                        "name": "c1",
                        "image": "web",
                        "resources": {"requests": {"cpu": "1"}},
                        "ports": [
                            {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
                            {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"},
                        ],
                    }
                ]
            }
        },
    ),
    "init containers and sidecars": (
        make_pod("p").init(cpu="1").init(sidecar=True, host_port=80, memory="1Gi"),
        {
            "spec": {
                "initContainers": [
                    {"name": "i1", "resources": {"requests": {"cpu": "1"}}},
                    {
                        "name": "i2",
                        "restartPolicy": "Always",
                        "resources": {"requests": {"memory": "1Gi"}},
                        "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                    },
                ]
            }
        },
    ),
    "tolerations": (
        make_pod("p").toleration("a").toleration("b", "x", "NoSchedule").toleration("c", "1", operator="Gt"),
        {
            "spec": {
                "tolerations": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "b", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
                    {"key": "c", "operator": "Gt", "value": "1"},
                ]
            }
        },
    ),
    "node affinity": (
        make_pod("p")
        .node_affinity_in("zone", ["a", "b"])
        .node_affinity(("disk", "Exists"), fields=[("metadata.name", "In", "n1")])
        .preferred_node_affinity_in(3, "zone", ["a"]),
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                                {
                                    "matchExpressions": [{"key": "disk", "operator": "Exists"}],
                                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                                },
                            ]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 3,
                                "preference": {
                                    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]
                                },
                            }
                        ],
                    }
                }
            }
        },
    ),
    "pod affinity": (
        make_pod("p")
        .pod_affinity("zone", {"app": "db"})
        .pod_anti_affinity("host", selector({}, ("app", "In", "web")), namespaces=["other"])
        .preferred_pod_affinity(5, "zone", {"app": "db"}, namespace_selector={})
        .preferred_pod_anti_affinity(7, "zone", None),
        {
            "spec": {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
                        ],
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 5,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"app": "db"}},
                                    "topologyKey": "zone",
                                    "namespaceSelector": {},
                                },
                            }
                        ],
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {
                                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]
                                },
                                "topologyKey": "host",
                                "namespaces": ["other"],
                            }
                        ],
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 7, "podAffinityTerm": {"topologyKey": "zone"}}
                        ],
                    },
                }
            }
        },
    ),
    "spread": (
        make_pod("p").spread("zone", {"app": "web"}, max_skew=2, when="ScheduleAnyway", match_label_keys=["v"]),
        {
            "spec": {
                "topologySpreadConstraints": [
                    {
                        "topologyKey": "zone",
                        "maxSkew": 2,
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "matchLabelKeys": ["v"],
                    }
                ]
            }
        },
    ),
    "placement and state": (
        make_pod("p").node("n").priority(5).nominated("m").gate("g").phase("Running").terminating(),
        {
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "priority": 5, "schedulingGates": [{"name": "g"}]},
            "status": {"nominatedNodeName": "m", "phase": "Running"},
        },
    ),
    "volumes": (
        make_pod("p").pvc("data").ephemeral("scratch", storage_class="fast").image_volume("img").csi("d"),
        {
            "spec": {
                "volumes": [
                    {"name": "v1", "persistentVolumeClaim": {"claimName": "data"}},
                    {
                        "name": "scratch",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {
                                    "accessModes": ["ReadWriteOnce"],
                                    "resources": {"requests": {"storage": "1Gi"}},
                                    "storageClassName": "fast",
                                }
                            }
                        },
                    },
                    {"name": "v3", "image": {"reference": "img"}},
                    {"name": "v4", "csi": {"driver": "d"}},
                ]
            }
        },
    ),
    "node": (
        make_node("n").capacity(cpu=4).label(zone="a").taint("gpu", "x").image("web:1", size=5).unschedulable(),
        {
            "metadata": {"labels": {"kubernetes.io/hostname": "n", "zone": "a"}},
            "spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}], "unschedulable": True},
            "status": {
                "capacity": {"pods": 110, "cpu": 4},
                "allocatable": {"pods": 110, "cpu": 4},
                "images": [{"names": ["web:1"], "sizeBytes": 5}],
            },
        },
    ),
    "claim": (
        make_pvc("c", storage_class="fast").bound("v").selected_node("n"),
        {
            "metadata": {
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "volume.kubernetes.io/selected-node": "n",
                }
            },
            "spec": {"volumeName": "v", "storageClassName": "fast"},
            "status": {"phase": "Bound"},
        },
    ),
    "volume": (
        make_pv("v", size="5Gi").csi("d", "h").node_affinity(("zone", "In", "a")).claimed(make_pvc("c").obj()),
        {
            "spec": {
                "capacity": {"storage": "5Gi"},
                "csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": "default",
                    "name": "c",
                    "uid": "persistentvolumeclaim-default-c",
                },
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                },
            },
            "status": {"phase": "Bound"},
        },
    ),
    "storage class": (
        make_storage_class("s", provisioner="p", wait=False, topologies=({"zone": ("a", "b")},)),
        {
            "provisioner": "p",
            "volumeBindingMode": "Immediate",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
        },
    ),
    "CSI node": (
        make_csi_node("n", {"d": 3, "e": None}),
        {
            "spec": {
                "drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 3}}, {"name": "e", "nodeID": "n"}]
            }
        },
    ),
    "CSI driver": (make_csi_driver("d", storage_capacity=True), {"spec": {"storageCapacity": True}}),
    "CSI capacity": (
        make_csi_capacity("c", storage_class="s", capacity="1Gi", topology={}),
        {"storageClassName": "s", "capacity": "1Gi", "nodeTopology": {}},
    ),
    "attachment": (
        make_volume_attachment("a", attacher="d", node="n", volume="v"),
        {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
    "budget": (
        make_pdb("b", {"app": "web"}, allowed=2, disrupted=("p",)),
        {
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        },
    ),
    "namespace": (make_namespace("n"), {"metadata": {"labels": {"kubernetes.io/metadata.name": "n"}}}),
    "service": (make_service("s", {"app": "web"}), {"spec": {"selector": {"app": "web"}}}),
    "replication controller": (make_replication_controller("r", {"a": "b"}), {"spec": {"selector": {"a": "b"}}}),
    "replica set": (make_replica_set("r", {"a": "b"}), {"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
    "stateful set": (make_stateful_set("r", {}), {"spec": {"selector": {}}}),
    "priority class": (make_priority_class("high", 7), {"value": 7}),
}


@pytest.mark.parametrize("case", CASES)
def test_fields(case: str) -> None:
    """Each method writes the fields it says, and no test has to spell them out."""
    builder, expected = CASES[case]
    assert contains(spec_of(builder), expected)


def contains(actual: object, expected: object) -> bool:
    """Whether the expected fields are there; lists must be equal in length."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(contains(actual.get(k), v) for k, v in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(actual, (list, tuple)) and len(actual) == len(expected) and all(map(contains, actual, expected))
        )
    return actual == expected


def test_a_base_can_be_used_many_times() -> None:
    """A builder never changes: what is added to one copy is not in the other."""
    base = make_pod("base").label(app="web")
    first, second = base.named("a").req(cpu="1").obj(), base.named("b").label(tier="x").obj()
    assert (first.name, first.labels, len(first.spec.containers)) == ("a", {"app": "web"}, 1)
    assert (second.name, second.labels, len(second.spec.containers)) == ("b", {"app": "web", "tier": "x"}, 0)


def test_uids_tell_objects_apart() -> None:
    """Different names, namespaces or kinds have different uids; a given one stays."""
    uids = [
        make_pod("a").obj().uid,
        make_pod("b").obj().uid,
        make_pod("a", "other").obj().uid,
        make_node("a").obj().uid,
        make_pod("a").uid("mine").obj().uid,
    ]
    assert len(set(uids)) == len(uids)
    assert uids[-1] == "mine"
