"""Node and pod affinity, topology spread constraints, taints and tolerations."""

from mooring.api.meta import LabelSelector, Model


class NodeSelectorRequirement(Model, kw_only=True):
    """One expression about a node's label or field."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, kw_only=True):
    """Expressions that must all match; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, kw_only=True):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model, kw_only=True):
    """A node term with a weight."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, kw_only=True):
    """Required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()

    @property
    def required(self) -> NodeSelector | None:
        """Short for `required_during_scheduling_ignored_during_execution`."""
        return self.required_during_scheduling_ignored_during_execution

    @property
    def preferred(self) -> tuple[PreferredSchedulingTerm, ...]:
        """Short for `preferred_during_scheduling_ignored_during_execution`."""
        return self.preferred_during_scheduling_ignored_during_execution


class PodAffinityTerm(Model, kw_only=True):
    """Pods, by label and namespace, that share (or must not share) a topology domain with this one."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model, kw_only=True):
    """A pod affinity term with a weight for each matching pod."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model, kw_only=True):
    """Required and preferred pod affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()

    @property
    def required(self) -> tuple[PodAffinityTerm, ...]:
        """Short for `required_during_scheduling_ignored_during_execution`."""
        return self.required_during_scheduling_ignored_during_execution

    @property
    def preferred(self) -> tuple[WeightedPodAffinityTerm, ...]:
        """Short for `preferred_during_scheduling_ignored_during_execution`."""
        return self.preferred_during_scheduling_ignored_during_execution


class PodAntiAffinity(PodAffinity, kw_only=True):
    """Required and preferred pod anti-affinity."""


class Affinity(Model, kw_only=True):
    """The node and pod affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Model, kw_only=True):
    """The allowed skew of matching pods over the domains of a topology key."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class Taint(Model, kw_only=True):
    """A taint, which repels pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Model, kw_only=True):
    """A toleration of matching taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
