"""WebAssembly guests as plugins: unmodified guests of kube-scheduler-wasm-extension, and batch guests.

A plugin whose `pluginConfig` args contain `guestURL` is a guest. `guest_plugin` creates its plugin class. Guests
require wasmtime: `pip install 'mooring-scheduler[wasm]'`.
"""

from mooring.loading.wasm.guest_config import guests_in, is_guest
from mooring.loading.wasm.guest_plugin import GuestPlugin, guest_plugin, plugin_from_module

__all__ = ["GuestPlugin", "guest_plugin", "guests_in", "is_guest", "plugin_from_module"]
