"""Where a plugin failed: the author's frames of a traceback, without Mooring's and those of libraries."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.framework import plugin_frames
from mooring.framework.normalize import default_normalize
from mooring.framework.plugin_errors import failure_text
from mooring.framework.plugin_frames import (
    add_plugin_package,
    author_frames,
    author_traceback,
    format_frames,
    method_frames,
    place,
    set_author_frames,
)
from mooring.loading.module_importer import unload
from mooring.loading.plugin_files import load_file

ZONE = """\
import json

from mooring.framework import Plugin
from mooring.framework.normalize import default_normalize


class Zone(Plugin):
    def score(self, state, pod, node):
        return self.price(node)

    def price(self, node):
        return {}["missing"]

    def filter(self, state, pod, node):
        return json.loads("{")

    def permit(self, state, pod, node_name):
        return default_normalize("scores")

    @staticmethod
    def reserve(state, pod, node_name):
        return [default_normalize(Odd()) for _ in "a"]


class Odd:
    def max(self):
        raise RuntimeError("odd")

    def __len__(self):
        return 1
"""


def error_of(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.fixture
def zone(tmp_path: Path) -> Any:
    (tmp_path / "zone.py").write_text(ZONE)
    (found,) = load_file(tmp_path / "zone.py", "test")
    yield found.cls
    unload(found.cls.__module__)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("score", "zone.py:12 in price: KeyError: 'missing'"),
        ("filter", "zone.py:15 in filter: JSONDecodeError: Expecting property name"),  # not the line in json
        ("permit", "zone.py:18 in permit: AttributeError: 'str' object has no attribute 'max'"),  # not ours
        ("reserve", "zone.py:27 in max: RuntimeError: odd"),
    ],
)
def test_the_place_is_the_last_line_of_the_author(zone: Any, method: str, text: str) -> None:
    error = error_of(lambda: getattr(zone(), method)(None, None, None))
    assert failure_text(error).startswith(text)


def test_frames_of_others_are_left_out(zone: Any, tmp_path: Path) -> None:
    error = error_of(lambda: zone().reserve(None, None, ""))
    names = [frame.name for frame in author_frames(error) if frame.filename == str(tmp_path / "zone.py")]
    assert names[0] == "reserve"
    assert names[-1] == "max"
    assert not any("/mooring/" in frame.filename for frame in author_frames(error))


def test_frames_show_the_source_that_was_loaded(zone: Any, tmp_path: Path) -> None:
    (tmp_path / "zone.py").write_text("# the file was changed\n" * 40)
    error = error_of(lambda: zone().score(None, None, None))
    assert format_frames(author_frames(error)[-2:]).splitlines() == [
        f'  File "{tmp_path}/zone.py", line 9, in score',
        "    return self.price(node)",
        f'  File "{tmp_path}/zone.py", line 12, in price',
        '    return {}["missing"]',
    ]


def test_a_package_is_part_of_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "acme" / "scoring"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (tmp_path / "acme" / "__init__.py").write_text("from .scoring.zone import Zone\n")
    (folder / "zone.py").write_text(ZONE)
    (found,) = load_file(tmp_path / "acme", "test")
    try:
        error = error_of(lambda: found.cls().score(None, None, None))
        assert failure_text(error) == "acme/scoring/zone.py:12 in price: KeyError: 'missing'"
    finally:
        unload(found.cls.__module__)


def test_an_installed_plugin_has_frames_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    libraries = (f"{tmp_path}/", *plugin_frames._libraries())
    monkeypatch.setattr(plugin_frames, "_libraries", lambda: libraries)
    monkeypatch.setattr(plugin_frames, "_plugin_packages", set())
    (tmp_path / "zone_package.py").write_text("def score():\n    return other()\n\n\ndef other():\n    return 1 / 0\n")
    module = importlib.import_module("zone_package")
    error = error_of(module.score)
    del sys.modules["zone_package"]
    assert place(author_frames(error)).startswith("test_plugin_frames.py:"), "a library"
    add_plugin_package("zone_package")
    assert place(author_frames(error)) == "zone_package.py:6 in other"


def test_a_library_that_mooring_calls_is_not_the_authors() -> None:
    error = error_of(lambda: json.loads("{"))
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]  # without this file
    assert author_frames(error) == []


def test_an_exception_of_mooring_alone_has_no_place() -> None:
    error = error_of(lambda: default_normalize("scores"))  # type: ignore[call-overload]
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]  # without this file
    assert author_frames(error) == []
    assert author_traceback(error) is None
    assert failure_text(error).startswith("AttributeError: ")


def test_frames_can_come_from_elsewhere() -> None:
    error = RuntimeError("remote")
    frames = author_frames(error_of(lambda: json.loads("{")))
    set_author_frames(error, frames)
    assert failure_text(error).startswith("test_plugin_frames.py:")


def test_the_place_of_a_method(zone: Any) -> None:
    assert place(method_frames(zone.price)) == "zone.py:11 in price"
    assert place(method_frames(zone().price)) == "zone.py:11 in price"
    assert method_frames(default_normalize) == []
    assert method_frames(len) == []


def test_a_traceback_for_the_debugger(zone: Any) -> None:
    error = error_of(lambda: zone().score(None, None, None))
    entry, names = author_traceback(error), []
    while entry is not None:
        names.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    assert names[-2:] == ["score", "price"]
