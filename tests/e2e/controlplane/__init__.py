"""A real control plane for tests and benchmarks: `ControlPlane` starts it, `build` builds it once from Go modules."""

from tests.e2e.controlplane.api import Api, ApiFailure, Object
from tests.e2e.controlplane.building import BuildError, build, missing
from tests.e2e.controlplane.credentials import User
from tests.e2e.controlplane.plane import ControlPlane, KubectlError
from tests.e2e.controlplane.processes import Process, StartError, free_port

__all__ = [
    "Api",
    "ApiFailure",
    "BuildError",
    "ControlPlane",
    "KubectlError",
    "Object",
    "Process",
    "StartError",
    "User",
    "build",
    "free_port",
    "missing",
]
