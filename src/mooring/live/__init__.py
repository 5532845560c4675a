"""The live scheduler: runs the engine on an API server, executes its decisions and reports the results."""

from mooring.kube import LostLeaseError
from mooring.live.endpoints.endpoint_server import ServerError, ServerSettings
from mooring.live.scheduler import LiveScheduler

__all__ = ["LiveScheduler", "LostLeaseError", "ServerError", "ServerSettings"]
