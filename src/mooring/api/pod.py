"""Pods: what they run, what they ask for, where they may go, and how they fare."""

import functools
from typing import Final

from msgspec import field

from mooring.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from mooring.api.meta import Condition, Model, NamespacedObject, ObjectMeta
from mooring.api.quantity import QuantityLike
from mooring.api.resources import pod_requests
from mooring.api.volumes import Volume

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class ContainerPort(Model, kw_only=True):
    """A port a container listens on, and the port of the node it is reachable at."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: str = ""

    @property
    def host_key(self) -> tuple[str, str, int]:
        """What the port takes of the node: address, protocol and port, with Kubernetes' defaults."""
        return self.host_ip or "0.0.0.0", self.protocol or "TCP", self.host_port


class ResourceClaimUse(Model, kw_only=True):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Model, kw_only=True):
    """What a container or a whole pod asks for and may use at most."""

    requests: dict[str, QuantityLike] = field(default_factory=dict)
    limits: dict[str, QuantityLike] = field(default_factory=dict)
    claims: tuple[ResourceClaimUse, ...] = ()


class RestartRuleExitCodes(Model, kw_only=True):
    """The exit codes a restart rule is about."""

    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Model, kw_only=True):
    """What happens when a container exits with certain codes."""

    action: str = ""
    exit_codes: RestartRuleExitCodes | None = None


class Container(Model, kw_only=True):
    """One container of a pod."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether, as an init container, it keeps running beside the others (`restartPolicy: Always`)."""
        return self.restart_policy == "Always"


class PodSchedulingGate(Model, kw_only=True):
    """Holds a pod back until somebody removes it."""

    name: str = ""


class PodResourceClaim(Model, kw_only=True):
    """A dynamic resource claim of a pod, by name or by template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Model, kw_only=True):
    """The pod group that a pod is scheduled with."""

    pod_group_name: str | None = None


class PodOS(Model, kw_only=True):
    """The operating system a pod is made for."""

    name: str = ""


class PodSpec(Model, kw_only=True):
    """What a pod wants, as far as placing it is concerned."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool | None = None
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    overhead: dict[str, QuantityLike] = field(default_factory=dict)
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    os: PodOS | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: PodSchedulingGroup | None = None


class ContainerStatus(Model, kw_only=True):
    """How a container fares, and what the node really gave it."""

    name: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    ready: bool = False
    restart_count: int = 0
    allocated_resources: dict[str, QuantityLike] = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Model, kw_only=True):
    """The claim that was made for an entry of `spec.resourceClaims`."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Model, kw_only=True):
    """Which request of a generated claim serves which extended resource of which container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Model, kw_only=True):
    """The claim that was made for a pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(Model, kw_only=True):
    """How a pod fares."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, QuantityLike] = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodTemplateSpec(Model, kw_only=True):
    """The pods that a workload makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Pod(NamespacedObject, kw_only=True, dict=True, gc=True):
    """A pod. It has a dictionary beside its fields, so that what was computed from it can be kept on it."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Pod")
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def node_name(self) -> str:
        """The node the pod is bound to, or empty."""
        return self.spec.node_name

    @property
    def priority(self) -> int:
        """The pod's priority; absent counts as 0."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        """The profile that places the pod."""
        return self.spec.scheduler_name or DEFAULT_SCHEDULER_NAME

    @property
    def may_preempt(self) -> bool:
        """Whether the pod's policy lets it push out pods of lower priority."""
        return self.spec.preemption_policy != "Never"

    @property
    def is_terminating(self) -> bool:
        """Whether the pod was told to go."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether the pod has run to its end and holds nothing on its node any more."""
        return self.status.phase in {"Succeeded", "Failed"}

    @functools.cached_property
    def requests(self) -> dict[str, int]:
        """What the pod asks for as a whole: CPU in thousandths, all else in whole units. Read-only."""
        return pod_requests(self)

    def condition(self, kind: str) -> Condition | None:
        """The status condition of that type, if there is one."""
        for condition in self.status.conditions:
            if condition.type == kind:
                return condition
        return None
