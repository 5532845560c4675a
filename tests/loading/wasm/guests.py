"""Guests for tests, in WebAssembly's text format, and clusters for them."""

from __future__ import annotations

from typing import Any

import wasmtime

from mooring.loading.wasm.guest_plugin import plugin_from_module
from mooring.testing import PluginHarness, make_node

REASON = '(import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))'


def module(body: str, *, imports: str = "", memory: int = 1, data: str = "") -> bytes:
    """A module with a memory, and a text at 0."""
    text = f'(module {imports} (memory (export "memory") {memory}) (data (i32.const 0) "{data}") {body})'
    return bytes(wasmtime.wat2wasm(text))


def saying(export: str, text: str, answer: str) -> str:
    """A function that sets a text (the module's data) as the reason, and returns an answer."""
    kind = answer[:3]
    return f"""(func (export "{export}") (result {kind})
        (call $reason (i32.const 0) (i32.const {len(text)})) ({answer}))"""


def echo(export: str, source: str, name: str, *, answer: str = "i32.const 2", limit: int = 32000) -> bytes:
    """A guest whose function reads data from the host, and sets it as the reason."""
    body = f"""(func (export "{export}") (result {answer[:3]})
        (call $reason (i32.const 1024) (call $read (i32.const 1024) (i32.const {limit}))) ({answer}))"""
    imports = f'{REASON} (import "{source}" "{name}" (func $read (param i32 i32) (result i32)))'
    return module(body, imports=imports)


def look_up(export: str, source: str, name: str, about: str, *, answer: str = "i32.const 2") -> bytes:
    """The same for a host function that takes a node name."""
    body = f"""(func (export "{export}") (result {answer[:3]})
        (call $reason (i32.const 1024)
          (call $read (i32.const 0) (i32.const {len(about)}) (i32.const 1024) (i32.const 32000))) ({answer}))"""
    imports = f'{REASON} (import "{source}" "{name}" (func $read (param i32 i32 i32 i32) (result i32)))'
    return module(body, imports=imports, data=about)


def harness(binary: bytes, *names: str, name: str = "Guest", **args: Any) -> PluginHarness:
    """The guest on a cluster, by default with three nodes."""
    plugin = plugin_from_module(name, binary)
    nodes = [make_node(each).obj() for each in names or ("n1", "n2", "n3")]
    return PluginHarness(plugin, args={"guestURL": "file://guest.wasm", **args}, nodes=nodes)
