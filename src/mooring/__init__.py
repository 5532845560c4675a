"""Mooring: a Kubernetes scheduler that you extend in Python.

``from mooring import Scheduler`` runs it inside another program; see `mooring.live.embedding`. ``mooring.simulate``
schedules manifests without a cluster, for programs and notebooks; see `mooring.simulation.library`.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.live.embedding import Scheduler, SchedulerError
    from mooring.simulation.library import SimulationError, simulate
    from mooring.simulation.result import SimulationResult

__version__ = "0.1.0"
__all__ = [
    "Scheduler",
    "SchedulerError",
    "SimulationError",
    "SimulationResult",
    "__version__",
    "simulate",
]
#: Name -> the module that is imported when the name is used, because plugin modules need none of them.
_MODULES = {
    "Scheduler": "mooring.live.embedding",
    "SchedulerError": "mooring.live.embedding",
    "SimulationError": "mooring.simulation.library",
    "SimulationResult": "mooring.simulation.result",
    "simulate": "mooring.simulation.library",
}

# The library logs nothing unless the program that imports it configures logging.
logging.getLogger("mooring").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """Import the scheduler and the simulation on use."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'mooring' has no attribute {name!r}")
