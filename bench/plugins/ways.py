"""The kinds of plugins that implement the rule, each with a configuration."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from bench.plugins.rule import Columns, PerNode
from mooring.config import PluginSpec, SchedulerConfiguration, default_config, load_config
from mooring.framework import Plugin
from mooring.framework.points import points_of
from mooring.loading.isolation import isolated
from mooring.loading.plugin_files import load_file
from mooring.loading.wasm.guest_plugin import plugin_from_module

_HERE = Path(__file__).parent
_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Setup(msgspec.Struct, frozen=True):
    """The configuration and the plugins of an engine."""

    config: SchedulerConfiguration
    plugins: dict[str, type[Plugin]] = {}


Way = Callable[[], AbstractContextManager[Setup]]


@contextmanager
def _none() -> Iterator[Setup]:
    yield Setup(default_config())


def _with(plugin: type[Plugin], args: str = "") -> Setup:
    text = f"{_HEAD}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}\n"
    text += f"  pluginConfig: [{{name: {plugin.name}, args: {args}}}]\n" if args else ""
    specs = {plugin.name: PluginSpec(plugin.name, points_of(plugin), None)}
    return Setup(load_config(text, source="bench", plugins=specs), {plugin.name: plugin})


@contextmanager
def _per_node() -> Iterator[Setup]:
    yield _with(PerNode)


@contextmanager
def _columns() -> Iterator[Setup]:
    yield _with(Columns)


def _isolated(name: str) -> Way:
    """Return the rule in its own process."""

    @contextmanager
    def way() -> Iterator[Setup]:
        found = next(each for each in load_file(_HERE / "rule.py", "bench") if each.name == name)
        plugin = isolated(found, seconds=60.0, memory=0)
        try:
            yield _with(plugin)
        finally:
            plugin.process.close()

    return way


def _guest(file: str) -> Way:
    @contextmanager
    def guest() -> Iterator[Setup]:
        from wasmtime import wat2wasm

        binary = bytes(wat2wasm((_HERE / file).read_text()))
        yield _with(plugin_from_module("Guest", binary), '{guestURL: "file://guest.wasm"}')

    return guest


@contextmanager
def _extender() -> Iterator[Setup]:
    with subprocess.Popen([sys.executable, "-m", "bench.plugins.extender"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            text = f"""{_HEAD}extenders:
- {{urlPrefix: "http://127.0.0.1:{port}", filterVerb: filter, prioritizeVerb: prioritize, weight: 1,
   nodeCacheCapable: true, httpTimeout: 60s}}
"""
            yield Setup(load_config(text, source="bench"))
        finally:
            process.terminate()


WAYS: dict[str, Way] = {
    "none": _none,
    "columns": _columns,
    "per-node": _per_node,
    "columns-isolated": _isolated("Columns"),
    "per-node-isolated": _isolated("PerNode"),
    "wasm-batch": _guest("batch_guest.wat"),
    "wasm": _guest("guest.wat"),
    "extender": _extender,
}
