"""Plugins in their own processes. One that hangs is killed; one that crashes does not affect the scheduler."""

from mooring.loading.isolation.proxy import isolated

__all__ = ["isolated"]
