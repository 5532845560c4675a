"""Threads and file descriptors that replaced versions of plugins left behind.

A thread belongs to the plugin whose code it executes, or that it was started with. A file descriptor belongs to the
plugin that was set up when the descriptor was opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator

from mooring.loading.module_importer import ROOT, is_loaded, root_of
from mooring.loading.running_calls import plugin_modules, thread_frame

_FOLDER = "/dev/fd"
#: A file descriptor, and the device and inode of its file.
_Descriptor = tuple[int, int, int]


class Leaks:
    """A record of the file descriptors that plugins opened, to find leaks."""

    def __init__(self) -> None:
        self._descriptors: dict[str, set[_Descriptor]] = {}

    @contextlib.contextmanager
    def opening(self, module: str) -> Iterator[None]:
        """Attribute the file descriptors that are opened in the block to the plugin of a module."""
        before = _open_descriptors()
        try:
            yield
        finally:
            if opened := _open_descriptors() - before:
                self._descriptors.setdefault(root_of(module), set()).update(opened)

    def find(self, *, files: bool = True) -> dict[str, list[str]]:
        """Return the leaks of plugins that are no longer loaded, by module.

        Call `gc.collect` before, if ``files`` is true: an unused file object closes its descriptor.
        """
        found: dict[str, list[str]] = {}
        for thread in threading.enumerate():
            module = _module_of(thread)
            if module and not is_loaded(module):
                found.setdefault(module, []).append(f"thread {thread.name}")
        for module, opened in list(self._descriptors.items()) if files else ():
            if is_loaded(module) or not module.startswith(ROOT):
                continue
            still = self._descriptors[module] = opened & _open_descriptors()
            if still:
                found.setdefault(module, []).extend(sorted(_describe(number) for number, _, _ in still))
            else:
                del self._descriptors[module]
        return found


def _module_of(thread: threading.Thread) -> str:
    """Return the module of the plugin file that a thread belongs to; empty if it belongs to none."""
    for module in plugin_modules(thread_frame(thread.ident or 0)):
        return module
    for part in (getattr(thread, "_target", None), getattr(thread, "function", None), type(thread)):
        name = str(getattr(part, "__module__", ""))
        if name.startswith(f"{ROOT}."):
            return root_of(name)
    return ""


def _open_descriptors() -> set[_Descriptor]:
    """Return the open file descriptors, without sockets: Mooring opens sockets at any time."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(_FOLDER):
            with contextlib.suppress(OSError, ValueError):  # it was closed in the meantime
                status = os.fstat(int(name))
                if not stat.S_ISSOCK(status.st_mode):
                    found.add((int(name), status.st_dev, status.st_ino))
    return found


def _describe(descriptor: int) -> str:
    try:
        return f"file {os.readlink(f'{_FOLDER}/{descriptor}')}"
    except OSError:
        return f"file descriptor {descriptor}"
