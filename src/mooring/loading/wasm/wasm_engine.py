"""The WebAssembly engine of the process: compiled modules, and the clock that stops guests which do not come back."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.loading.load_errors import PluginLoadError

if TYPE_CHECKING:
    from wasmtime import Engine as WasmtimeEngine
    from wasmtime import Module, Store

#: How often the engine's clock ticks while guests run: time limits are kept to within one of these.
TICK_SECONDS: Final = 0.01
#: So long after the last call the clock stops; the next call starts it again.
_IDLE_SECONDS: Final = 1.0
#: Compiled modules that are kept, in case one is loaded again.
_MODULES: Final = 32


class Engine:
    """wasmtime's engine, what it has compiled, and its clock. One in a process; see `engine`."""

    def __init__(self) -> None:
        from wasmtime import Config, WasmtimeError
        from wasmtime import Engine as Made

        config = Config()
        config.epoch_interruption = True
        config.wasm_multi_memory = True
        with contextlib.suppress(WasmtimeError):  # where there is no home to write to, there is no cache on disk
            config.cache = True
        self.wasmtime: WasmtimeEngine = Made(config)
        self._modules: dict[str, Module] = {}
        self._in_use: weakref.WeakSet[Store | Module] = weakref.WeakSet()
        atexit.register(self._close)
        self._clock = _Clock(self.wasmtime)

    def keep_track(self, item: Store | Module) -> None:
        """Close something in time when the process ends, before Python takes apart what closing it needs."""
        self._in_use.add(item)

    def _close(self) -> None:
        for item in sorted(self._in_use, key=lambda each: type(each).__name__, reverse=True):  # stores, then modules
            item.close()

    def compile(self, where: str, binary: bytes) -> Module:
        """A module, compiled once in a process (and once on a machine, where the home can be written to)."""
        from wasmtime import Module, WasmtimeError

        digest = self.digest(binary)
        known = self._modules.get(digest)
        if known is None:
            while len(self._modules) >= _MODULES:
                del self._modules[next(iter(self._modules))]
            try:
                known = self._modules[digest] = Module(self.wasmtime, binary)
                self.keep_track(known)
            except WasmtimeError as error:
                reason = str(error).strip().splitlines()[-1].strip()
                raise PluginLoadError(f"{where}: is no valid WebAssembly module: {reason}") from None
        return known

    @staticmethod
    def digest(binary: bytes) -> str:
        """A module's checksum."""
        return hashlib.sha256(binary).hexdigest()

    @functools.cached_property
    def gate(self) -> Module:
        """`guest_imports.wat`, compiled."""
        return self._own("guest_imports.wat")

    @functools.cached_property
    def shared(self) -> Module:
        """`shared_memory.wat`, compiled."""
        return self._own("shared_memory.wat")

    def _own(self, name: str) -> Module:
        from wasmtime import Module, wat2wasm

        made = Module(self.wasmtime, bytes(wat2wasm((Path(__file__).parent / name).read_text(encoding="utf-8"))))
        self.keep_track(made)
        return made

    def ticks(self, seconds: float) -> int:
        """A time limit in ticks of the clock, which runs from now on."""
        self._clock.keep_running()
        return int(seconds / TICK_SECONDS) + 1


@functools.cache
def engine() -> Engine:
    """The engine of this process."""
    return Engine()


def require_wasmtime(where: str) -> None:
    """Make sure that there is an engine to be had. Raises PluginLoadError with the remedy."""
    try:
        import wasmtime  # noqa: F401 - it is about whether it is there
    except ImportError:
        raise PluginLoadError(
            f"{where}: WebAssembly guests need wasmtime, which is not installed; run pip install 'mooring[wasm]'"
        ) from None


class _Clock:
    """A thread that advances the engine's epoch while guests run."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._engine = engine
        self._last_call = 0.0
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def keep_running(self) -> None:
        """A call begins."""
        self._last_call = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="wasm-clock", daemon=True)
            self._thread.start()
        if not self._wanted.is_set():
            self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            time.sleep(TICK_SECONDS)
            self._engine.increment_epoch()
            if time.monotonic() - self._last_call > _IDLE_SECONDS:
                self._wanted.clear()
                if time.monotonic() - self._last_call < _IDLE_SECONDS:  # a call came just now
                    self._wanted.set()
