from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.loading import PluginLoadError
from mooring.loading.wasm.guest_plugin import guest_plugin
from tests.loading.wasm.guests import module

FILTER = '(func (export "filter") (result i32) (i32.const 0))'
GUEST = module(FILTER)


@pytest.fixture
def guest_file(tmp_path: Path) -> Path:
    path = tmp_path / "guest.wasm"
    path.write_bytes(GUEST)
    return path


def test_a_module_is_compiled_once(guest_file: Path) -> None:
    first = guest_plugin("One", {"guestURL": f"file://{guest_file}"})
    second = guest_plugin("Two", {"guestURL": f"file://{guest_file}"})
    assert first.module is second.module  # type: ignore[attr-defined]


def test_without_wasmtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(PluginLoadError) as caught:
        guest_plugin("Guest", {"guestURL": "file://x"})
    assert str(caught.value) == (
        "Guest: WebAssembly guests need wasmtime, which is not installed; run pip install 'mooring-scheduler[wasm]'"
    )
