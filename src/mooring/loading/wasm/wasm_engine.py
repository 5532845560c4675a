"""The WebAssembly engine of the process, with compiled modules and the clock that enforces time limits."""

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

#: The tick interval of the engine's clock while guests run, which is the precision of time limits.
TICK_SECONDS: Final = 0.01
#: The clock stops this long after the last call, and restarts with the next one.
_IDLE_SECONDS: Final = 1.0
#: The number of compiled modules that are cached.
_MAX_MODULES: Final = 32


class Engine:
    """wasmtime's engine with its compiled modules and clock. There is one per process; see `engine`."""

    def __init__(self) -> None:
        from wasmtime import Config, WasmtimeError
        from wasmtime import Engine as Made

        config = Config()
        config.epoch_interruption = True
        config.wasm_multi_memory = True
        with contextlib.suppress(WasmtimeError):  # without a writable home directory, there is no cache on disk
            config.cache = True
        self.wasmtime: WasmtimeEngine = Made(config)
        self._modules: dict[str, Module] = {}
        self._in_use: weakref.WeakSet[Store | Module] = weakref.WeakSet()
        atexit.register(self._close)
        self._clock = _Clock(self.wasmtime)

    def keep_track(self, item: Store | Module) -> None:
        """Register an item to be closed at exit, before the interpreter shuts down."""
        self._in_use.add(item)

    def _close(self) -> None:
        for item in sorted(self._in_use, key=lambda each: type(each).__name__, reverse=True):  # stores, then modules
            item.close()

    def compile(self, where: str, binary: bytes) -> Module:
        """Compile a module. It is cached in the process, and on disk if the home directory is writable."""
        from wasmtime import Module, WasmtimeError

        digest = self.digest(binary)
        known = self._modules.get(digest)
        if known is None:
            while len(self._modules) >= _MAX_MODULES:
                del self._modules[next(iter(self._modules))]
            try:
                known = self._modules[digest] = Module(self.wasmtime, binary)
                self.keep_track(known)
            except WasmtimeError as error:
                reason = str(error).strip().splitlines()[-1].strip()
                raise PluginLoadError(f"{where}: is not a valid WebAssembly module: {reason}") from None
        return known

    @staticmethod
    def digest(binary: bytes) -> str:
        """Return a module's checksum."""
        return hashlib.sha256(binary).hexdigest()

    @functools.cached_property
    def guest_imports(self) -> Module:
        """The compiled `guest_imports.wat`."""
        return self._own("guest_imports.wat")

    @functools.cached_property
    def shared(self) -> Module:
        """The compiled `shared_memory.wat`."""
        return self._own("shared_memory.wat")

    def _own(self, name: str) -> Module:
        from wasmtime import Module, wat2wasm

        made = Module(self.wasmtime, bytes(wat2wasm((Path(__file__).parent / name).read_text(encoding="utf-8"))))
        self.keep_track(made)
        return made

    def ticks(self, seconds: float) -> int:
        """Return a time limit in ticks, and start the clock."""
        self._clock.keep_running()
        return int(seconds / TICK_SECONDS) + 1


@functools.cache
def engine() -> Engine:
    """Return the engine of this process."""
    return Engine()


def require_wasmtime(where: str) -> None:
    """Check that wasmtime is installed. Raises PluginLoadError with the remedy."""
    try:
        import wasmtime  # noqa: F401 - checks that it can be imported
    except ImportError:
        raise PluginLoadError(
            f"{where}: WebAssembly guests need wasmtime, which is not installed; "
            "run pip install 'mooring-scheduler[wasm]'"
        ) from None


class _Clock:
    """A thread that advances the engine's epoch while guests run."""

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._engine = engine
        self._last_call = 0.0
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def keep_running(self) -> None:
        """Start the clock for a call."""
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
                if time.monotonic() - self._last_call < _IDLE_SECONDS:  # a call has started since
                    self._wanted.set()
