"""Where a test's pod wants to be: node, priority, tolerations, affinity, spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

from mooring.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from mooring.api.pod import Pod
from mooring.testing.builder import Builder, Expression, SelectorLike, as_selector, node_term


class PlacementBuilder(Builder[Pod]):
    """The half of the pod builder that is about where the pod goes."""

    __slots__ = ()

    def node(self, name: str) -> Self:
        """The node the pod is on."""
        return self._with_spec(node_name=name)

    def nominated(self, node: str) -> Self:
        """The node that room is being made on."""
        return self._with_status(nominated_node_name=node)

    def priority(self, priority: int) -> Self:
        """How important it is."""
        return self._with_spec(priority=priority)

    def preemption_policy(self, policy: str) -> Self:
        """``Never``, or ``PreemptLowerPriority``."""
        return self._with_spec(preemption_policy=policy)

    def scheduler(self, name: str) -> Self:
        """The profile that places it."""
        return self._with_spec(scheduler_name=name)

    def toleration(self, key: str = "", value: str | None = None, effect: str = "", *, operator: str = "") -> Self:
        """Tolerate a taint: any value (``Exists``) unless one is given."""
        made = Toleration(
            key=key, value=value or "", effect=effect, operator=operator or ("Exists" if value is None else "Equal")
        )
        return self._with_spec(tolerations=(*self._object.spec.tolerations, made))

    # Nodes

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Only nodes with these labels; given nothing, a selector that is there but empty."""
        return self._with_spec(node_selector={**(self._object.spec.node_selector or {}), **(labels or {}), **more})

    def node_affinity(self, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Require one more term: ``.node_affinity(("zone", "In", "a", "b"), ("disk", "Exists"))``; terms are ORed."""
        old = self._node_affinity
        terms = old.required.node_selector_terms if old.required is not None else ()
        required = NodeSelector(node_selector_terms=(*terms, node_term(expressions, fields)))
        return self._with_node_affinity(required_during_scheduling_ignored_during_execution=required)

    def node_affinity_in(self, key: str, values: Iterable[str]) -> Self:
        """Require a term: a label has one of some values."""
        return self.node_affinity((key, "In", *values))

    def node_affinity_not_in(self, key: str, values: Iterable[str]) -> Self:
        """Require a term: a label has none of some values."""
        return self.node_affinity((key, "NotIn", *values))

    def node_names(self, *names: str) -> Self:
        """Require a term for each node name, as daemon set pods do."""
        return (
            self if not names else self.node_affinity(fields=[("metadata.name", "In", names[0])]).node_names(*names[1:])
        )

    def preferred_node_affinity(self, weight: int, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Prefer nodes that a term matches."""
        made = PreferredSchedulingTerm(weight=weight, preference=node_term(expressions, fields))
        terms = (*self._node_affinity.preferred, made)
        return self._with_node_affinity(preferred_during_scheduling_ignored_during_execution=terms)

    def preferred_node_affinity_in(self, weight: int, key: str, values: Iterable[str]) -> Self:
        """Prefer nodes where a label has one of some values."""
        return self.preferred_node_affinity(weight, (key, "In", *values))

    # Other pods

    def pod_affinity(
        self,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Require pods that match in the same domain."""
        near = self._affinity.pod_affinity or PodAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        changed = msgspec.structs.replace(
            near, required_during_scheduling_ignored_during_execution=(*near.required, term)
        )
        return self._with_affinity(pod_affinity=changed)

    def pod_anti_affinity(
        self,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Require that no pod that matches is in the same domain."""
        far = self._affinity.pod_anti_affinity or PodAntiAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        changed = msgspec.structs.replace(
            far, required_during_scheduling_ignored_during_execution=(*far.required, term)
        )
        return self._with_affinity(pod_anti_affinity=changed)

    def preferred_pod_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer domains with pods that match."""
        near = self._affinity.pod_affinity or PodAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = (*near.preferred, WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
        changed = msgspec.structs.replace(near, preferred_during_scheduling_ignored_during_execution=terms)
        return self._with_affinity(pod_affinity=changed)

    def preferred_pod_anti_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer domains without pods that match."""
        far = self._affinity.pod_anti_affinity or PodAntiAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = (*far.preferred, WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
        changed = msgspec.structs.replace(far, preferred_during_scheduling_ignored_during_execution=terms)
        return self._with_affinity(pod_anti_affinity=changed)

    def spread(
        self,
        topology_key: str,
        selector: SelectorLike = None,
        *,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        min_domains: int | None = None,
        node_affinity_policy: str | None = None,
        node_taints_policy: str | None = None,
        match_label_keys: Iterable[str] = (),
    ) -> Self:
        """Spread over the domains of a key, as hard as ``when`` (``DoNotSchedule`` or ``ScheduleAnyway``) says."""
        made = TopologySpreadConstraint(
            max_skew=max_skew,
            topology_key=topology_key,
            when_unsatisfiable=when,
            label_selector=as_selector(selector),
            min_domains=min_domains,
            node_affinity_policy=node_affinity_policy,
            node_taints_policy=node_taints_policy,
            match_label_keys=tuple(match_label_keys),
        )
        return self._with_spec(topology_spread_constraints=(*self._object.spec.topology_spread_constraints, made))

    @property
    def _affinity(self) -> Affinity:
        return self._object.spec.affinity or Affinity()

    @property
    def _node_affinity(self) -> NodeAffinity:
        return self._affinity.node_affinity or NodeAffinity()

    def _with_affinity(self, **changes: object) -> Self:
        return self._with_spec(affinity=msgspec.structs.replace(self._affinity, **changes))

    def _with_node_affinity(self, **changes: object) -> Self:
        return self._with_affinity(node_affinity=msgspec.structs.replace(self._node_affinity, **changes))

    def _with_spec(self, **changes: object) -> Self:
        return self._with(spec=msgspec.structs.replace(self._object.spec, **changes))

    def _with_status(self, **changes: object) -> Self:
        return self._with(status=msgspec.structs.replace(self._object.status, **changes))


def _term(
    topology_key: str, selector: SelectorLike, namespaces: Iterable[str], namespace_selector: SelectorLike
) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=as_selector(selector),
        topology_key=topology_key,
        namespaces=tuple(namespaces),
        namespace_selector=as_selector(namespace_selector),
    )
