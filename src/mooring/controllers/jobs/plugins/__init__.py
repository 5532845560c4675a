"""The built-in job plugins, with the names, arguments and effects of Volcano's."""

from typing import Any, Final

from mooring.controllers.jobs.plugins.env import Env
from mooring.controllers.jobs.plugins.hcclrank import HcclRank
from mooring.controllers.jobs.plugins.mpi import Mpi
from mooring.controllers.jobs.plugins.pytorch import PyTorch
from mooring.controllers.jobs.plugins.ray import Ray
from mooring.controllers.jobs.plugins.ssh import Ssh
from mooring.controllers.jobs.plugins.svc import Svc
from mooring.controllers.jobs.plugins.tensorflow import TensorFlow
from mooring.framework.job_plugin import JobPlugin

#: The built-in plugins by name.
PLUGINS: Final[dict[str, type[JobPlugin[Any]]]] = {
    plugin.name: plugin for plugin in (Env, Svc, Ssh, Mpi, PyTorch, TensorFlow, Ray, HcclRank)
}

__all__ = ["PLUGINS"]
