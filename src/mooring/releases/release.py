"""Release: what differs between the releases of kube-scheduler that Mooring emulates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.releases.gates import EXPERIMENTAL_ALLOCATOR, GateStages, GateTable


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
    #: The stages of the gates, for AllAlpha and AllBeta.
    stages: GateStages
    #: Feature gates that are set to another value than their default.
    gate_changes: Mapping[str, bool] = msgspec.field(default_factory=dict)

    # Configuration

    #: The default plugins of ``multiPoint``: names with weights.
    default_plugins: str
    #: Plugin -> the extension points that it serves.
    plugin_points: Mapping[str, str]
    #: Extension points of groups of pods that a v1 configuration may name.
    group_points: tuple[str, ...] = ("placementGenerate", "placementScore")

    # Objects

    #: Kind -> the version of its API that the scheduler reads, for kinds whose newest version the release lacks.
    api_versions: Mapping[str, str] = msgspec.field(default_factory=dict)

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

    # Devices

    #: Whether selectors can read attributes that are lists without the gate DRAListTypeAttributes.
    selectors_read_lists: bool = False
    #: The version of cel-go, 0.x, whose costs and limits selectors have.
    cel_go: int = 26
    #: Whether the function includes of selectors accepts lists of any length.
    includes_reads_long_lists: bool = False
    #: Whether DRAListTypeAttributes also changes constraints, so that they compare attributes as sets of values.
    constraints_read_lists: bool = False
    #: Whether a DeviceTaintRule without a selector taints all devices, instead of none.
    bare_taint_rules_select_all: bool = True
    #: Whether a selector that fails for a device names the device, and advises on missing keys.
    selector_errors_name_device: bool = False
    #: Whether the limit on the devices of a claim is checked after each request, instead of once for the claim.
    device_limit_by_request: bool = False
    #: Whether a configuration of devices is written once, and without requests if it applies to all of them.
    writes_device_configs_once: bool = False
    #: Whether distinctAttribute compares a device with all others, instead of the newest one of each request.
    distinct_attribute_compares_all: bool = False
    #: Whether a requested capacity that is negative, or that a range cannot represent, ends the attempt, and whether
    #: rounded amounts are written in the form of the step.
    checks_capacity_requests: bool = False
    #: Whether a request for all devices fails if a device lacks free capacity, instead of leaving that device out.
    all_devices_need_room: bool = False
    #: Whether shares without capacity count as use of a device's counters.
    bare_shares_use_counters: bool = False
    #: Whether a slice with counters belongs only to the nodes that it selects, instead of all nodes.
    counter_slices_select_nodes: bool = False
    #: Whether requests with derived attributes, and slices with compatibility groups, are refused while the gates
    #: DRADerivedAttributes and DRADeviceCompatibilityGroups are off. Before, the fields were unknown.
    refuses_alpha_device_fields: bool = False

    #: Whether an allocation with skipNodeOperations needs nodes that declare the feature DRAOptionalNodeOperations.
    allocations_skip_operations: bool = False

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

    @property
    def has_experimental_allocator(self) -> bool:
        """Whether a gate selects the allocator that knows skipNodeOperations; the others ignore the field."""
        return self.allocations_skip_operations and any(map(self.enabled, EXPERIMENTAL_ALLOCATOR))

    def enabled(self, gate: str) -> bool:
        """Return whether a feature gate is on. A gate that the release does not have is off."""
        changed = self.gate_changes.get(gate)
        return changed if changed is not None else self.gates.get(gate, "off").endswith("on")
