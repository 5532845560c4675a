"""Threads and files that a replaced version of a plugin left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.loading.leaks import Leaks
from mooring.loading.module_importer import root_of, unload
from mooring.loading.plugin_files import load_file
from tests.waiting import PATIENCE

PLUGIN = """\
import threading
from mooring.framework import Plugin

released = threading.Event()


class Mine(Plugin):
    def setup(self):
        self.file = open(__file__)
        self.thread = threading.Thread(target=self.work, name="worker", daemon=True)
        self.thread.start()
        self.timer = threading.Timer(600, self.work)
        self.timer.name, self.timer.daemon = "timer", True
        self.timer.start()

    def work(self):
        released.wait()

    def close(self):
        released.set()
        self.timer.cancel()
        self.file.close()

    def filter(self, state, pod, node):
        return None
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    (found,) = load_file(file, "test")
    yield found.cls
    unload(found.cls.__module__)


def test_what_an_unloaded_plugin_left_open_is_found_until_it_is_closed(loaded: Any, tmp_path: Path) -> None:
    leaks, module = Leaks(), root_of(loaded.__module__)
    with leaks.opening(loaded.__module__):
        plugin = loaded(None, None)
    assert module not in leaks.find(), "it is still loaded"
    unload(loaded.__module__)
    assert leaks.find()[module] == ["thread worker", "thread timer", f"file {tmp_path / 'mine.py'}"]
    plugin.close()
    plugin.thread.join(PATIENCE)
    plugin.timer.join(PATIENCE)
    assert module not in leaks.find()


def test_other_threads_and_descriptors_are_not_leaks(tmp_path: Path) -> None:
    released = threading.Event()
    thread = threading.Thread(target=released.wait, daemon=True)
    thread.start()
    leaks = Leaks()
    others = leaks.find()  # of earlier tests
    try:
        with leaks.opening("elsewhere"), open(os.devnull):
            assert leaks.find() == others
    finally:
        released.set()
        thread.join(PATIENCE)
