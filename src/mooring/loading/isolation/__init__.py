"""Plugins in their own processes. A plugin that hangs is killed, and a crash does not affect the scheduler."""

from mooring.loading.isolation.proxy import isolated

__all__ = ["isolated"]
