"""Reloading: unchanged plugins are kept, changed ones are imported as new modules, failures leave no modules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.loading import PluginLoadError, Requested
from mooring.loading.setup_files import SetupFiles, signature
from tests.loading.builders import loaded_modules

PLUGIN = (
    "from mooring.framework import Plugin\n\nclass {name}(Plugin):\n    class Args:\n        limit: int = {limit}\n\n"
)
PLUGIN += "    def score(self, state, pod, node):\n        return self.args.limit\n"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: A}}, {{name: B}}]}}}}
  pluginConfig: [{{name: A, args: {{limit: {limit}}}}}]
---
apiVersion: mooring.dev/v1alpha1
kind: PluginSources
directories: [more]
plugins:
- {{name: A, path: a.py{pin}}}
"""


class Folder:
    """A configuration with a plugin A in the same folder and B in a subfolder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "more").mkdir()
        self.plugin("A", 1)
        self.plugin("B", 1, "more/b.py")
        self.config(5)
        self.files = SetupFiles(path / "scheduler.yaml")

    def plugin(self, name: str, limit: int, file: str = "a.py") -> None:
        (self.path / file).write_text(PLUGIN.format(name=name, limit=limit))

    def config(self, limit: int, pin: str = "") -> None:
        (self.path / "scheduler.yaml").write_text(CONFIG.format(limit=limit, pin=pin and f", sha256: {pin}"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_unchanged_plugins_keep_their_class(folder: Folder) -> None:
    first = folder.files.load()
    again = folder.files.load(first)
    assert again.plugins == first.plugins
    assert again.catalog.modules() == first.catalog.modules()
    folder.plugin("B", 2, "more/b.py")
    after = folder.files.load(first)
    assert after.plugins["A"] is first.plugins["A"]
    assert after.plugins["B"] is not first.plugins["B"]
    assert first.catalog.unload(keep=after.catalog) == {first.plugins["B"].__module__}
    after.catalog.unload()


def test_changed_arguments_reload_only_that_plugin(folder: Folder) -> None:
    first = folder.files.load()
    folder.config(6)
    after = folder.files.load(first)
    assert after.plugins["A"] is not first.plugins["A"]
    assert after.plugins["B"] is first.plugins["B"]
    for setup in (first, after):
        setup.catalog.unload()


@pytest.mark.parametrize("broken", ["plugin", "config", "pin", "writable", "gone"])
def test_a_failed_reload_leaves_no_modules(folder: Folder, broken: str) -> None:
    first = folder.files.load()
    before = loaded_modules()
    folder.plugin("B", 2, "more/b.py")
    if broken == "plugin":
        (folder.path / "a.py").write_text("class A(:")
    elif broken == "config":
        folder.config(limit=6, pin="")
        (folder.path / "scheduler.yaml").write_text(
            (folder.path / "scheduler.yaml").read_text().replace("limit", "lim")
        )
    elif broken == "pin":
        folder.config(5, "a" * 64)
    elif broken == "writable":
        os.chmod(folder.path / "a.py", 0o666)
    else:
        (folder.path / "a.py").unlink()
    with pytest.raises((PluginLoadError, ConfigError)) as refused:
        folder.files.load(first)
    wanted = {
        "plugin": "invalid syntax",
        "config": "lim",
        "pin": "is pinned",
        "writable": "written by",
        "gone": "no such",
    }
    assert wanted[broken] in str(refused.value)
    assert loaded_modules() == before
    first.catalog.unload()


def test_paths_contains_all_files_of_a_setup(folder: Folder, tmp_path: Path) -> None:
    guest = tmp_path / "guest.wasm"
    guest.write_bytes(b"")
    text = (folder.path / "scheduler.yaml").read_text()
    text = text.replace("pluginConfig: [", f"pluginConfig: [{{name: G, args: {{guestURL: 'file://{guest}'}}}}, ")
    (folder.path / "scheduler.yaml").write_text(text)
    (tmp_path / "alone.py").write_text("")
    files = SetupFiles(folder.path / "scheduler.yaml", Requested((("C", tmp_path / "alone.py"),)))
    seen = signature(files.paths())
    for change in (
        lambda: guest.write_bytes(b"1"),
        lambda: folder.plugin("A", 3),
        lambda: folder.plugin("D", 3, "more/d.py"),
        (folder.path / "more/d.py").unlink,
        lambda: folder.config(7),
        lambda: (tmp_path / "alone.py").write_text("# more"),
    ):
        change()
        now = signature(files.paths())
        assert now != seen
        assert signature(files.paths()) == now
        seen = now


WATCHING = PLUGIN.format(name="A", limit=1) + "    watch_files = ['data/prices.csv']\n"


def test_a_changed_data_file_reloads_its_plugin(folder: Folder) -> None:
    data = folder.path / "data" / "prices.csv"
    data.parent.mkdir()
    data.write_text("a,1\n")
    (folder.path / "a.py").write_text(WATCHING)
    first = folder.files.load()
    assert folder.files.seen == signature(folder.files.paths())
    assert data in folder.files.paths()
    assert folder.files.load(first).plugins == first.plugins
    data.write_text("a,2\n")
    assert folder.files.seen != signature(folder.files.paths())
    again = folder.files.load(first)
    assert again.plugins["A"] is not first.plugins["A"]
    assert again.plugins["B"] is first.plugins["B"]


def test_data_files_are_watched_while_the_plugin_is_wrong(folder: Folder) -> None:
    data = folder.path / "data" / "prices.csv"
    data.parent.mkdir()
    data.write_text("a,1\n")
    (folder.path / "a.py").write_text(WATCHING)
    first = folder.files.load()
    (folder.path / "a.py").write_text("class A(:\n")
    with pytest.raises(PluginLoadError):
        folder.files.load(first)
    assert data in folder.files.paths()


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("['prices.csv']", "prices.csv does not exist"),
        ("'prices.csv'", "watch_files is 'prices.csv'; write for example"),
        ("[3]", r"watch_files is \[3\]; write for example"),
    ],
)
def test_wrong_data_files_are_reported(folder: Folder, declared: str, problem: str) -> None:
    (folder.path / "a.py").write_text(WATCHING.replace("['data/prices.csv']", declared))
    with pytest.raises(PluginLoadError, match=rf"a.py:9: A: .*{problem}"):
        folder.files.load()


@pytest.mark.parametrize("file", ["a.py", "scheduler.yaml"])
def test_every_half_written_file_is_loaded_or_rejected(folder: Folder, file: str) -> None:
    """A file can be read at any moment of a write. Rejected versions leave nothing behind."""
    first = folder.files.load()
    modules = loaded_modules()
    whole = (folder.path / file).read_bytes()
    problems: list[str] = []
    for size in range(0, len(whole), 13):
        for tail in (b"", b"\0" * (len(whole) - size)):  # a file that is shorter, or has holes
            (folder.path / file).write_bytes(whole[:size] + tail)
            try:
                folder.files.load(first).catalog.unload(keep=first.catalog)
            except (ConfigError, PluginLoadError) as error:
                problems.append(str(error))
            assert loaded_modules() == modules
    assert len(problems) > len(whole) // 13
    assert all(str(folder.path) in each for each in problems)
    first.catalog.unload()


def test_permissions_and_copies_that_keep_the_modification_time_are_changes(folder: Folder) -> None:
    file = folder.path / "a.py"
    seen, times = signature([file]), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.chmod(0o600)  # as the message about a file that others can write advises
    assert signature([file]) != seen
    seen = signature([file])
    data = file.read_bytes().replace(b"1", b"2")
    while signature([file]) == seen:  # the clock of the file system has ticks
        file.write_bytes(data)
        os.utime(file, ns=times)


def test_a_file_that_is_too_large_is_not_read(folder: Folder) -> None:
    (folder.path / "scheduler.yaml").write_bytes(b"# comment\n" * 150_000)
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: has more than 1 MiB, the maximum size of a ConfigMap"):
        folder.files.load()
