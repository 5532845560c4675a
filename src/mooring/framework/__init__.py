"""The names that plugin authors import: extension points, statuses, cycle state, the handle, nodes and pods."""

from msgspec import Meta

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.columns.node_info import NodeInfo, PodInfo, PodListener, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.api_clients import Binding
from mooring.framework.custom_resources import CustomResource, DeclarationError
from mooring.framework.device_allocations import DeviceAllocation, NodeDevice
from mooring.framework.events import ActionType, ClusterEvent, Hint, QueueingHint
from mooring.framework.extension_points import ExtensionPoints, QueuedPod
from mooring.framework.handle import Handle
from mooring.framework.job_plugin import JobObject, JobPlugin, JobPluginError
from mooring.framework.listers import Index, Lister, ObjectStore
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.normalize import MAX_SCORE, default_normalize
from mooring.framework.placements import PlacementProgress, Placements, ProposedPlacements
from mooring.framework.plugin import Plugin, Rule, depends_on
from mooring.framework.plugin_args import ArgsError
from mooring.framework.state import CycleState, MissingStateError, StateKey
from mooring.framework.status import Code, PermitWait, PostFilterResult, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.framework.what_if import Victims, WhatIf

__all__ = [
    "MAX_SCORE",
    "ActionType",
    "ArgsError",
    "Binding",
    "ClusterEvent",
    "Code",
    "CustomResource",
    "CycleState",
    "DeclarationError",
    "DeviceAllocation",
    "ExtensionPoints",
    "Handle",
    "Hint",
    "Index",
    "JobObject",
    "JobPlugin",
    "JobPluginError",
    "Lister",
    "Meta",
    "MissingStateError",
    "NativePodGroup",
    "Node",
    "NodeDevice",
    "NodeInfo",
    "NodeStatuses",
    "NodeTable",
    "Nodes",
    "ObjectStore",
    "PermitWait",
    "PlacementProgress",
    "Placements",
    "Plugin",
    "Pod",
    "PodInfo",
    "PodListener",
    "PodTemplate",
    "PostFilterResult",
    "PreFilterResult",
    "ProposedPlacements",
    "QueuedPod",
    "QueueingHint",
    "Rule",
    "StateKey",
    "Status",
    "Verdicts",
    "Victims",
    "WaitingPod",
    "WaitingPods",
    "WhatIf",
    "WhatIfNode",
    "default_normalize",
    "depends_on",
]
