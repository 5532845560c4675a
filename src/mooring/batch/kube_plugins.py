"""kube-scheduler's filters and scorers in batch sessions, where they differ from the pod-by-pod engine.

Volcano is built with those of Kubernetes 1.35, and has its own view of the nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.batch.session_claims import DeviceReservation, SessionClaims
from mooring.columns.counters import TermCounter
from mooring.columns.counts import Counts
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.handle import Handle
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState
from mooring.plugins.image_locality import ImageLocality, locality_score
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_resources.balanced_allocation import BalanceColumns, NodeResourcesBalancedAllocation, Plan
from mooring.releases import V1_36

Ints = npt.NDArray[np.int64]

#: Volcano 1.15 runs the plugins of Kubernetes 1.35; of the emulated releases, this one is the nearest.
RELEASE: Final = V1_36


class UnseenTerms:
    """Affinity terms of placed pods that Volcano does not find.

    It lists the nodes that have pods with terms when a session opens. A pod with terms that is placed on another node
    during the session is not found until the next one.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._with_anti: set[int] = set()
        self._with_any: set[int] = set()
        #: Placed pods (uid) -> their template, row, and whether their anti-affinity, and all their terms, are unseen.
        self._pods: dict[str, tuple[PodTemplate, int, bool, bool]] = {}
        self._anti: dict[TermCounter, Counts] = {}
        self._any: dict[TermCounter, Counts] = {}

    def open(self) -> None:
        """List the nodes that have pods with terms when a session opens."""
        self._pods.clear()
        self._anti.clear()
        self._any.clear()
        self._with_any = {row for template in self._table.counters.carriers() for row in template.placed}
        self._with_anti = {
            row
            for template in self._table.counters.carriers()
            if template.affinity.required_anti
            for row in template.placed
        }

    def placed(self, uid: str, template: PodTemplate, row: int) -> None:
        """Record that a pod was placed on a row and is in the table."""
        if template.affinity.is_empty:
            return
        anti, any_term = row not in self._with_anti, row not in self._with_any
        if anti or any_term:
            self._pods[uid] = (template, row, anti, any_term)
            self._count(template, row, anti, any_term, 1)

    def removed(self, uid: str) -> None:
        """Record that a pod is about to be removed from its row."""
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._count(*entry, -1)

    def _count(self, template: PodTemplate, row: int, anti: bool, any_term: bool, sign: int) -> None:
        for counter in template.term_counters or ():
            code = int(self._table.label(counter.term.topology_key).codes[row])
            if code < 0:
                continue
            if anti and counter.kind == "required_anti":
                self._anti.setdefault(counter, Counts()).add(code, sign)
            if any_term and counter.kind != "required_anti":
                self._any.setdefault(counter, Counts()).add(code, sign)

    def seen(self, terms: tuple[TermCounter, ...], *, scoring: bool) -> tuple[TermCounter, ...]:
        """Return terms without the counts that are not found."""
        unseen = self._any if scoring else self._anti
        if not unseen:
            return terms
        return tuple(_reduced(term, unseen[term]) if term in unseen else term for term in terms)


def _reduced(term: TermCounter, unseen: Counts) -> TermCounter:
    reduced = TermCounter(term.kind, term.term, term._columns)
    for code, count in term.counts.items():
        left = count - unseen.get(code)
        if left:
            reduced.counts.add(code, left)
    return reduced


class SessionPodAffinity(InterPodAffinity):
    """InterPodAffinity that does not find some terms of placed pods, as in Volcano."""

    name = "InterPodAffinity"
    unseen: UnseenTerms

    def existing_terms(self, template: PodTemplate, *, scoring: bool = False) -> tuple[TermCounter, ...]:
        """Return the terms that are found; scoring finds all for a pod with preferred terms of its own."""
        terms = super().existing_terms(template)
        if scoring and template.affinity.preferred:
            return terms
        return self.unseen.seen(terms, scoring=scoring)


class BalancedAllocation(NodeResourcesBalancedAllocation):
    """The balance of a node with the pod, as up to Kubernetes 1.35; later versions score the change."""

    name = "NodeResourcesBalancedAllocation"
    _columns: BalanceColumns

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Return 100 if all resources have equal utilization."""
        plan: Plan | None = self._planned(state, pod)
        if plan is None:
            return 0
        columns, rows = self._columns, nodes.rows
        columns.refresh()
        scores: Ints = columns.balances(plan, rows).astype(np.int64)
        return scores


class ImagesOnArrival(ImageLocality):
    """ImageLocality with the spread of images at the time a node was added.

    Volcano computes the spread only when a node is added or changes, for that node. On a live cluster, heartbeats
    refresh it; the difference shows right after the start.
    """

    name = "ImageLocality"

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Return the scores."""
        names, containers = self._images_of(self.handle.template(pod)).wanted
        table = nodes.table
        count = len(table)
        totals = np.zeros(count, dtype=np.int64)
        in_order = sorted(table.nodes, key=lambda info: info.sequence)
        for name in names:
            image = table.images.get(name)
            seen = 0
            for info in in_order if image is not None else ():
                if image is not None and image.rows.get(info.row):
                    seen += 1
                    totals[info.row] += int(float(image.size) * (seen / count))
        scores = np.array([locality_score(total, containers) for total in totals.tolist()], dtype=np.int64)
        return scores if nodes.rows is None else scores[nodes.rows]


class KubePlugins:
    """The plugins, created once and used in all sessions."""

    def __init__(self, handle: Handle, *, images_on_arrival: bool = False, hides_unevicted: bool = False) -> None:
        self.handle = handle
        #: Whether filters do not see a pod whose eviction was rolled back, as in Volcano.
        self.hides_unevicted = hides_unevicted
        #: The ImageLocality class to use.
        self.image_locality: type[ImageLocality] = ImagesOnArrival if images_on_arrival else ImageLocality
        self.unseen = UnseenTerms(handle.table)
        #: The devices that are reserved for pods, by uid, until the pods are bound.
        self.device_reservations: dict[str, DeviceReservation] = {}
        self._made: dict[Hashable, Plugin] = {}

    def get(self, cls: type[Plugin], args: Any = None) -> Any:
        """Return the plugin of a class with some arguments."""
        key = (cls, msgspec.json.encode(args))
        plugin = self._made.get(key)
        if plugin is None:
            plugin = self._made[key] = cls(args, self.handle)
            if isinstance(plugin, SessionPodAffinity):
                plugin.unseen = self.unseen
            elif isinstance(plugin, SessionClaims):
                plugin.reservations = self.device_reservations
        return plugin
