"""Instances of a guest: instantiation, calls within limits, and the pool that assigns instances to attempts."""

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


#: The time limit of instantiation.
_START_SECONDS: Final = 10.0
#: The same for the instances after the first, which are created in scheduling attempts.
_RESTART_SECONDS: Final = 2.0
#: The limits of what an instance may contain: its memory; function tables and their elements (16 bytes each); the
#: guest, and the two modules around it.
_MEMORIES: Final = 1
_TABLES: Final = 5
_TABLE_ELEMENTS: Final = 1 << 20
_INSTANCES: Final = 3
#: The amount of a guest's last output that is included in an error.
_OUTPUT_BYTES: Final = 1000
_GATED: Final = (
    ("k8s.io/scheduler", "currentPod"),
    ("k8s.io/scheduler", "currentNodeName"),
    ("k8s.io/api", "node"),
    ("k8s.io/scheduler", "result.status_reason"),
)


class GuestPlan:
    """The data that all instances of a guest share."""

    def __init__(self, plugin: str, module: Module, exports: abi.Exports, args: GuestArgs, handle: Handle) -> None:
        self.plugin = plugin
        self.module = module
        self.exports = exports
        self.args = args
        self.handle = handle
        self.nodes = EncodedNodes()
        #: Whether an instance has started.
        self.has_started = False
        #: Whether the guest imports currentPod. Otherwise, as for batch guests, pods are not encoded.
        self.reads_pod = any((each.module, each.name) == _GATED[0] for each in module.imports)


class Guest:
    """An instance with its own store, which is freed with the instance."""

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
        with self._guarded("instantiate", _RESTART_SECONDS if plan.has_started else _START_SECONDS):
            self._make()
            self._start()
        plan.has_started = True

    def _make(self) -> None:
        from wasmtime import Limits, Linker, Memory, MemoryType, Table, TableType, ValType

        store, own = self._store, engine()
        switch = Table(store, TableType(ValType.funcref(), Limits(len(_GATED), len(_GATED))), None)
        memory = Memory(store, MemoryType(Limits(4, PAGE)))
        _set_limits(store, self.memory_limit)
        linker = Linker(own.wasmtime)
        linker.allow_shadowing = True
        linker.define_wasi()
        linker.define_func(abi.WASI, "poll_oneoff", _type("(i32, i32, i32, i32) -> (i32)"), _weak(self.host, "poll"))
        for (module, name), method in METHODS.items():
            linker.define_func(module, name, _type(abi.IMPORTS[module, name]), _weak(self.host, method))
        linker.define(store, "mooring", "switch", switch)
        linker.define(store, "mooring", "memory", memory)
        linker.define_func("mooring", "node", _type(abi.IMPORTS["k8s.io/api", "node"]), _weak(self.host, "node"))
        imports = linker.instantiate(store, own.guest_imports).exports(store)
        for module, name in _GATED:
            linker.define(store, module, name, imports[name])
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
        self.shared = SharedMemory(memory, store, self._grow_shared(memory), self._plan.nodes)

    def _grow_shared(self, memory: Any) -> Callable[[int], None]:
        """Return a function that grows the shared memory, which does not count towards the guest's limit."""
        store, limit = self._store, self.memory_limit

        def grow(pages: int) -> None:
            _set_limits(store, -1)
            memory.grow(store, pages)
            _set_limits(store, limit)

        return grow

    def _wanted(self, instance: Instance) -> list[str]:
        names = {*abi.NODE_EXPORTS, *abi.BATCH_EXPORTS, *abi.BATCH_HELPERS, "memory", "_start", "_initialize"}
        return [name for name in instance.exports(self._store) if name in names]

    def _start(self) -> None:
        """Run the guest's main function, which registers its plugins. It may exit with code 0."""
        from wasmtime import ExitTrap

        begin: Func | None = self._exports.get("_start") or self._exports.get("_initialize")
        if begin is not None:
            self.shared.prepare(None)
            try:
                begin(self._store)
            except ExitTrap as ended:
                if ended.code:
                    raise

    # Calls

    def call(self, export: str, call: Call, *params: int) -> int:
        """Call an exported function and return its result; 0 if it has none."""
        slot = self.shared.slot(call.node_name) if call.node_name else -1
        self.shared.prepare(call.pod if self._plan.reads_pod else None, slot % 2**32)
        self.host.call = call
        with self._guarded(export, self._limit):
            return self._exports[export](self._store, *params) or 0

    @property
    def memory_limit(self) -> int:
        """The limit of the guest's memory in bytes."""
        return self._plan.args.memory_bytes

    @property
    def reason(self) -> str:
        """The reason of the last call."""
        return self.shared.reason

    def filter_all(self, pod: Pod, nodes: Nodes) -> tuple[npt.NDArray[np.int32], Callable[[int], str]]:
        """Call `filter` for many nodes. Return statuses and reasons up to the first Error."""
        return self._all("filter", self._filter_all, pod, nodes, np.int32)

    def score_all(self, pod: Pod, nodes: Nodes) -> tuple[npt.NDArray[np.int64], Callable[[int], str]]:
        """Call `score` for many nodes. Return scores packed with statuses, up to the first that is not Success."""
        return self._all("score", self._score_all, pod, nodes, np.int64)

    def _all(self, export: str, function: Func, pod: Pod, nodes: Nodes, kind: type[Any]) -> tuple[Any, Any]:
        slots = self.shared.slots(nodes, len(nodes.table), with_nodes=self.host.reads_nodes)
        self.host.call = Call(pod=pod)

        def run(*params: int) -> int:
            with self._guarded(export, self._limit):
                return function(self._store, *params)  # type: ignore[no-any-return]  # shared_memory.wat returns i32

        return self.shared.run(run, pod if self._plan.reads_pod else None, slots, kind)

    @contextlib.contextmanager
    def _guarded(self, export: str, seconds: float) -> Iterator[None]:
        """Apply the time limit. An error makes the instance unusable and is raised as GuestError."""
        self._store.set_epoch_deadline(engine().ticks(seconds))
        self._output.clear()
        self.host.messages = 0
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
            text = f"the guest was stopped: it did not return within {seconds:g} s (timeLimit)"
        elif isinstance(error, ExitTrap):
            text = f"the guest exited with code {error.code}"
        else:
            text = _cause(error)
        limit, memory = self._plan.args.memory_bytes, getattr(self, "memory", None)
        if memory is not None and 2 * len(memory) > limit:
            text += f" (it has {len(memory) >> 10} KiB of memory; memoryLimit is {self._plan.args.memory_limit})"
        return f"{printed} {text}" if printed else text


def _set_limits(store: Store, memory: int) -> None:
    """Limit what an instance can allocate. The memory limit applies to each memory, so there is only one."""
    store.set_limits(
        memory_size=memory,
        memories=_MEMORIES,
        tables=_TABLES,
        table_elements=_TABLE_ELEMENTS,
        instances=_INSTANCES,
    )


class _Output:
    """The last output of a guest."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        """Append output."""
        self._data = (self._data + bytes(data))[-_OUTPUT_BYTES:]

    def clear(self) -> None:
        """Discard the output."""
        self._data = b""

    def text(self) -> str:
        """Return the output as text."""
        return self._data.decode("utf-8", "replace").strip()


def _cause(error: Exception) -> str:
    """Return the cause of a trap, which is the last line of its message; the lines before are the stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    traps = [line[line.index("wasm trap:") :] for line in lines if "wasm trap:" in line]
    return (traps or lines or [type(error).__name__])[-1]


def _type(signature: str) -> FuncType:
    from wasmtime import FuncType, ValType

    kinds = {"i32": ValType.i32, "i64": ValType.i64}
    params, results = (part.strip(" ()").split(", ") for part in signature.split("->"))
    return FuncType(*([kinds[word]() for word in words if word] for words in (params, results)))


def _weak(host: Host, method: str) -> Callable[..., Any]:
    """Return a host function with a weak reference: wasmtime holds it, and it must not keep the store alive."""
    reference = weakref.ref(host)

    def answer(*params: int) -> Any:
        return getattr(reference(), method)(*params)

    return answer


def _missing() -> int:
    raise LookupError("the guest has no such function")


def packed(answer: int) -> tuple[int, int]:
    """Split a 64-bit result into its signed high and low halves."""
    high, low = struct.unpack("<ii", struct.pack("<Q", answer % 2**64))[::-1]
    return high, low


class GuestError(RuntimeError):
    """An error of a guest: it trapped, exceeded a limit, or returned an invalid result."""

    def __init__(self, export: str, detail: str) -> None:
        super().__init__(f"wasm: {export} error: {' '.join(detail.split())}")


#: The maximum number of idle instances of a pool.
_MAX_IDLE: Final = 16
#: The maximum memory of the instances that attempts keep, if it is more than that of four instances.
_MAX_KEPT_BYTES: Final = 1 << 30


class Lease:
    """An attempt's lease of an instance. The instance returns to the pool when the lease is garbage collected."""

    __slots__ = ("__weakref__", "_pool", "guest", "size")

    def __init__(self, guest: Guest, pool: Pool) -> None:
        self.guest: Guest | None = guest
        #: The memory of the instance when the attempt kept it.
        self.size = 0
        self._pool = pool

    def release(self) -> None:
        """Return the instance to the pool."""
        guest, self.guest = self.guest, None
        self._pool.forget(self)
        if guest is not None:
            self._pool.put_back(guest)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at interpreter shutdown, globals may be gone
            self.release()


class Pool:
    """The instances of one plugin in one profile.

    Guests keep the state of an attempt in their memory, so an attempt uses one instance from PreFilter to the end of
    binding. Scheduling cycles run one after the other and share an instance. An attempt that found a node keeps its
    instance, because bindings overlap with later cycles, and returns it at the end.
    """

    def __init__(self, plugin: str, make: Callable[[], Guest]) -> None:
        self._make = make
        self._key: StateKey[Lease] = StateKey(f"{plugin}/guest")
        #: The lease of the current scheduling cycle.
        self._cycle: Lease | None = None
        #: The leases that attempts keep, the oldest first, and the memory of their instances.
        self._kept: dict[int, weakref.ref[Lease]] = {}
        self._kept_bytes = 0
        self._idle: list[Guest] = [make()]  # created now, so that a guest that cannot start is detected early

    def lease(self, state: CycleState) -> tuple[Guest, bool]:
        """Return the instance of an attempt, and whether it is new to the attempt."""
        lease = state.get(self._key)
        if lease is not None and lease.guest is not None and not lease.guest.dead:
            return lease.guest, False
        guest = self._free()
        lease = self._cycle = Lease(guest, self)
        state.write(self._key, lease)
        return guest, True

    def _free(self) -> Guest:
        if self._cycle is not None:
            last, self._cycle.guest = self._cycle.guest, None
            self._cycle = None
            if last is not None and not last.dead:
                return last
        return self._idle.pop() if self._idle else self._make()

    def keep(self, state: CycleState) -> None:
        """Keep the instance for an attempt that found a node, during later cycles.

        If the kept instances have too much memory, the oldest is freed. Its attempt gets another one when it goes on.
        """
        lease = self._cycle
        if lease is None or lease.guest is None or state.get(self._key) is not lease:
            return
        self._cycle = None
        lease.size = len(lease.guest.memory)
        self._kept[id(lease)] = weakref.ref(lease)
        self._kept_bytes += lease.size
        limit = max(_MAX_KEPT_BYTES, 4 * lease.guest.memory_limit)
        while self._kept_bytes > limit and len(self._kept) > 1:
            oldest = next(iter(self._kept.values()))()
            if oldest is None:  # it is being collected
                break
            self.forget(oldest)
            oldest.guest = None

    def forget(self, lease: Lease) -> None:
        """Do not count a lease as kept."""
        if self._kept.pop(id(lease), None) is not None:
            self._kept_bytes -= lease.size

    def release(self, state: CycleState) -> None:
        """Return the instance of a finished attempt."""
        lease = state.get(self._key)
        if lease is not None:
            self.keep(state)
            lease.release()

    def put_back(self, guest: Guest) -> None:
        """Add an instance to the idle instances."""
        if not guest.dead and len(self._idle) < _MAX_IDLE:
            self._idle.append(guest)
