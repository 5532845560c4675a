"""Failing guests: one message, one failed attempt, and a new instance for the next one."""

from __future__ import annotations

import gc

import pytest
import wasmtime

from mooring.framework import CycleState, Handle
from mooring.loading.wasm.guest import GuestError
from mooring.testing import make_pod
from tests.loading.wasm.guests import harness, module

POD = make_pod("p").obj()
UNREACHABLE = "wasm trap: wasm `unreachable` instruction executed"
PRINT = '(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))'
EXIT = '(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))'
#: Prints five bytes from 16 to standard error, then traps.
PANIC = """(func (export "filter") (result i32)
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 5))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8)))
    unreachable)"""
#: Grows its memory until that fails.
GREEDY = """(func (export "filter") (result i32)
    (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable)"""


@pytest.mark.parametrize(
    ("guest", "args", "message"),
    [
        (
            module('(func (export "filter") (result i32) unreachable)'),
            {},
            f"wasm: filter error: {UNREACHABLE}",
        ),
        (
            module(PANIC, imports=PRINT, data="................panic"),
            {},
            f"wasm: filter error: panic {UNREACHABLE}",
        ),
        (
            module('(func (export "filter") (result i32) (loop $ever (br $ever)) (i32.const 0))'),
            {"timeLimit": "50ms"},
            "wasm: filter error: the guest was stopped: it did not return within 0.05 s (timeLimit)",
        ),
        (
            module(GREEDY),
            {"memoryLimit": "1Mi"},
            f"wasm: filter error: {UNREACHABLE} (it has 1024 KiB of memory; memoryLimit is 1Mi)",
        ),
        (
            module('(func $deep (export "filter") (result i32) (i32.add (call $deep) (call $deep)))'),
            {},
            "wasm: filter error: wasm trap: call stack exhausted",
        ),
        (
            module('(func (export "filter") (result i32) (call $exit (i32.const 3)) unreachable)', imports=EXIT),
            {},
            "wasm: filter error: the guest exited with code 3",
        ),
        (
            module('(func (export "filter") (result i32) (i32.const 77))'),
            {},
            "wasm: filter error: the guest returned the status 77; it must be 0 to 6",
        ),
        (
            module('(func (export "filter") (result i32) (i32.load (i32.const -1)))'),
            {},
            "wasm: filter error: wasm trap: out of bounds memory access",
        ),
    ],
    ids=["trap", "panic", "endless loop", "memory", "recursion", "exit", "unknown status", "out of bounds"],
)
def test_failures_are_reported_in_one_sentence(guest: bytes, args: dict[str, str], message: str) -> None:
    with pytest.raises(GuestError) as failed:
        harness(guest, **args).run(POD)
    assert str(failed.value) == message


def test_an_unknown_status() -> None:
    plugin = harness(module('(func (export "reserve") (result i32) (i32.const -1))')).plugin
    with pytest.raises(GuestError, match="the guest returned the status -1"):
        plugin.reserve(CycleState(), POD, "n1")


def test_an_unknown_nominating_mode() -> None:
    body = """(func (export "filter") (result i32) (i32.const 0))
        (func (export "postfilter") (result i64) (i64.const 0x0000000500000000))"""
    plugin = harness(module(body)).plugin
    with pytest.raises(GuestError, match="nominating mode 5"):
        plugin.post_filter(CycleState(), POD, None)


#: Fails in one call. It counts calls in its memory, so a new instance starts at zero.
ONCE = """(func (export "filter") (result i32)
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (if (i32.eq (i32.load (i32.const 0)) (i32.const 4)) (then unreachable)) (i32.const 0))"""


def test_the_next_attempt_gets_a_working_instance() -> None:
    found = harness(module(ONCE))
    nodes = found.nodes()
    assert found.plugin.filter_nodes(CycleState(), POD, nodes) is None
    state = CycleState()
    with pytest.raises(GuestError):
        found.plugin.filter_nodes(state, POD, nodes)
    assert found.plugin.filter_nodes(state, POD, nodes) is None, "even the same attempt can go on"
    with pytest.raises(GuestError):
        found.plugin.filter_nodes(CycleState(), POD, nodes)
    assert found.plugin.filter_nodes(CycleState(), POD, nodes) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("unreachable", "wasm: instantiate error: wasm trap: wasm `unreachable` instruction executed"),
        ("(call $exit (i32.const 2))", "wasm: instantiate error: the guest exited with code 2"),
    ],
)
def test_a_guest_that_cannot_start_fails_at_load(body: str, message: str) -> None:
    guest = module(f'(func (export "_start") {body}) (func (export "filter") (result i32) (i32.const 0))', imports=EXIT)
    with pytest.raises(GuestError) as failed:
        harness(guest)
    assert str(failed.value) == message


def test_a_guest_may_exit_from_its_main_function() -> None:
    body = """(func (export "_start") (i32.store (i32.const 0) (i32.const 2)) (call $exit (i32.const 0)) unreachable)
        (func (export "filter") (result i32) (i32.load (i32.const 0)))"""
    assert len(harness(module(body, imports=EXIT)).run(POD).rejected) == 3


def test_initial_memory_above_the_limit() -> None:
    guest = module('(func (export "filter") (result i32) (i32.const 0))', memory=32)
    with pytest.raises(GuestError, match=r"wasm: instantiate error: .*memory"):
        harness(guest, memoryLimit="1Mi")


def test_sleep_returns_at_once() -> None:
    """A guest that sleeps for an hour continues at once; the time limit could not interrupt the host function."""
    body = """(func (export "filter") (result i32)
        (i64.store (i32.const 0) (i64.const 7)) (i64.store (i32.const 24) (i64.const 3600000000000))
        (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))
        (i32.mul (i32.const 2) (i32.and
          (i32.eq (i32.load (i32.const 128)) (i32.const 1)) (i64.eq (i64.load (i32.const 64)) (i64.const 7)))))"""
    poll = '(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))'
    assert len(harness(module(body, imports=poll)).run(POD).rejected) == 3


def test_dropped_instances_are_freed() -> None:
    found = harness(module('(func (export "filter") (result i32) unreachable)'))

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, wasmtime.Store) for each in gc.get_objects())

    before = alive()
    for _ in range(10):
        with pytest.raises(GuestError):
            found.plugin.filter_nodes(CycleState(), POD, found.nodes())
    assert alive() <= before + 1


def test_shared_memory_does_not_count_towards_the_limit() -> None:
    names = [f"{number:0200d}" for number in range(1000)]
    guest = module('(func (export "filter") (result i32) (i32.const 0))')
    assert len(harness(guest, *names, memoryLimit="64Ki").run(POD).feasible) == 1000


def test_a_handle_without_nodes() -> None:
    found = harness(module('(func (export "filter") (result i32) (i32.const 0))'))
    assert isinstance(found.plugin.handle, Handle)
    assert found.plugin.filter_nodes(CycleState(), POD, found.nodes([])) is None


# Limits of what a guest can allocate


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("(memory 1)", "resource limit exceeded: memory count too high at 2"),
        ("(table 2000000 funcref)", "table minimum size of 2000000 elements exceeds table limits"),
        ("(table 1 funcref)" * 10, "resource limit exceeded: table count too high at 10"),
    ],
    ids=["a second memory", "a large table", "many tables"],
)
def test_modules_that_exceed_a_limit_do_not_start(fields: str, message: str) -> None:
    with pytest.raises(GuestError, match=message):
        harness(module(f'{fields} (func (export "filter") (result i32) (i32.const 0))'))


def test_shared_memory_has_no_limit_so_it_is_not_supported() -> None:
    text = '(module (memory (export "memory") 1 2 shared) (func (export "filter") (result i32) (i32.const 0)))'
    with pytest.raises(GuestError, match="shared memory support is disabled"):
        harness(bytes(wasmtime.wat2wasm(text)))


@pytest.mark.parametrize(("count", "feasible"), [(1000, ["n1", "n2", "n3"]), (200_000_000, [])])
def test_tables_grow_up_to_a_limit(count: int, feasible: list[str]) -> None:
    """A guest that returns Unschedulable if the growth fails."""
    grow = f"(i32.eq (table.grow $t (ref.null func) (i32.const {count})) (i32.const -1))"
    body = f'(table $t 1 funcref) (func (export "filter") (result i32) (i32.mul (i32.const 2) {grow}))'
    assert harness(module(body)).run(POD).feasible == feasible


@pytest.mark.parametrize("spin", ["(start $spin)", '(export "_start" (func $spin))'])
def test_a_later_instance_that_hangs_at_its_start_is_stopped_soon(monkeypatch: pytest.MonkeyPatch, spin: str) -> None:
    """Only the first instance may take long: later ones start in scheduling attempts."""
    monkeypatch.setattr("mooring.loading.wasm.guest._START_SECONDS", 0.05)
    body = f'(func $spin (loop $ever (br $ever))) {spin} (func (export "filter") (result i32) (i32.const 0))'
    with pytest.raises(GuestError, match=r"did not return within 0\.05 s"):
        harness(module(body))
