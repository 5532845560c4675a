"""Kubernetes objects as typed, read-only structs, with quantities and selectors.

Reading manifests and JSON is in `mooring.api.codec`.
"""

from mooring.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from mooring.api.coordination import Lease, LeaseSpec
from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.events import Event, EventSeries
from mooring.api.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    selector_from_labels,
)
from mooring.api.meta import (
    Condition,
    KubeObject,
    LabelSelector,
    LabelSelectorRequirement,
    NamespacedObject,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    format_time,
    parse_time,
)
from mooring.api.node import ContainerImage, Node, NodeSpec, NodeStatus
from mooring.api.node_selectors import compile_node_selector, required_node_affinity
from mooring.api.pod import (
    Container,
    ContainerPort,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
)
from mooring.api.policy import PodDisruptionBudget, PriorityClass
from mooring.api.quantity import QuantityError, format_quantity, milli_value, parse_quantity, value
from mooring.api.resources import pod_requests, pod_requests_nonzero
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.tolerations import tolerates, untolerated
from mooring.api.volumes import Volume
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Affinity",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Condition",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerStatus",
    "DaemonSet",
    "Deployment",
    "Event",
    "EventSeries",
    "Job",
    "KubeObject",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespacedObject",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodDisruptionBudget",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "QuantityError",
    "ReplicaSet",
    "ReplicationController",
    "Requirement",
    "ResourceRequirements",
    "Selector",
    "SelectorError",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeAttachment",
    "WeightedPodAffinityTerm",
    "compile_node_selector",
    "compile_selector",
    "format_quantity",
    "format_time",
    "milli_value",
    "parse_quantity",
    "parse_time",
    "pod_requests",
    "pod_requests_nonzero",
    "required_node_affinity",
    "selector_from_labels",
    "tolerates",
    "untolerated",
    "value",
]
