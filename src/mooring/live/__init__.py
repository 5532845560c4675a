"""The live scheduler: the engine on an API server. It observes, carries decisions out, and tells what came of them."""

from mooring.live.scheduler import LiveScheduler, LostLeaseError
from mooring.live.server import ServerError, ServerSettings

__all__ = ["LiveScheduler", "LostLeaseError", "ServerError", "ServerSettings"]
