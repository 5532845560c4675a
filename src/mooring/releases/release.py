"""Release: what differs between the releases of kube-scheduler that Mooring emulates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.releases.gates import GateTable


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A release of kube-scheduler with its feature gates: which of several behaviours Mooring has.

    Every difference between releases that no feature gate controls is a field. The defaults of these fields are the
    behaviour of 1.36. A plugin reads them from ``self.handle.release``.
    """

    #: The minor version, such as ``1.37``.
    version: str
    #: The version whose answers Mooring is compared with, such as ``v1.37.1``.
    reference: str
    #: The feature gates and their defaults.
    gates: GateTable
    #: Feature gates that are set to another value than their default.
    gate_changes: Mapping[str, bool] = msgspec.field(default_factory=dict)

    # Configuration

    #: The default plugins of ``multiPoint``: names with weights.
    default_plugins: str
    #: Plugin -> the extension points that it serves.
    plugin_points: Mapping[str, str]
    #: Extension points of groups of pods that a v1 configuration may name.
    group_points: tuple[str, ...] = ("placementGenerate", "placementScore")

    # Decisions

    #: Whether NodeName restricts the nodes at PreFilter, instead of rejecting all others at Filter.
    node_name_narrows: bool = False
    #: Whether image volumes raise the upper bound of ImageLocality, as containers do.
    image_volumes_raise_bound: bool = False
    #: Whether a namespaceSelector of the incoming pod selects only the namespaces that match it. Before, a selector
    #: that an empty set of labels satisfies also matched the pods of all other namespaces.
    namespace_selector_is_exact: bool = False
    #: Whether the requests of a resized pod are the maximum of sums over its containers, instead of a sum of maxima.
    resized_requests_by_sum: bool = False
    #: Whether a victim stops using up disruption budgets at the first one that it violates.
    stops_at_violated_budget: bool = False

    # Messages

    #: Whether a successful preemption says which node was found and how many victims there are.
    preemption_reports_success: bool = False
    #: Whether the PostFilter of DynamicResources says that it had no claim to deallocate.
    reports_no_deallocation: bool = True

    # Queue and events

    #: Whether any change of a node's taints requeues the pods of plugins that registered for new nodes only.
    taints_requeue_like_new_nodes: bool = True
    #: The resource of updates of the waiting pod itself.
    own_pod_event: str = "UnschedulablePod"
    #: The events in metrics if a pod arrives, and if a pod that the queue does not know is updated.
    new_pod_event: str = "UnschedulablePodAdd"
    unknown_pod_event: str = "UnschedulablePodUpdate"
    #: Whether the hint of InterPodAffinity considers a pod that matched any anti-affinity term, instead of all.
    any_anti_affinity_term_requeues: bool = False
    #: Whether the deletion of an allocated claim requeues pods that DynamicResources rejected.
    claim_deletion_requeues: bool = False

    # Metrics and requests

    #: Whether metrics count the entities in the queue: pods, and groups of pods.
    entity_metrics: bool = False
    #: Whether the metric of created claims is the one that it has in common with the controller manager.
    shared_claim_metric: bool = False
    #: Whether a binding is posted again if the API server is unavailable or refuses the connection.
    retries_bindings: bool = False

    def __hash__(self) -> int:
        return hash((self.version, tuple(sorted(self.gate_changes.items()))))

    def enabled(self, gate: str) -> bool:
        """Return whether a feature gate is on. A gate that the release does not have is off."""
        changed = self.gate_changes.get(gate)
        return changed if changed is not None else self.gates.get(gate, "off").endswith("on")
