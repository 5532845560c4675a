"""WebAssembly guests as plugins: those built for kube-scheduler-wasm-extension, unmodified, and batch guests.

A plugin whose `pluginConfig` args have a `guestURL` is a guest, whatever its name. `guest_plugin` makes a plugin class
of it. It needs wasmtime: `pip install 'mooring[wasm]'`.
"""

from mooring.loading.wasm.guest_config import guests_in, is_guest
from mooring.loading.wasm.guest_plugin import GuestPlugin, guest_plugin, plugin_from_module

__all__ = ["GuestPlugin", "guest_plugin", "guests_in", "is_guest", "plugin_from_module"]
