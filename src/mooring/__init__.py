"""Mooring: a Kubernetes scheduler that you extend in Python.

``from mooring import Scheduler`` runs it inside another program; see `mooring.live.embedding`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.live.embedding import Scheduler, SchedulerError

__version__ = "0.1.0"
#: The version of kube-scheduler with the same decisions.
DECIDES_AS = "v1.36.4"
__all__ = ["DECIDES_AS", "Scheduler", "SchedulerError", "__version__"]


def __getattr__(name: str) -> object:
    """Import the scheduler on use, because plugin modules do not need it."""
    if name in ("Scheduler", "SchedulerError"):
        return getattr(importlib.import_module("mooring.live.embedding"), name)
    raise AttributeError(f"module 'mooring' has no attribute {name!r}")
