from __future__ import annotations

from pathlib import Path

import pytest

from mooring.loading import PluginLoadError, Requested, find_plugins, load_setup
from tests.loading.builders import SOURCES, enabling, load_errors, plugin, write


def pinned(path: str, digest: str) -> str:
    return f"{enabling('A')}---\n{SOURCES}plugins: [{{name: A, path: {path}, sha256: {digest}}}]\n"


@pytest.mark.parametrize(
    "layout", [{"a.py": plugin("A")}, {"a/__init__.py": "from .b import A", "a/b.py": plugin("A")}]
)
def test_a_pin_is_checked_before_the_code_runs(tmp_path: Path, layout: dict[str, str]) -> None:
    write(tmp_path, layout)
    path = next(iter(layout)).partition("/")[0]
    digest = find_plugins(Requested(plugins=(("A", tmp_path / path),))).found["A"].sha256
    assert load_setup(pinned(path, digest), source="f", base=tmp_path).plugins
    changed = tmp_path / list(layout)[-1]
    changed.write_text(changed.read_text() + "\nraise SystemExit('it ran')\n")
    with pytest.raises(PluginLoadError, match=f"but {digest} is pinned; review the change"):
        load_setup(pinned(path, digest), source="f", base=tmp_path)


@pytest.mark.parametrize("open_to_all", ["plugins", "plugins/a.py", "plugins/p", "plugins/p/inner.py"])
def test_files_that_others_can_write_are_rejected(tmp_path: Path, open_to_all: str) -> None:
    write(tmp_path, {"plugins/a.py": plugin("A"), "plugins/p/__init__.py": "", "plugins/p/inner.py": ""})
    (tmp_path / open_to_all).chmod(0o777)
    folder = (tmp_path / "plugins",)
    told = load_errors(Requested(directories=folder))
    assert told[0].startswith(f"{tmp_path / open_to_all}: can be written by all users")
    assert "--allow-writable-plugins" in told[0]
    assert "A" in find_plugins(Requested(directories=folder, allow_writable=True)).found
