"""Where a pod wants to be: node and pod affinity, spread, taints and tolerations."""

from mooring.api.meta import LabelSelector, Model


class NodeSelectorRequirement(Model, kw_only=True):
    """One expression about a node's label or field."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, kw_only=True):
    """Expressions that must all hold; a term with none chooses nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model, kw_only=True):
    """A node term worth `weight` where it holds."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, kw_only=True):
    """Nodes a pod must or would like to run on."""

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
    """A pod affinity term worth `weight` for each pod it finds."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model, kw_only=True):
    """Pods this pod must or would like to be near to."""

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
    """Pods this pod must not or would rather not be near to."""


class Affinity(Model, kw_only=True):
    """All affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Model, kw_only=True):
    """How unevenly matching pods may be spread over the domains of a topology key."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class Taint(Model, kw_only=True):
    """Keeps pods off a node unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Model, kw_only=True):
    """Lets a pod onto nodes with matching taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
