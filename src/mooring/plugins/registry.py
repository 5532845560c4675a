"""All built-in plugins by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mooring.framework import Plugin
from mooring.plugins.capacity_scheduling import CapacityScheduling
from mooring.plugins.claim_preemption import ClaimPreemption
from mooring.plugins.coscheduling import Coscheduling
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.device_scoring import DeviceScoring
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.plugins.gpu_sharing import GpuSharing
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.plugins.node_resources import NodeResourcesAllocatable, NodeResourcesBalancedAllocation, NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.pod_group_pods_count import PodGroupPodsCount
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.topology_placement_generator import TopologyPlacementGenerator
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone

BUILTIN: Mapping[str, type[Plugin]] = MappingProxyType(
    {
        plugin.name: plugin
        for plugin in (
            SchedulingGates,
            PrioritySort,
            NodeUnschedulable,
            NodeName,
            TaintToleration,
            NodeAffinity,
            NodePorts,
            NodeResourcesFit,
            VolumeRestrictions,
            NodeVolumeLimits,
            VolumeBinding,
            VolumeZone,
            PodTopologySpread,
            InterPodAffinity,
            DynamicResources,
            DefaultPreemption,
            NodeResourcesBalancedAllocation,
            ImageLocality,
            DefaultBinder,
            NodeDeclaredFeatures,
            GangScheduling,
            TopologyPlacementGenerator,
            PodGroupPodsCount,
            NodeResourcesAllocatable,
            Coscheduling,
            CapacityScheduling,
            NodeResourceTopologyMatch,
            GpuSharing,
            DeviceScoring,
            ClaimPreemption,
        )
    }
)
