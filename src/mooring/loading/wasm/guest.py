"""One instance of a guest: made, called within its limits, and thrown away when it fails."""

from __future__ import annotations

import contextlib
import struct
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import CycleState, Handle, Nodes, StateKey
from mooring.loading.wasm import abi
from mooring.loading.wasm.guest_config import GuestArgs
from mooring.loading.wasm.host import METHODS, NO_CALL, Call, Host
from mooring.loading.wasm.shared_memory import PAGE, EncodedNodes, GuestMemory, SharedMemory
from mooring.loading.wasm.wasm_engine import engine

if TYPE_CHECKING:
    from wasmtime import Func, FuncType, Instance, Module, Store

    from mooring.loading.wasm.batch_interface import Batch


#: Starting up may take this long at least, whatever the limit for calls is.
_START_SECONDS: Final = 10.0
#: So much of what a guest printed last is told when it fails.
_OUTPUT_BYTES: Final = 1000
_GATED: Final = (
    ("k8s.io/scheduler", "currentPod"),
    ("k8s.io/scheduler", "currentNodeName"),
    ("k8s.io/api", "node"),
    ("k8s.io/scheduler", "result.status_reason"),
)


class GuestPlan:
    """What all instances of a guest have in common."""

    def __init__(self, plugin: str, module: Module, exports: abi.Exports, args: GuestArgs, handle: Handle) -> None:
        self.plugin = plugin
        self.module = module
        self.exports = exports
        self.args = args
        self.handle = handle
        self.nodes = EncodedNodes()
        #: A guest that never asks for the pod (batch guests have it in their request) spares us its encoding.
        self.reads_pod = any((each.module, each.name) == _GATED[0] for each in module.imports)


class Guest:
    """An instance with a store of its own, so that nothing is left of it when it goes."""

    def __init__(self, plan: GuestPlan) -> None:
        from wasmtime import Store, WasiConfig

        self._plan = plan
        self._limit = plan.args.seconds
        self._output = _Output()
        self.dead = False
        #: The batch functions, if the guest has any.
        self.batch: Batch | None = None
        self._store: Store = Store(engine().wasmtime)
        engine().keep_track(self._store)
        wasi = WasiConfig()
        wasi.argv = list(plan.args.argv)
        wasi.stdout_custom = wasi.stderr_custom = self._output.add
        self._store.set_wasi(wasi)
        self.host = Host(plan.plugin, plan.args, plan.handle, plan.nodes)
        with self._guarded("instantiate", _START_SECONDS):
            self._make()
            self._start()

    def _make(self) -> None:
        from wasmtime import Limits, Linker, Memory, MemoryType, Table, TableType, ValType

        store, own = self._store, engine()
        switch = Table(store, TableType(ValType.funcref(), Limits(len(_GATED), len(_GATED))), None)
        paper = Memory(store, MemoryType(Limits(4, PAGE)))
        store.set_limits(memory_size=self._plan.args.memory_bytes)
        linker = Linker(own.wasmtime)
        linker.allow_shadowing = True
        linker.define_wasi()
        linker.define_func(abi.WASI, "poll_oneoff", _type("(i32, i32, i32, i32) -> (i32)"), _weak(self.host, "poll"))
        for (module, name), method in METHODS.items():
            linker.define_func(module, name, _type(abi.IMPORTS[module, name]), _weak(self.host, method))
        linker.define(store, "mooring", "switch", switch)
        linker.define(store, "mooring", "memory", paper)
        linker.define_func("mooring", "node", _type(abi.IMPORTS["k8s.io/api", "node"]), _weak(self.host, "node"))
        gate = linker.instantiate(store, own.gate).exports(store)
        for module, name in _GATED:
            linker.define(store, module, name, gate[name])
        instance = linker.instantiate(store, self._plan.module)
        self._exports: dict[str, Any] = {name: instance.exports(store)[name] for name in self._wanted(instance)}
        self.memory = self.host.memory = GuestMemory(self._exports["memory"], store)
        linker.define(store, "guest", "memory", self._exports["memory"])
        for name, signature in (("filter", "() -> (i32)"), ("score", "() -> (i64)")):
            if name in self._exports:
                linker.define(store, "guest", name, self._exports[name])
            else:
                linker.define_func("guest", name, _type(signature), _missing)
        shared: Any = linker.instantiate(store, own.shared).exports(store)
        self._filter_all, self._score_all = shared["filter_all"], shared["score_all"]
        self.shared = SharedMemory(paper, store, self._grow_shared(paper), self._plan.nodes)

    def _grow_shared(self, paper: Any) -> Callable[[int], None]:
        """The shared is not the guest's: its memory may grow beyond what the guest may have."""
        store, limit = self._store, self._plan.args.memory_bytes

        def grow(pages: int) -> None:
            store.set_limits(memory_size=-1)
            paper.grow(store, pages)
            store.set_limits(memory_size=limit)

        return grow

    def _wanted(self, instance: Instance) -> list[str]:
        names = {*abi.NODE_EXPORTS, *abi.BATCH_EXPORTS, *abi.BATCH_HELPERS, "memory", "_start", "_initialize"}
        return [name for name in instance.exports(self._store) if name in names]

    def _start(self) -> None:
        """Run the guest's main function, in which it registers what it has; some end it by exiting."""
        from wasmtime import ExitTrap

        begin: Func | None = self._exports.get("_start") or self._exports.get("_initialize")
        if begin is not None:
            self.shared.lay(None)
            try:
                begin(self._store)
            except ExitTrap as ended:
                if ended.code:
                    raise

    # Calls

    def call(self, export: str, call: Call, *params: int) -> int:
        """Call an exported function about a pod, and perhaps a node; 0 if it answers nothing."""
        slot = self.shared.slot(call.node_name) if call.node_name else -1
        self.shared.lay(call.pod if self._plan.reads_pod else None, slot % 2**32)
        self.host.call = call
        with self._guarded(export, self._limit):
            return self._exports[export](self._store, *params) or 0

    @property
    def reason(self) -> str:
        """The reason that the guest gave in the last call."""
        return self.shared.reason

    def filter_all(self, pod: Pod, nodes: Nodes) -> tuple[npt.NDArray[np.int32], Callable[[int], str]]:
        """Ask `filter` about many nodes: statuses and reasons, up to the first Error."""
        return self._all("filter", self._filter_all, pod, nodes, np.int32)

    def score_all(self, pod: Pod, nodes: Nodes) -> tuple[npt.NDArray[np.int64], Callable[[int], str]]:
        """Ask `score` about many nodes: scores packed with statuses, up to the first that is no Success."""
        return self._all("score", self._score_all, pod, nodes, np.int64)

    def _all(self, export: str, function: Func, pod: Pod, nodes: Nodes, kind: type[Any]) -> tuple[Any, Any]:
        slots = self.shared.slots(nodes, len(nodes.table), with_nodes=self.host.reads_nodes)
        self.host.call = Call(pod=pod)

        def run(*params: int) -> int:
            with self._guarded(export, self._limit):
                return function(self._store, *params)  # type: ignore[no-any-return]  # shared_memory.wat says i32

        return self.shared.run(run, pod if self._plan.reads_pod else None, slots, kind)

    @contextlib.contextmanager
    def _guarded(self, export: str, seconds: float) -> Iterator[None]:
        """Within the time limit; whatever goes wrong ends this instance and is told in one sentence."""
        self._store.set_epoch_deadline(engine().ticks(seconds))
        self._output.clear()
        try:
            yield
        except Exception as error:
            self.dead = True
            raise GuestError(export, self._explain(error, seconds)) from None
        finally:
            self.host.call = NO_CALL

    def _explain(self, error: Exception, seconds: float) -> str:
        from wasmtime import ExitTrap, Trap, TrapCode

        printed = self._output.text()
        if isinstance(error, Trap) and error.trap_code is TrapCode.INTERRUPT:
            text = f"the guest was stopped: it had not come back after {seconds:g} s (timeLimit)"
        elif isinstance(error, ExitTrap):
            text = f"the guest ended itself with exit code {error.code}"
        else:
            text = _cause(error)
        limit, memory = self._plan.args.memory_bytes, getattr(self, "memory", None)
        if memory is not None and 2 * len(memory) > limit:
            text += f" (it has {len(memory) >> 10} KiB of memory; memoryLimit is {self._plan.args.memory_limit})"
        return f"{printed} {text}" if printed else text


class _Output:
    """The last of what a guest printed."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """Keep some more."""
        self._kept = (self._kept + bytes(data))[-_OUTPUT_BYTES:]

    def clear(self) -> None:
        """Forget all."""
        self._kept = b""

    def text(self) -> str:
        """What is kept."""
        return self._kept.decode("utf-8", "replace").strip()


def _cause(error: Exception) -> str:
    """The last line of a trap's message is what happened; the ones before are where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    traps = [line[line.index("wasm trap:") :] for line in lines if "wasm trap:" in line]
    return (traps or lines or [type(error).__name__])[-1]


def _type(signature: str) -> FuncType:
    from wasmtime import FuncType, ValType

    kinds = {"i32": ValType.i32, "i64": ValType.i64}
    params, results = (part.strip(" ()").split(", ") for part in signature.split("->"))
    return FuncType(*([kinds[word]() for word in words if word] for words in (params, results)))


def _weak(host: Host, method: str) -> Callable[..., Any]:
    """A host function. wasmtime keeps it as long as the store lives, so it must not keep the store alive itself."""
    reference = weakref.ref(host)

    def answer(*params: int) -> Any:
        return getattr(reference(), method)(*params)

    return answer


def _missing() -> int:
    raise LookupError("the guest has no such function")


def packed(answer: int) -> tuple[int, int]:
    """The high and the low half of an answer of 64 bits, both with a sign."""
    high, low = struct.unpack("<ii", struct.pack("<Q", answer % 2**64))[::-1]
    return high, low


class GuestError(RuntimeError):
    """A guest failed: it trapped, took too long, or answered what nobody understands."""

    def __init__(self, export: str, detail: str) -> None:
        super().__init__(f"wasm: {export} error: {' '.join(detail.split())}")


#: Instances that are kept although nobody needs them just now.
_SPARE = 16


class Lease:
    """An attempt's hold on an instance; what is held when the attempt is forgotten goes back by itself."""

    __slots__ = ("_pool", "guest")

    def __init__(self, guest: Guest, pool: Pool) -> None:
        self.guest: Guest | None = guest
        self._pool = pool

    def release(self) -> None:
        """The attempt is over."""
        guest, self.guest = self.guest, None
        if guest is not None:
            self._pool.take_back(guest)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # when the process ends, anything may be gone already
            self.release()


class Pool:
    """The instances of one plugin in one profile."""

    def __init__(self, plugin: str, make: Callable[[], Guest]) -> None:
        self._make = make
        self._key: StateKey[Lease] = StateKey(f"{plugin}/guest")
        #: The last attempt that has not taken its instance along.
        self._deciding: Lease | None = None
        self._spare: list[Guest] = [make()]  # at once, so that a guest that cannot start is found out at once

    def lease(self, state: CycleState) -> tuple[Guest, bool]:
        """The instance of an attempt, and whether it is new to it (or the one it had has failed)."""
        lease = state.get(self._key)
        if lease is not None and lease.guest is not None and not lease.guest.dead:
            return lease.guest, False
        guest = self._free()
        lease = self._deciding = Lease(guest, self)
        state.write(self._key, lease)
        return guest, True

    def _free(self) -> Guest:
        if self._deciding is not None:
            last, self._deciding.guest = self._deciding.guest, None
            self._deciding = None
            if last is not None and not last.dead:
                return last
        return self._spare.pop() if self._spare else self._make()

    def keep(self, state: CycleState) -> None:
        """The attempt has found a node: its instance stays with it beyond the next attempts."""
        if self._deciding is not None and state.get(self._key) is self._deciding:
            self._deciding = None

    def release(self, state: CycleState) -> None:
        """The attempt is over."""
        lease = state.get(self._key)
        if lease is not None:
            self.keep(state)
            lease.release()

    def take_back(self, guest: Guest) -> None:
        """An instance is free again."""
        if not guest.dead and len(self._spare) < _SPARE:
            self._spare.append(guest)
