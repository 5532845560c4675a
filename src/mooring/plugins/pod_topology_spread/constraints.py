"""Compiled spread constraints of a pod or of the default configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.affinity import TopologySpreadConstraint
from mooring.api.label_selectors import Selector, compile_selector, selector_from_labels
from mooring.checkpoints import checkpoint
from mooring.columns.counters import CounterRegistry, PodCounter
from mooring.columns.regions import Region, Regions
from mooring.columns.terms import PodTerm
from mooring.framework import PodTemplate

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

#: The constraints of pods without any, with ``defaultingType: System``.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)


class Constraint(msgspec.Struct, frozen=True):
    """One compiled constraint."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    #: Whether pods count only on nodes that match the pod's node affinity.
    honor_affinity: bool = True
    #: Whether pods count only on nodes whose taints the pod tolerates.
    honor_taints: bool = False


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str, *, match_keys: bool = True
) -> tuple[Constraint, ...]:
    """Compile the constraints of one kind (HARD or SOFT). Raises SelectorError if a selector is invalid.

    Without ``match_keys``, the field matchLabelKeys is ignored.
    """
    return tuple(_compile(each, labels, match_keys) for each in constraints if each.when_unsatisfiable == action)


def _compile(constraint: TopologySpreadConstraint, labels: Mapping[str, str], match_keys: bool) -> Constraint:
    checkpoint()
    selector = compile_selector(constraint.label_selector)
    if match_keys and constraint.match_label_keys:
        alike = {key: labels[key] for key in constraint.match_label_keys if key in labels}
        if alike:
            selector = selector.with_requirements(*selector_from_labels(alike).requirements)
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in {None, "Honor"},
        constraint.node_taints_policy == "Honor",
    )


class Target:
    """A constraint of a template, with the counter of matching pods and the nodes on which they count."""

    __slots__ = ("_counter", "_registry", "_term", "constraint", "namespace", "region", "self_match")

    def __init__(
        self,
        constraint: Constraint,
        namespace: str,
        labels: Mapping[str, str],
        region: Region,
        registry: CounterRegistry,
    ) -> None:
        selector = constraint.selector
        self.constraint = constraint
        self.namespace = namespace
        self.region = region
        #: 1 if the pod matches its own selector.
        self.self_match = int(selector.matches(labels))
        self._registry = registry
        self._counter: PodCounter | None = None
        # An empty selector counts no pods, although it matches every pod.
        countless = selector.is_empty or selector.matches_nothing
        self._term = None if countless else PodTerm(frozenset((namespace,)), selector)

    @property
    def counter(self) -> PodCounter | None:
        """The counter of matching pods that are not terminating; None if no pod counts."""
        if self._term is None:
            return None
        self._counter = self._registry.current(self._counter, (self._term,), living_only=True)
        return self._counter

    def weight_of(self, template: PodTemplate) -> int:
        """Return 1 if a hypothetical pod of a template counts, else 0."""
        return int(template.namespace == self.namespace and self.constraint.selector.matches(template.labels))


class Plan:
    """The constraints of one kind of a template."""

    __slots__ = ("_make_targets", "_targets", "constraints", "keyed", "keys")

    def __init__(
        self,
        constraints: tuple[Constraint, ...],
        template: PodTemplate,
        regions: Regions,
        registry: CounterRegistry,
        *,
        all_keys: bool = True,
    ) -> None:
        keys = frozenset(constraint.topology_key for constraint in constraints)
        #: Each topology key once, and the nodes that have all of them.
        self.keys = keys
        self.keyed = regions.of(keys)
        found = {
            kind: regions.of(
                keys if all_keys else frozenset(),
                template.node_requirement if kind[0] else None,
                template.pod.spec.tolerations if kind[1] else None,
            )
            for kind in {(each.honor_affinity, each.honor_taints) for each in constraints}
        }
        self.constraints = constraints
        self._targets: tuple[Target, ...] | None = None
        namespace, labels = template.namespace, template.labels  # the template keeps the plan: do not refer to it
        self._make_targets: Callable[[], tuple[Target, ...]] = lambda: tuple(
            Target(each, namespace, labels, found[each.honor_affinity, each.honor_taints], registry)
            for each in constraints
        )

    @property
    def targets(self) -> tuple[Target, ...]:
        """A target per constraint. They are created on first use: no node may have the keys that a tenant wrote."""
        if self._targets is None:
            self._targets = self._make_targets()
        return self._targets
