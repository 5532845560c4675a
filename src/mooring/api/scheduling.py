"""PodGroups of `scheduling.k8s.io`: pods that kube-scheduler 1.37 schedules as a group."""

from typing import Final

from msgspec import field

from mooring.api.meta import Condition, Model, NamespacedObject
from mooring.api.pod import Pod

GROUP: Final = "scheduling.k8s.io"


class BasicSchedulingPolicy(Model, kw_only=True):
    """Schedule as many pods of the group as fit."""


class GangSchedulingPolicy(Model, kw_only=True):
    """Schedule at least `min_count` pods of the group, or none."""

    min_count: int = 0


class PodGroupSchedulingPolicy(Model, kw_only=True):
    """How a group is scheduled; one of the two is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Model, kw_only=True):
    """All pods of the group run on nodes with the same value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(Model, kw_only=True):
    """The constraints on the nodes of a group."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptEach(Model, kw_only=True):
    """The pods of a group are preempted one by one."""


class DisruptAll(Model, kw_only=True):
    """The pods of a group are preempted together."""


class DisruptionMode(Model, kw_only=True):
    """How the pods of a group are preempted; one of the two is set."""

    single: DisruptEach | None = None
    all: DisruptAll | None = None


class PodGroupResourceClaim(Model, kw_only=True):
    """A claim that the pods of a group share, by name or by template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class NativePodGroupSpec(Model, kw_only=True):
    """The specification of a group."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    parent_composite_pod_group_name: str | None = None
    preemption_policy: str | None = None

    @property
    def min_count(self) -> int:
        """The number of pods that must have a node before any is bound."""
        gang = self.scheduling_policy.gang
        return gang.min_count if gang is not None else 1


class PodGroupResourceClaimStatus(Model, kw_only=True):
    """The claim that was created for an entry of `spec.resourceClaims` of a group."""

    name: str = ""
    resource_claim_name: str | None = None


class NativePodGroupStatus(Model, kw_only=True):
    """The status of a group."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class NativePodGroup(NamespacedObject, kw_only=True):
    """A PodGroup of `scheduling.k8s.io`; Volcano's kind of this name is `mooring.api.volcano.PodGroup`.

    Attributes:
        api_version: `scheduling.k8s.io/v1beta1`.
        kind: `PodGroup`.
        spec: The specification: policy, constraints, priority.
        status: The status: conditions, and the names of generated claims.
    """

    api_version: str = field(default_factory=lambda: f"{GROUP}/v1beta1")
    kind: str = field(default_factory=lambda: "PodGroup")
    spec: NativePodGroupSpec = NativePodGroupSpec()
    status: NativePodGroupStatus = NativePodGroupStatus()

    @property
    def topology_key(self) -> str | None:
        """The label whose value all nodes of the group share; None without a constraint."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else None

    @property
    def priority(self) -> int:
        """The priority of the group and of its pods."""
        return self.spec.priority or 0

    @property
    def is_disrupted_as_a_whole(self) -> bool:
        """Whether the pods of the group are preempted together."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.all is not None


def native_group_key(pod: Pod) -> str | None:
    """Return `namespace/name` of the group that a pod names in `spec.schedulingGroup`; None if it names none."""
    group = pod.spec.scheduling_group
    return f"{pod.namespace}/{group.pod_group_name}" if group is not None and group.pod_group_name else None
