"""What a plugin author imports: extension points, verdicts, state, the handle, and nodes one by one or in columns."""

from msgspec import Meta

from mooring.columns.node_info import NodeInfo, PodInfo
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable, PodListener
from mooring.columns.templates import PodTemplate
from mooring.framework.custom_resources import CustomResource
from mooring.framework.custom_structs import DeclarationError
from mooring.framework.events import ActionType, ClusterEvent, Hint
from mooring.framework.handle import Handle
from mooring.framework.objects import Index, Lister, ObjectStore
from mooring.framework.permissions import Rule
from mooring.framework.plugin import ArgsError, Plugin, depends_on
from mooring.framework.results import PermitWait, PostFilterResult, PreFilterResult
from mooring.framework.state import CycleState, MissingStateError, StateKey
from mooring.framework.status import Code, Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims, WhatIf

__all__ = [
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
    "depends_on",
]
