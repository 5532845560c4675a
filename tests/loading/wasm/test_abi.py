from __future__ import annotations

import pytest

from mooring.loading import PluginLoadError
from mooring.loading.wasm.guest_plugin import plugin_from_module
from tests.loading.wasm.guests import module

FILTER = '(func (export "filter") (result i32) (i32.const 0))'
READ = '(import "k8s.io/scheduler" "currentPod" (func (param i32) (result i32)))'


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (module(""), "exports no plugin function; it must export one, such as filter or score"),
        (module('(func (export "fliter") (result i32) (i32.const 0))'), "exports no plugin function"),
        (module('(func (export "prescore") (result i32) (i32.const 0))'), "exports only prescore"),
        (module('(func (export "postbind"))'), "exports only postbind"),
        (module('(func (export "filter") (result i64) (i64.const 0))'), "exports filter as () -> (i64); it must be"),
        (module('(func (export "score") (param i32))'), "exports score as (i32) -> (); it must be () -> (i64)"),
        (module(FILTER, imports='(import "env" "f" (func))'), "imports env.f, which the scheduler does not provide"),
        (module(FILTER, imports=READ), "imports k8s.io/scheduler.currentPod as (i32) -> (i32); it must be"),
        (module('(func (export "mooring_filter") (param i32) (result i32) (i32.const 0))'),
         "exports batch functions, so it must also export mooring_alloc, mooring_columns"),
    ],
)  # fmt: skip
def test_modules_that_are_not_guests(guest: bytes, message: str) -> None:
    with pytest.raises(PluginLoadError) as refused:
        plugin_from_module("Guest", guest)
    assert f"Guest: the guest {message}" in str(refused.value)


def test_a_guest_without_memory() -> None:
    guest = module(FILTER).replace(b"\x06memory", b"\x06nemory")
    with pytest.raises(PluginLoadError, match="exports no memory"):
        plugin_from_module("Guest", guest)
