"""The built-in plugins of batch sessions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.binpack import BinPack
from mooring.batch.plugins.capacity import Capacity
from mooring.batch.plugins.cdp import CooldownProtection
from mooring.batch.plugins.conformance import Conformance
from mooring.batch.plugins.deviceshare import DeviceShare
from mooring.batch.plugins.drf import DominantShare
from mooring.batch.plugins.extender import Extender
from mooring.batch.plugins.gang import Gang
from mooring.batch.plugins.network_topology_aware import NetworkTopologyAware
from mooring.batch.plugins.nodegroup import NodeGroup
from mooring.batch.plugins.nodeorder import NodeOrder
from mooring.batch.plugins.numa_aware import NumaAware
from mooring.batch.plugins.overcommit import Overcommit
from mooring.batch.plugins.pdb import DisruptionBudgets
from mooring.batch.plugins.predicates import Predicates
from mooring.batch.plugins.priority import Priority
from mooring.batch.plugins.proportion import Proportion
from mooring.batch.plugins.rescheduling import Rescheduling
from mooring.batch.plugins.resource_strategy_fit import ResourceStrategyFit
from mooring.batch.plugins.resourcequota import NamespaceQuota
from mooring.batch.plugins.sla import WaitingTime
from mooring.batch.plugins.task_topology import TaskTopology
from mooring.batch.plugins.tdm import TimeDivision
from mooring.batch.plugins.usage import Usage

PLUGINS: Mapping[str, type[BatchPlugin]] = MappingProxyType(
    {
        plugin.name: plugin
        for plugin in (
            Priority,
            Gang,
            Conformance,
            DominantShare,
            Predicates,
            Proportion,
            Capacity,
            NodeOrder,
            BinPack,
            Overcommit,
            WaitingTime,
            TimeDivision,
            TaskTopology,
            NodeGroup,
            NamespaceQuota,
            DisruptionBudgets,
            CooldownProtection,
            Usage,
            ResourceStrategyFit,
            Extender,
            NetworkTopologyAware,
            DeviceShare,
            NumaAware,
            Rescheduling,
        )
    }
)
