"""WebAssembly guests as plugins: unmodified guests of kube-scheduler-wasm-extension, and batch guests.

A plugin whose `pluginConfig` args contain `guestURL` is a guest. `guest_plugin` creates its plugin class. Guests
require wasmtime: `pip install 'mooring-scheduler[wasm]'`.
"""
