"""Where in the author's code a plugin failed.

The traceback of a plugin's exception contains frames of Mooring, of the plugin, and of libraries. The author's frames
are those of the plugin and of the author's other modules: neither Mooring, nor Python's library, nor an installed
package, unless that package contains a plugin.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

_MOORING = f"{Path(__file__).parents[1]}/"
#: The attribute of an exception whose traceback does not contain the author's frames.
_FRAMES = "__author_frames__"
#: The installed packages that contain plugins.
_plugin_packages: set[str] = set()

Frames = list[traceback.FrameSummary]


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return what the names of files of libraries start with. It takes milliseconds to find out."""
    import sysconfig

    paths = {f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*paths, "<frozen")


def author_frames(error: BaseException) -> Frames:
    """Return the author's frames in the traceback of an exception, the innermost last."""
    known: Frames | None = getattr(error, _FRAMES, None)
    return known if known is not None else [_summary(each) for each in _entries(error)]


def author_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception with the author's frames only, for a debugger."""
    made: TracebackType | None = None
    for each in reversed(_entries(error)):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made


def is_mooring(filename: str) -> bool:
    """Whether a source file is part of Mooring."""
    return filename.startswith(_MOORING)


def _entries(error: BaseException) -> list[TracebackType]:
    """Return the entries of the traceback that are the author's, the innermost last."""
    found, entry = [], error.__traceback__
    while entry is not None:
        if _is_author(entry.tb_frame):
            found.append(entry)
        entry = entry.tb_next
    return found


def add_plugin_package(module: str) -> None:
    """Count the package of a module as the author's, also if it is installed."""
    _plugin_packages.add(_top(module))


def set_author_frames(error: BaseException, frames: Iterable[traceback.FrameSummary]) -> None:
    """Set the author's frames of an exception that was raised elsewhere, such as in another process."""
    setattr(error, _FRAMES, list(frames))


def method_frames(method: Callable[..., Any]) -> Frames:
    """Return the definition of a method as a frame, for an exception about its result; empty if it is unknown."""
    function = inspect.unwrap(method)
    code = getattr(function, "__code__", None)
    if code is None or is_mooring(code.co_filename):
        return []
    return [traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name, lookup_line=False, line="")]


def place(frames: Frames) -> str:
    """Return the place of the innermost frame: ``zone.py:48 in score``; empty if there are no frames."""
    if not frames:
        return ""
    frame = frames[-1]
    return f"{short_path(frame.filename)}:{frame.lineno} in {frame.name}"


def short_path(filename: str) -> str:
    """Return the name of a file, with the packages that contain it: ``zone.py``, ``topology/zone.py``."""
    path = Path(filename)
    name, folder = path.name, path.parent
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}/{name}", folder.parent
    return name


def format_frames(frames: Frames) -> str:
    """Return frames as Python prints them in a traceback, the innermost last."""
    return "".join(traceback.format_list(frames)).rstrip("\n")


def _summary(entry: TracebackType) -> traceback.FrameSummary:
    code, line = entry.tb_frame.f_code, entry.tb_lineno
    text = _source_line(entry.tb_frame, line)
    return traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False, line=text)


def _source_line(frame: FrameType, line: int) -> str:
    """Return a line of the source that was loaded; the file may have changed since."""
    loader = frame.f_globals.get("__loader__")
    try:
        source = loader.get_source(frame.f_globals.get("__name__"))  # type: ignore[union-attr]
        return str(source.splitlines()[line - 1]).strip()
    except Exception:  # there is no loader, or it has no source
        return linecache.getline(frame.f_code.co_filename, line).strip()


def _is_author(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    if is_mooring(filename):
        return False
    return not filename.startswith(_libraries()) or _top(frame.f_globals.get("__name__")) in _plugin_packages


def _top(module: object) -> str:
    return str(module).partition(".")[0]
