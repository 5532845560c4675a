"""Devices of dynamic resource allocation: DeviceClass, ResourceClaim, ResourceSlice and related kinds."""

from typing import Any

from msgspec import field

from mooring.api.affinity import NodeSelector
from mooring.api.meta import Condition, KubeObject, Model, NamespacedObject, ObjectMeta
from mooring.api.quantity import QuantityLike

#: The API server keeps a claim with this finalizer until it is deallocated.
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
#: Marks the claim that a scheduler creates for the extended resources of a pod.
EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
#: The prefix of the extended resource that every DeviceClass provides.
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
EXACT_COUNT = "ExactCount"
ALL_DEVICES = "All"


# Requests


class CELDeviceSelector(Model, kw_only=True):
    """A CEL expression about a device."""

    expression: str = ""


class DeviceSelector(Model, kw_only=True):
    """A condition that a device must meet."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Model, kw_only=True):
    """Configuration for a driver, which the scheduler only copies."""

    driver: str = ""
    parameters: Any = None


class DeviceConfiguration(Model, kw_only=True):
    """Configuration of devices in a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceToleration(Model, kw_only=True):
    """A toleration of device taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Model, kw_only=True):
    """Requested amounts of a device's capacity."""

    requests: dict[str, QuantityLike] = field(default_factory=dict)


class DeviceDerivedAttribute(Model, kw_only=True):
    """An attribute that a request computes from others (alpha)."""

    name: str = ""
    expression: str = ""


class ExactDeviceRequest(Model, kw_only=True):
    """A request for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Model, kw_only=True):
    """One alternative of a prioritized list."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Model, kw_only=True):
    """A request of a claim: for devices of one class, or a prioritized list of alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Model, kw_only=True):
    """A constraint on the devices of a claim together."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Model, kw_only=True):
    """Configuration for the devices of some requests of a claim."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Model, kw_only=True):
    """The devices that a claim requests."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


# Allocations


class DeviceRequestAllocationResult(Model, kw_only=True):
    """A device that is allocated for a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = None
    consumed_capacity: dict[str, QuantityLike] | None = None
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Model, kw_only=True):
    """Configuration of allocated devices, from the class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Model, kw_only=True):
    """The devices of an allocation and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Model, kw_only=True):
    """The allocation of a claim. Without a node selector it is usable on all nodes."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Model, kw_only=True):
    """A pod that a claim is reserved for."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Model, kw_only=True):
    """The status of an allocated device, as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = None
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: Any = None


class ResourceClaimSpec(Model, kw_only=True):
    """The specification of a claim."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaimStatus(Model, kw_only=True):
    """The status of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(NamespacedObject, kw_only=True):
    """A request for devices, and the devices that are allocated for it."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceClaim")
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def is_reserved_for(self, uid: str, group: str | None = None) -> bool:
        """Return whether the claim is reserved for a pod, or for the group of pods with a name."""
        return any(
            each.uid == uid
            or (
                group is not None
                and (each.api_group, each.resource, each.name) == ("scheduling.k8s.io", "podgroups", group)
            )
            for each in self.status.reserved_for
        )


class ResourceClaimTemplateSpec(Model, kw_only=True):
    """The metadata and specification of the claims that a template creates."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(NamespacedObject, kw_only=True):
    """A template of claims; a controller creates a claim from it for every pod that names it."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceClaimTemplate")
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


# Classes


class DeviceClassSpec(Model, kw_only=True):
    """The selectors and configuration of a class, and the extended resource that it provides."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeObject, kw_only=True):
    """A class of devices."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "DeviceClass")
    spec: DeviceClassSpec = DeviceClassSpec()


# Slices


class DeviceAttribute(Model, kw_only=True):
    """A value of an attribute; exactly one field is set."""

    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class CapacityRequestPolicyRange(Model, kw_only=True):
    """A range of amounts that can be requested."""

    min: QuantityLike | None = None
    max: QuantityLike | None = None
    step: QuantityLike | None = None


class CapacityRequestPolicy(Model, kw_only=True):
    """The amounts of a capacity that can be requested."""

    default: QuantityLike | None = None
    valid_values: tuple[QuantityLike, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Model, kw_only=True):
    """An amount that a device has."""

    value: QuantityLike = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Model, kw_only=True):
    """An amount of a counter."""

    value: QuantityLike = 0


class CounterSet(Model, kw_only=True):
    """Counters that the devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(Model, kw_only=True):
    """What a device consumes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Model, kw_only=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeAllocatableMapping(Model, kw_only=True):
    """How a device, or the consumed part of a capacity, counts as an amount of a node's resource."""

    capacity_key: str | None = None
    capacity_multiplier: QuantityLike | None = None
    device_multiplier: QuantityLike | None = None


class NodeAllocatableOverhead(Model, kw_only=True):
    """What each pod, and each container, that uses a device needs besides it."""

    per_pod: QuantityLike | None = None
    per_container: QuantityLike | None = None


class NodeAllocatableResource(Model, kw_only=True):
    """What the allocation of a device takes from a resource of the node."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Model, kw_only=True):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = field(default_factory=dict)


class ResourcePool(Model, kw_only=True):
    """The pool that a slice belongs to."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Model, kw_only=True):
    """The devices of a slice, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(KubeObject, kw_only=True):
    """A part of a pool of devices, published by a driver."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ResourceSlice")
    spec: ResourceSliceSpec = ResourceSliceSpec()


# Taint rules


class DeviceTaintSelector(Model, kw_only=True):
    """The devices that a taint rule applies to; an absent field matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Model, kw_only=True):
    """A taint, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(KubeObject, kw_only=True):
    """A rule that taints devices."""

    api_version: str = field(default_factory=lambda: "resource.k8s.io/v1")
    kind: str = field(default_factory=lambda: "DeviceTaintRule")
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
