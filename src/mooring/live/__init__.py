"""The live scheduler: the engine on an API server. It observes, carries decisions out, and tells what came of them."""

from mooring.live.endpoints.endpoint_server import ServerError, ServerSettings
from mooring.live.scheduler import LiveScheduler, LostLeaseError

__all__ = ["LiveScheduler", "LostLeaseError", "ServerError", "ServerSettings"]
