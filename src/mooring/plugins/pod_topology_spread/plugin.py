"""PodTopologySpread: the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.affinity import TopologySpreadConstraint
from mooring.api.label_selectors import SelectorError
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.regions import Regions
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PodTemplate,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import SKIP_THIS_VERSION
from mooring.plugins.domains import DomainVerdicts
from mooring.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraint,
    Plan,
    compile_constraints,
)
from mooring.plugins.pod_topology_spread.default_selector import DefaultSelectors
from mooring.plugins.pod_topology_spread.filtering import STATUSES, SpreadState, spread_state
from mooring.plugins.pod_topology_spread.scoring import SpreadScores, normalize

Ints = npt.NDArray[np.int64]

_FILTER: StateKey[SpreadState] = StateKey("PodTopologySpread/filter")

_SCORE: StateKey[SpreadScores] = StateKey("PodTopologySpread/score")


class SpreadArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


class PodTopologySpread(Plugin[SpreadArgs]):
    """Filters and scores nodes by how evenly pods are spread over topology domains."""

    template_part = "constraints"

    def setup(self) -> None:
        """Compile the default constraints."""
        self._system = self.args.defaulting_type == "System"
        defaults = SYSTEM_DEFAULTS if self._system else self.args.default_constraints
        release = self.handle.release
        self._match_keys = release.enabled("MatchLabelKeysInPodTopologySpread")
        self._defaults = {action: compile_constraints(defaults, {}, action) for action in (HARD, SOFT)}
        self._selectors = DefaultSelectors(self.handle)
        comparisons = release.enabled("TaintTolerationComparisonOperators")
        self._by_domain = DomainVerdicts(STATUSES.__getitem__)
        self._regions = Regions(self.handle.table, comparisons=comparisons)

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Look up the counts of the pod's hard constraints."""
        try:
            plan = self._plan(self.handle.template(pod), HARD)
        except SelectorError as error:
            text = f"obtaining pod's hard topology spread constraints: {error}"
            return Status.error(f"get constraints from pod: {text}")
        if plan is None:
            return self._skip(pod, HARD)
        state.write(_FILTER, spread_state(plan))
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Add a hypothetical pod."""
        state.read(_FILTER).shift(added.template, node.row, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Remove a pod hypothetically."""
        state.read(_FILTER).shift(removed.template, node.row, -1)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject nodes without the topology keys, and those that would exceed the maximum skew."""
        return state.read(_FILTER).filter(nodes, self._by_domain)

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return the filter as a function of the counts in the candidates' own domains."""
        return state.read(_FILTER).what_if(victims)

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Weight the pod's soft constraints by the number of domains."""
        try:
            plan = self._plan(self.handle.template(pod), SOFT)
        except SelectorError as error:
            text = f"obtaining pod's soft topology spread constraints: {error}"
            return Status.error(f"calculating preScoreState: {text}")
        if plan is None:
            return self._skip(pod, SOFT)
        require_all = bool(pod.spec.topology_spread_constraints) or not self._system
        state.write(_SCORE, SpreadScores(plan, nodes, require_all=require_all))
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Count the matching pods in each node's domains."""
        return state.read(_SCORE).score(nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Invert the scores: few pods give a high score."""
        return normalize(scores, state.read(_SCORE).ignored)

    # Constraints

    def _skip(self, pod: Pod, action: str) -> Status:
        """Return Skip; cacheable unless a controller determines the constraints."""
        if pod.spec.topology_spread_constraints or not self._defaults[action]:
            return Status.skip(template=True)
        return Status.skip() if pod.metadata.owner_references else SKIP_THIS_VERSION

    def skip_version(self) -> object:
        """Return the version of the services, which determine the constraints of pods without a controller."""
        return self._selectors.version

    def _plan(self, template: PodTemplate, action: str) -> Plan | None:
        """Return the compiled constraints of one kind; None if there are none. Raises SelectorError."""
        own = template.pod.spec.topology_spread_constraints
        if own:
            return template.kept((self, action), lambda: _Kept(self._compile(template, action, own))).plan
        defaults = self._defaults[action]
        if not defaults:
            return None
        selector = self._selectors.of(template)
        if selector.is_empty:
            return None
        return template.kept(
            (self, action, selector),
            lambda: _Kept(self._make(template, tuple(msgspec.structs.replace(c, selector=selector) for c in defaults))),
        ).plan

    def _compile(self, template: PodTemplate, action: str, own: tuple[TopologySpreadConstraint, ...]) -> Plan | None:
        return self._make(template, compile_constraints(own, template.labels, action, match_keys=self._match_keys))

    def _make(self, template: PodTemplate, constraints: tuple[Constraint, ...]) -> Plan | None:
        if not constraints:
            return None
        all_keys = bool(template.pod.spec.topology_spread_constraints) or not self._system
        registry = self.handle.table.counters
        return Plan(constraints, template, self._regions, registry, all_keys=all_keys)

    # Events

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for pods that count, tolerations, and nodes of the topology."""
        pod_changes = (
            ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        )
        node_changes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEvent("Pod", pod_changes, self._after_pod_change),
            ClusterEvent("Node", node_changes, self._after_node_change),
        ]

    def _after_pod_change(self, pod: object, old: object, new: object) -> Hint:
        waiting, before, after = cast(Pod, pod), cast("Pod | None", old), cast("Pod | None", new)
        if any(other is not None and not concerns(other, waiting) for other in (before, after)):
            return Hint.SKIP
        return after_pod_change(waiting, self._hard_constraints(waiting), before, after)

    def _after_node_change(self, pod: object, old: object, new: object) -> Hint:
        constraints = self._hard_constraints(cast(Pod, pod))
        return after_node_change(constraints, cast("Node | None", old), cast("Node | None", new))

    def _hard_constraints(self, pod: Pod) -> tuple[Constraint, ...]:
        plan = self._plan(self.handle.template(pod), HARD)
        return () if plan is None else plan.constraints


class _Kept:
    """A cache entry: the plan of a template, or None if it has none."""

    __slots__ = ("plan",)

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan


Constraints = tuple[Constraint, ...]


def concerns(other: Pod, pod: Pod) -> bool:
    """Return whether another pod can count for this one: it has (or is nominated to) a node, in the same namespace."""
    if other.uid == pod.uid:
        return True
    if not other.node_name and not other.status.nominated_node_name:
        return False
    return other.namespace == pod.namespace


def after_pod_change(pod: Pod, constraints: Constraints, old: Pod | None, new: Pod | None) -> Hint:
    """Queue if the change affects the count of a constraint."""
    if old is not None and new is not None:
        return after_pod_update(pod, constraints, old, new)
    labels = new.labels if new is not None else old.labels if old is not None else {}
    return _queue(any(constraint.selector.matches(labels) for constraint in constraints))


def after_pod_update(pod: Pod, constraints: Constraints, old: Pod, new: Pod) -> Hint:
    """Queue if the pod starts or stops matching a constraint, or the waiting pod's own tolerations change."""
    if (
        pod.uid == new.uid
        and new.spec.tolerations != old.spec.tolerations
        and any(constraint.honor_taints for constraint in constraints)
    ):
        return Hint.QUEUE
    if new.labels == old.labels:
        return Hint.SKIP
    return _queue(any(c.selector.matches(old.labels) != c.selector.matches(new.labels) for c in constraints))


def after_node_change(constraints: Constraints, old: Node | None, new: Node | None) -> Hint:
    """Queue if a node enters, leaves or moves within the topology of the constraints."""
    was = old is not None and _has_keys(old.labels, constraints)
    now = new is not None and _has_keys(new.labels, constraints)
    if old is None or new is None:
        return _queue(was or now)
    if was != now:
        return Hint.QUEUE
    moved = any(old.labels.get(c.topology_key, "") != new.labels.get(c.topology_key, "") for c in constraints)
    return _queue(now and (moved or old.taints != new.taints))


def _has_keys(labels: Mapping[str, str], constraints: Constraints) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _queue(worth_it: bool) -> Hint:
    return Hint.QUEUE if worth_it else Hint.SKIP
