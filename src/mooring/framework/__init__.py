"""What a plugin author imports: extension points, verdicts, state, the handle, and nodes one by one or in columns."""

from mooring.framework.events import ActionType, ClusterEvent, Hint
from mooring.framework.handle import Handle
from mooring.framework.node_info import NodeInfo, PodInfo
from mooring.framework.nodes import Nodes
from mooring.framework.objects import Lister, ObjectStore
from mooring.framework.plugin import ArgsError, Plugin, depends_on
from mooring.framework.results import PermitWait, PostFilterResult, PreFilterResult
from mooring.framework.state import CycleState, MissingStateError, StateKey
from mooring.framework.status import Code, Status
from mooring.framework.table import NodeTable, PodListener
from mooring.framework.templates import PodTemplate
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims, WhatIf

__all__ = [
    "ActionType",
    "ArgsError",
    "ClusterEvent",
    "Code",
    "CycleState",
    "Handle",
    "Hint",
    "Lister",
    "MissingStateError",
    "NodeInfo",
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
    "StateKey",
    "Status",
    "Verdicts",
    "Victims",
    "WhatIf",
    "depends_on",
]
