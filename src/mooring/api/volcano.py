"""Volcano's queues and pod groups, and resource quotas."""

from typing import Final

from msgspec import field

from mooring.api.meta import KubeObject, LabelSelector, Model, NamespacedObject
from mooring.api.quantity import QuantityLike

SCHEDULING_GROUP: Final = "scheduling.volcano.sh"
SCHEDULING_VERSION: Final = f"{SCHEDULING_GROUP}/v1beta1"
#: The annotation with the name of the PodGroup of a pod.
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
#: Volcano's own scheduling gate, which is removed when the queue has room. The annotation of this name requests it.
QUEUE_GATE: Final = f"{SCHEDULING_GROUP}/queue-allocation-gate"

Amounts = dict[str, QuantityLike]


class NetworkTopology(Model, kw_only=True):
    """The network topology constraint of a pod group."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Model, kw_only=True):
    """A policy that splits the pods of a group into smaller gangs, by labels."""

    name: str = ""
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    network_topology: NetworkTopology | None = None


class PodGroupSpec(Model, kw_only=True):
    """The specification of a pod group."""

    min_member: int = 0
    min_task_member: dict[str, int] = field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Amounts | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Model, kw_only=True):
    """One entry of a PodGroup's conditions; `transition_id` names the session that wrote it."""

    type: str = ""
    status: str = ""
    transition_id: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Model, kw_only=True):
    """The status of a pod group."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(NamespacedObject, kw_only=True):
    """A pod group: pods that are scheduled together or not at all."""

    api_version: str = field(default_factory=lambda: SCHEDULING_VERSION)
    kind: str = field(default_factory=lambda: "PodGroup")
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(Model, kw_only=True):
    """The guaranteed resources of a queue."""

    resource: Amounts = field(default_factory=dict)


class GroupAffinity(Model, kw_only=True):
    """Required and preferred node groups of a queue."""

    required_during_scheduling_ignored_during_execution: tuple[str, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[str, ...] = ()


class QueueAffinity(Model, kw_only=True):
    """The node group affinity of a queue."""

    node_group_affinity: GroupAffinity | None = None
    node_group_anti_affinity: GroupAffinity | None = None


class ExtendCluster(Model, kw_only=True):
    """Another cluster to which the jobs of a queue may be forwarded."""

    name: str = ""
    weight: int = 0


class QueueSpec(Model, kw_only=True):
    """The specification of a queue."""

    weight: int = 1
    capability: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0
    affinity: QueueAffinity | None = None
    extend_clusters: tuple[ExtendCluster, ...] = ()
    type: str = ""


class QueueStatus(Model, kw_only=True):
    """The status of a queue."""

    state: str = ""
    allocated: Amounts = field(default_factory=dict)
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0


class Queue(KubeObject, kw_only=True):
    """A queue: a share of the cluster."""

    api_version: str = field(default_factory=lambda: SCHEDULING_VERSION)
    kind: str = field(default_factory=lambda: "Queue")
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class ResourceQuotaSpec(Model, kw_only=True):
    """The limits of a resource quota."""

    hard: Amounts = field(default_factory=dict)


class ResourceQuotaStatus(Model, kw_only=True):
    """The limits in effect, and their usage."""

    hard: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)


class ResourceQuota(NamespacedObject, kw_only=True):
    """A resource quota."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "ResourceQuota")
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
