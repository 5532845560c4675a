"""Volcano's Numatopology: the CPUs of a node by NUMA node, socket and core, and the policies of its kubelet."""

from typing import Final

from msgspec import field

from mooring.api.meta import KubeObject, Model

NODE_INFO_GROUP: Final = "nodeinfo.volcano.sh"
#: The annotation of a pod with the policy of the topology manager that its node must have.
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"


class CpuInfo(Model, kw_only=True):
    """Where a CPU is."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class NumaResource(Model, kw_only=True):
    """The units of a resource that the kubelet can still assign, as a list such as ``0-3,8``."""

    allocatable: str = ""
    capacity: int = 0


class NumatopologySpec(Model, kw_only=True):
    """The policies of a kubelet's CPU and topology managers, its CPUs, and those that are free."""

    policies: dict[str, str] = field(default_factory=dict)
    res_reserved: dict[str, str] = field(default_factory=dict)
    numares: dict[str, NumaResource] = field(default_factory=dict)
    cpu_detail: dict[str, CpuInfo] = field(default_factory=dict)


class Numatopology(KubeObject, kw_only=True):
    """The CPUs of the node of the same name, which Volcano's resource exporter writes."""

    api_version: str = field(default_factory=lambda: f"{NODE_INFO_GROUP}/v1alpha1")
    kind: str = field(default_factory=lambda: "Numatopology")
    spec: NumatopologySpec = NumatopologySpec()
