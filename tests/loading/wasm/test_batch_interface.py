"""Batch guests: all nodes in one call, in columns."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from mooring.framework import CycleState, Status
from mooring.loading.wasm.batch_interface import make_column
from mooring.loading.wasm.guest import GuestError
from mooring.testing import PluginHarness, make_node, make_pod
from tests.loading.wasm.guests import harness, module

HEADROOM = (Path(__file__).parents[3] / "examples/wasm/headroom/headroom.wasm").read_bytes()
POD = make_pod("p").uid("u").req(cpu="500m").obj()


def batch(columns: str, *, score: str = "", filtering: str = "", text: str = "") -> bytes:
    """A guest that requests columns and returns a text. The bodies have the request in local 0."""
    data = (columns + text).replace("\0", "\\00")
    body = f"""
        (func (export "mooring_alloc") (param i32) (result i32) (i32.const 4096))
        (func (export "mooring_columns") (result i64) (i64.const {len(columns)}))
        (func $say (param $request i32)
          (i32.store offset=28 (local.get 0) (i32.const {len(columns)}))
          (i32.store offset=32 (local.get 0) (i32.const {len(text)})))"""
    for export, code in (("mooring_score", score), ("mooring_filter", filtering)):
        if code:
            body += f'(func (export "{export}") (param i32) (result i32) {code})'
    return module(body, memory=4, data=data)


def asked(columns: str) -> tuple[PluginHarness, dict[str, Any]]:
    """Return the request of a guest with these columns on a small cluster."""
    found = harness(batch(columns, score="(i32.const 0)"), "a", "bb", guestConfig="conf")
    found.table.update_node(make_node("a").allocatable(cpu="4", memory="8Gi", pods="10").label(zone="z1").obj())
    found.table.update_node(make_node("bb").allocatable(cpu="2", pods="20").unschedulable().obj())
    found.add(make_pod("q").uid("q").node("a").req(cpu="1").obj())
    state = CycleState()
    assert found.plugin.score_nodes(state, POD, found.nodes()).tolist() == [0, 0]
    memory = found.plugin._pool.lease(state)[0].memory
    words = struct.unpack("<10I", memory.read(4096, 40))
    entries = [struct.unpack("<4I", memory.read(4096 + 40 + 16 * i, 16)) for i in range(words[9])]
    columns_ = [(memory.read(at, size), memory.read(where, length)) for at, size, where, length in entries]
    config = memory.text(words[4], words[5])
    return found, {"words": words, "columns": columns_, "config": config, "pod": memory.text(words[2], words[3])}


def numbers(raw: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(raw) // 8}q", raw))


def test_request_layout() -> None:
    _, given = asked("pod_count")
    assert given["words"][:2] == (1, 2)
    assert given["config"] == "conf"
    assert '"name":"p"' in given["pod"]
    assert all(address % 8 == 0 for address in (given["words"][i] for i in (2, 4, 6)))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("allocatable:cpu", [4000, 2000]),
        ("allocatable:memory", [8 << 30, 0]),
        ("allocatable:example.com/none", [0, 0]),
        ("requested:cpu", [1000, 0]),
        ("nonzero_requested:memory", [200 << 20, 0]),
        ("pod_count", [1, 0]),
        ("allowed_pods", [10, 20]),
        ("pod_request:cpu", [500]),
        ("pod_request:memory", [0]),
    ],
)
def test_amounts(column: str, expected: list[int]) -> None:
    _, given = asked(column)
    assert numbers(given["columns"][0][0]) == expected


def test_labels_names_and_flags() -> None:
    found, given = asked("label:zone name unschedulable label:none")
    zone, name, cordoned, none = given["columns"]
    codes = struct.unpack("<2i", zone[0])
    assert zone[1].split(b"\0")[codes[0]] == b"z1"
    assert codes[1] == -1
    assert struct.unpack("<3I", name[0]) == (0, 2, 5)
    assert name[1] == b"a\0bb\0"
    assert cordoned[0] == b"\0\1"
    assert struct.unpack("<2i", none[0]) == (-1, -1)
    assert found.plugin.per_node is False


def test_the_name_cache_follows_the_nodes() -> None:
    """They are cached between calls."""
    column = make_column("name")
    found = harness(batch("name", score="(i32.const 0)"), "a", "b")

    def names(*wanted: str) -> bytes:
        return column(POD, found.nodes(wanted or None))[1]

    assert [names(), names("b"), names("b", "a"), names()] == [b"a\0b\0", b"b\0", b"b\0a\0", b"a\0b\0"]
    found.table.remove_node("a")
    found.add(make_node("c").obj())
    assert [names(), names("c")] == [b"b\0c\0", b"c\0"]
    for _ in range(20):
        assert [names("b"), names("c"), names("c", "b")] == [b"b\0", b"c\0", b"c\0b\0"]


FIRST_COLUMN = "(i32.load offset=40 (local.get 0))"
ANSWERS = "(i32.load offset=24 (local.get 0))"


def test_scores() -> None:
    """The guest copies the first column to the answers."""
    copy = f"(memory.copy {ANSWERS} {FIRST_COLUMN} (i32.const 16)) (i32.const 0)"
    found = harness(batch("allowed_pods", score=copy), "a", "b")
    found.table.update_node(make_node("a").allocatable(pods="7").obj())
    found.table.update_node(make_node("b").allocatable(pods="9").obj())
    assert found.run(POD).scores == {"a": 7, "b": 9}
    assert found.plugin.score_nodes(CycleState(), POD, found.nodes(["b"])).tolist() == [9]


def test_verdicts_and_reasons() -> None:
    code = f"""(i32.store {ANSWERS} (i32.const 2)) (i32.store offset=4 {ANSWERS} (i32.const 0))
        (i32.store offset=8 {ANSWERS} (i32.const -1)) (call $say (local.get 0)) (i32.const 0)"""
    run = harness(batch("pod_count", filtering=code, text="one\0two\0")).run(POD)
    assert run.filter == {"n1": Status.unschedulable("two"), "n2": Status(), "n3": Status.unresolvable("one")}


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        (batch("colour", score="(i32.const 0)"), "the guest requests the unknown column 'colour'"),
        (batch("label", score="(i32.const 0)"), "the unknown column 'label'; columns are name, allocatable:NAME"),
        (batch("name:x", score="(i32.const 0)"), "requests the unknown column 'name:x'"),
        (
            batch("", score="(call $say (local.get 0)) (i32.const 1)", text="went wrong"),
            "wasm: mooring_score error: went wrong",
        ),
        (batch("", score="(i32.const 9)"), "wasm: mooring_score error: the guest returned 9"),
        (
            batch("", filtering=f"(i32.store {ANSWERS} (i32.const 3)) (i32.const 0)"),
            "wasm: mooring_filter error: the guest returned reason 3 of 1",
        ),
        (
            batch("", score="(i32.const 0)").replace(b"\x41\x80\x20", b"\x41\x81\x20"),
            "wasm: mooring_alloc error: the guest returned the address 4097 for",
        ),
        (
            batch("", score="(i32.const 0)").replace(b"\x41\x80\x20", b"\x41\xf8\x7f"),
            "within its memory of 262144 bytes",
        ),
        (
            batch("", score="(i32.store offset=28 (local.get 0) (i32.const -1)) (i32.store offset=32 (local.get 0)"
                  " (i32.const 5)) (i32.const 0)"),
            "outside of the guest's memory",
        ),
    ],
)  # fmt: skip
def test_batch_guests_that_fail(guest: bytes, message: str) -> None:
    with pytest.raises(GuestError) as failed:
        harness(guest).run(POD)
    assert message in str(failed.value)


def headroom(config: str = "") -> PluginHarness:
    found = harness(HEADROOM, "big", "small", "full", guestConfig=config)
    for name, cpu in (("big", "10"), ("small", "1"), ("full", "2")):
        found.table.update_node(make_node(name).allocatable(cpu=cpu, pods="10").obj())
    found.add(make_pod("q").uid("q").node("full").req(cpu="1400m").obj())
    return found


def test_a_guest_in_rust() -> None:
    run = headroom().run(POD)
    assert run.rejected == {"full": ("not enough CPU headroom",)}
    assert run.scores == {"big": 95, "small": 50}


@pytest.mark.parametrize(("config", "feasible"), [("60", ["big"]), ("0", ["big", "small", "full"]), ("99", [])])
def test_guest_configuration(config: str, feasible: list[str]) -> None:
    assert headroom(config).run(POD).feasible == feasible


def test_an_invalid_configuration() -> None:
    with pytest.raises(GuestError, match="guestConfig must be a number of percent"):
        headroom("a lot").run(POD)


def test_the_buffer_grows_with_the_nodes() -> None:
    found = harness(HEADROOM, guestConfig="0")
    assert len(found.run(POD).feasible) == 3
    for number in range(3000):
        found.add(make_node(f"m{number}").allocatable(cpu="10", pods="10").obj())
    assert len(found.run(POD).feasible) == 3003
