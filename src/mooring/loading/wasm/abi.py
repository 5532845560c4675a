"""The two interfaces of guests: the functions that they export and import, with their signatures.

The first is that of kube-scheduler-wasm-extension: one function per extension point, called for one node at a time.
The second is Mooring's own, which handles many nodes in one call; see `batch_interface.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from mooring.loading.load_errors import PluginLoadError

if TYPE_CHECKING:
    from wasmtime import FuncType, Module

#: Export -> its signature, and the plugin methods that it provides.
NODE_EXPORTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "enqueue": ("() -> ()", ("events_to_register",)),
    "prefilter": ("() -> (i32)", ("pre_filter",)),
    "addpod": ("() -> (i32)", ("add_pod",)),
    "removepod": ("() -> (i32)", ("remove_pod",)),
    "filter": ("() -> (i32)", ("filter_nodes",)),
    "postfilter": ("() -> (i64)", ("post_filter",)),
    "prescore": ("() -> (i32)", ("pre_score",)),
    "score": ("() -> (i64)", ("score_nodes",)),
    "normalizescore": ("() -> (i32)", ("normalize_scores",)),
    "reserve": ("() -> (i32)", ("reserve",)),
    "unreserve": ("() -> ()", ("unreserve",)),
    "permit": ("() -> (i64)", ("permit",)),
    "prebind": ("() -> (i32)", ("pre_bind",)),
    "bind": ("() -> (i32)", ("bind",)),
    "postbind": ("() -> ()", ("post_bind",)),
}
BATCH_EXPORTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "mooring_filter": ("(i32) -> (i32)", ("filter_nodes",)),
    "mooring_score": ("(i32) -> (i32)", ("score_nodes",)),
}
#: The exports that batch functions require.
BATCH_HELPERS: Final = {"mooring_alloc": "(i32) -> (i32)", "mooring_columns": "() -> (i64)"}
#: A guest must export at least one of these.
_MAIN: Final = frozenset({"filter", "score", "reserve", "unreserve", "permit", "bind", "prefilter", *BATCH_EXPORTS})
WASI: Final = "wasi_snapshot_preview1"

_I32_1: Final = "(i32, i32) -> (i32)"
#: The functions that guests may import: module and function -> signature.
IMPORTS: Final[dict[tuple[str, str], str]] = {
    ("k8s.io/api", "node"): "(i32, i32, i32, i32) -> (i32)",
    ("k8s.io/api", "nodeList"): _I32_1,
    ("k8s.io/klog", "log"): "(i32, i32, i32) -> ()",
    ("k8s.io/klog", "logs"): "(i32, i32, i32, i32, i32) -> ()",
    ("k8s.io/klog", "severity"): "() -> (i32)",
    ("k8s.io/scheduler", "get_config"): _I32_1,
    ("k8s.io/scheduler", "currentPod"): _I32_1,
    ("k8s.io/scheduler", "targetPod"): _I32_1,
    ("k8s.io/scheduler", "currentNodeName"): _I32_1,
    ("k8s.io/scheduler", "filteredNodeList"): _I32_1,
    ("k8s.io/scheduler", "nodeToStatusMap"): _I32_1,
    ("k8s.io/scheduler", "nodeScoreList"): _I32_1,
    ("k8s.io/scheduler", "nodeImageStates"): "(i32, i32, i32, i32) -> (i32)",
    ("k8s.io/scheduler", "result.status_reason"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "result.nominated_node_name"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "result.node_names"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "result.cluster_events"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "result.normalized_score_list"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "handle.eventrecorder.eventf"): "(i32, i32) -> ()",
    ("k8s.io/scheduler", "handle.reject_waiting_pod"): "(i32, i32, i32, i32) -> ()",
    ("k8s.io/scheduler", "handle.get_waiting_pod"): "(i32, i32, i32, i32) -> ()",
}


class Exports(msgspec.Struct, frozen=True):
    """The checked exports of a guest."""

    names: frozenset[str]

    @property
    def batch(self) -> bool:
        """Whether the guest exports batch functions."""
        return any(name in self.names for name in BATCH_EXPORTS)

    @property
    def methods(self) -> frozenset[str]:
        """The plugin methods that the guest provides."""
        tables = NODE_EXPORTS | BATCH_EXPORTS
        return frozenset(method for name in self.names & tables.keys() for method in tables[name][1])


def check(where: str, module: Module) -> Exports:
    """Check a module and return its exports. Raises PluginLoadError."""
    functions, memories = _exports(module)
    if "memory" not in memories:
        raise PluginLoadError(f"{where}: the guest exports no memory; it must export one under the name memory")
    wanted = {name: signature for name, (signature, _) in (NODE_EXPORTS | BATCH_EXPORTS).items()}
    for name, signature in (wanted | BATCH_HELPERS).items():
        if name in functions and functions[name] != signature:
            raise PluginLoadError(f"{where}: the guest exports {name} as {functions[name]}; it must be {signature}")
    found = frozenset(functions)
    if not found & wanted.keys():
        raise PluginLoadError(
            f"{where}: the guest exports no plugin function; it must export one, such as filter or score"
        )
    if not found & _MAIN:
        given = ", ".join(sorted(found & wanted.keys()))
        raise PluginLoadError(
            f"{where}: the guest exports only {given}; it must also export filter, score, reserve, permit or bind"
        )
    exports = Exports(found)
    missing = BATCH_HELPERS.keys() - found if exports.batch else frozenset()
    if missing:
        raise PluginLoadError(
            f"{where}: the guest exports batch functions, so it must also export {', '.join(sorted(missing))}"
        )
    _check_imports(where, module)
    return exports


def _exports(module: Module) -> tuple[dict[str, str], set[str]]:
    from wasmtime import FuncType, MemoryType

    functions = {e.name: signature(e.type) for e in module.exports if isinstance(e.type, FuncType)}
    return functions, {e.name for e in module.exports if isinstance(e.type, MemoryType)}


def _check_imports(where: str, module: Module) -> None:
    from wasmtime import FuncType

    for entry in module.imports:
        name = f"{entry.module}.{entry.name}"
        if entry.module == WASI:
            continue
        known = IMPORTS.get((entry.module, entry.name or ""))
        if known is None or not isinstance(entry.type, FuncType):
            raise PluginLoadError(
                f"{where}: the guest imports {name}, which the scheduler does not provide; build it with the SDK of "
                "kube-scheduler-wasm-extension, for WASI preview 1"
            )
        if signature(entry.type) != known:
            raise PluginLoadError(f"{where}: the guest imports {name} as {signature(entry.type)}; it must be {known}")


def signature(kind: FuncType) -> str:
    """Format a function type: `(i32, i32) -> (i64)`."""
    return f"({', '.join(map(str, kind.params))}) -> ({', '.join(map(str, kind.results))})"
