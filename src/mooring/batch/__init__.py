"""Batch sessions: Volcano's scheduler, configured by volcano-scheduler.conf.

Authors of session plugins import from here: ``from mooring.batch import Session, SessionNode, SessionPlugin``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.batch.callbacks import ABSTAIN, PERMIT, REJECT, Invalid
    from mooring.batch.eviction import EvictionContext
    from mooring.batch.job import JobInfo
    from mooring.batch.plugin import SessionAction, SessionPlugin
    from mooring.batch.queue import QueueInfo
    from mooring.batch.registrations import on_node_alone
    from mooring.batch.resource import Resource
    from mooring.batch.session import Session
    from mooring.batch.session_nodes import SessionNode, SessionNodes
    from mooring.batch.statement import Statement
    from mooring.batch.task import TaskInfo

__all__ = [
    "ABSTAIN",
    "PERMIT",
    "REJECT",
    "EvictionContext",
    "Invalid",
    "JobInfo",
    "QueueInfo",
    "Resource",
    "Session",
    "SessionAction",
    "SessionNode",
    "SessionNodes",
    "SessionPlugin",
    "Statement",
    "TaskInfo",
    "on_node_alone",
]
_MODULES = {
    "callbacks": ("ABSTAIN", "PERMIT", "REJECT", "Invalid"),
    "eviction": ("EvictionContext",),
    "job": ("JobInfo",),
    "plugin": ("SessionAction", "SessionPlugin"),
    "queue": ("QueueInfo",),
    "resource": ("Resource",),
    "registrations": ("on_node_alone",),
    "session": ("Session",),
    "session_nodes": ("SessionNode", "SessionNodes"),
    "statement": ("Statement",),
    "task": ("TaskInfo",),
}


def __getattr__(name: str) -> object:
    """Import a name on first use, so that importing one module does not import all of them."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"mooring.batch.{module}"), name)
    raise AttributeError(f"module 'mooring.batch' has no attribute {name!r}")
