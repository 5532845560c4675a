"""Plugins that run in processes of their own: one that hangs is killed, one that crashes takes nobody with it."""

from mooring.loading.isolation.proxy import isolated

__all__ = ["isolated"]
