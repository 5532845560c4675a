"""The names that plugin authors import: extension points, statuses, cycle state, the handle, nodes and pods."""

from msgspec import Meta

from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable, PodListener
from mooring.columns.templates import PodTemplate
from mooring.framework.custom_resources import CustomResource, DeclarationError
from mooring.framework.events import ActionType, ClusterEvent, Hint
from mooring.framework.handle import Handle
from mooring.framework.listers import Index, Lister, ObjectStore
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.normalize import MAX_SCORE, default_normalize
from mooring.framework.plugin import ArgsError, Plugin, Rule, depends_on
from mooring.framework.state import CycleState, MissingStateError, StateKey
from mooring.framework.status import Code, PermitWait, PostFilterResult, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims, WhatIf

__all__ = [
    "MAX_SCORE",
    "ActionType",
    "ArgsError",
    "ClusterEvent",
    "Code",
    "CustomResource",
    "CycleState",
    "DeclarationError",
    "Handle",
    "Hint",
    "Index",
    "Lister",
    "Meta",
    "MissingStateError",
    "NodeInfo",
    "NodeStatuses",
    "NodeTable",
    "Nodes",
    "ObjectStore",
    "PermitWait",
    "Plugin",
    "PodInfo",
    "PodListener",
    "PodTemplate",
    "PostFilterResult",
    "PreFilterResult",
    "Rule",
    "StateKey",
    "Status",
    "Verdicts",
    "Victims",
    "WhatIf",
    "WhatIfNode",
    "default_normalize",
    "depends_on",
]
