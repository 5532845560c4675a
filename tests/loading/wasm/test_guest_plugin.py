"""Results of guests at each extension point."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mooring.framework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    PermitWait,
    PodInfo,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from mooring.framework.events import CATCH_ALL
from mooring.framework.node_statuses import NodeStatuses, Rejections
from mooring.framework.points import check_methods, points_of
from mooring.loading.wasm.guest_plugin import plugin_from_module
from mooring.testing import make_pod
from tests.loading.wasm.guests import REASON, echo, harness, module, saying

POD = make_pod("p").uid("u1").obj()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, None),
        (1, Status.error("why")),
        (2, Status.unschedulable("why")),
        (3, Status.unresolvable("why")),
        (5, Status(Code.SKIP, ("why",))),
        (6, Status.pending("why")),
    ],
)
@pytest.mark.parametrize(
    ("export", "method"),
    [
        ("prefilter", "pre_filter"),
        ("prescore", "pre_score"),
        ("reserve", "reserve"),
        ("prebind", "pre_bind"),
        ("bind", "bind"),
    ],
)
def test_statuses(export: str, method: str, code: int, status: Status | None) -> None:
    body = saying(export, "why", f"i32.const {code}")
    if export in ("prescore", "prebind"):  # a guest must not export only these
        body += '(func (export "filter") (result i32) (i32.const 0))'
    plugin = harness(module(body, imports=REASON, data="why")).plugin
    extra = Ellipsis if method in ("pre_filter", "pre_score") else "n1"
    assert getattr(plugin, method)(CycleState(), POD, extra) == status


def test_filter_returns_a_reason_for_each_node() -> None:
    guest = echo("filter", "k8s.io/scheduler", "currentNodeName")
    assert harness(guest, "a", "bb", "").run(POD).rejected == {"a": ("a",), "bb": ("bb",), "": ("",)}


def test_filter_accepts_nodes() -> None:
    run = harness(module('(func (export "filter") (result i32) (i32.const 0))')).run(POD)
    assert run.feasible == ["n1", "n2", "n3"]


def test_an_error_in_filter_ends_the_calls() -> None:
    """Every call increments a counter; the second call returns Error."""
    body = """(global $n (mut i32) (i32.const 0))
        (func (export "filter") (result i32)
          (global.set $n (i32.add (global.get $n) (i32.const 1)))
          (call $reason (i32.const 0) (i32.const 3))
          (if (result i32) (i32.eq (global.get $n) (i32.const 2)) (then (i32.const 1)) (else (i32.const 0))))"""
    found = harness(module(body, imports=REASON, data="why"))
    verdicts = found.plugin.filter_nodes(CycleState(), POD, found.nodes())
    assert verdicts.may_fail
    assert verdicts.codes.tolist() == [0, 1, 0]
    assert verdicts.status(1) == Status.error("why")


def test_scores_are_the_signed_high_half() -> None:
    body = """(global $n (mut i64) (i64.const -2))
        (func (export "score") (result i64)
          (global.set $n (i64.add (global.get $n) (i64.const 1)))
          (i64.shl (global.get $n) (i64.const 32)))"""
    found = harness(module(body))
    assert found.plugin.score_nodes(CycleState(), POD, found.nodes()).tolist() == [-1, 0, 1]


def test_a_score_with_another_status_is_an_error() -> None:
    body = saying("score", "no idea", "i64.const 0x0000000500000001")
    with pytest.raises(RuntimeError, match=r"^wasm: score error: no idea \(node n1\)$"):
        harness(module(body, imports=REASON, data="no idea")).run(POD)


def test_prefilter_restricts_the_nodes() -> None:
    names = '(import "k8s.io/scheduler" "result.node_names" (func $names (param i32 i32)))'
    body = """(func (export "prefilter") (result i32)
        (call $names (i32.const 0) (i32.const 6)) (i32.const 0))"""
    plugin = harness(module(body, imports=names, data="n1\\00n3\\00")).plugin
    assert plugin.pre_filter(CycleState(), POD, None) == PreFilterResult.only(["n1", "n3"])
    none = harness(module(body.replace("6", "0"), imports=names)).plugin
    assert none.pre_filter(CycleState(), POD, None) is None


@pytest.mark.parametrize(
    ("mode", "nominated"), [(0, None), (1, "n2")], ids=["leave the nomination", "override the nomination"]
)
def test_postfilter(mode: int, nominated: str | None) -> None:
    imports = REASON + '(import "k8s.io/scheduler" "result.nominated_node_name" (func $name (param i32 i32)))'
    body = f"""(func (export "filter") (result i32) (i32.const 0))
        (func (export "postfilter") (result i64)
          (call $name (i32.const 0) (i32.const 2))
          (call $reason (i32.const 0) (i32.const 2))
          (i64.const 0x{mode:08x}00000002))"""
    found = harness(module(body, imports=imports, data="n2"))
    answer = found.plugin.post_filter(CycleState(), POD, NodeStatuses(found.table))
    assert answer == (PostFilterResult(nominated_node=nominated), Status.unschedulable("n2"))


def test_postfilter_receives_the_statuses() -> None:
    found = harness(_with_filter("postfilter", "nodeToStatusMap", "i64.const 2"))
    statuses = NodeStatuses(found.table)
    statuses.add(Rejections("X", np.array([0]), np.array([1]), lambda _: Status.unschedulable("no")))
    statuses.set(2, Status.unresolvable("never"))
    _, status = found.plugin.post_filter(CycleState(), POD, statuses)
    assert json.loads(status.message) == {"n1": 2, "n3": 3}


def _with_filter(export: str, name: str, answer: str) -> bytes:
    imports = f'{REASON} (import "k8s.io/scheduler" "{name}" (func $read (param i32 i32) (result i32)))'
    body = f"""(func (export "filter") (result i32) (i32.const 0))
        (func (export "{export}") (result {answer[:3]})
          (call $reason (i32.const 1024) (call $read (i32.const 1024) (i32.const 32000))) ({answer}))"""
    return module(body, imports=imports)


def test_prescore_receives_the_feasible_nodes() -> None:
    found = harness(_with_filter("prescore", "filteredNodeList", "i32.const 2"))
    status = found.plugin.pre_score(CycleState(), POD, found.nodes(["n3", "n1"]))
    assert json.loads(status.message) == ["n3", "n1"]


NORMALIZE = """(func (export "score") (result i64) (i64.const 0x0000000700000000))
    (func (export "normalizescore") (result i32)
      (call $give (i32.const 0) (i32.const {length})) (i32.const 0))"""
GIVE = '(import "k8s.io/scheduler" "result.normalized_score_list" (func $give (param i32 i32)))'


@pytest.mark.parametrize(
    ("given", "scores"),
    [
        ({"n2": 2, "n3": 3, "n1": 1}, {"n1": 1, "n2": 2, "n3": 3}),
        (None, {"n1": 7, "n2": 7, "n3": 7}),
        ({}, {"n1": 7, "n2": 7, "n3": 7}),
    ],
    ids=["by name", "null changes nothing", "empty changes nothing"],
)
def test_normalizescore(given: Any, scores: dict[str, int]) -> None:
    text = json.dumps(given)
    guest = module(NORMALIZE.format(length=len(text)), imports=GIVE, data=text.replace('"', '\\"'))
    assert harness(guest).run(POD).scores == scores


@pytest.mark.parametrize("given", ['{"n1": 1}', '{"n1": 1, "n2": 2, "x": 3}', '{"n1": "one"}', "]"])
def test_wrong_normalized_scores(given: str) -> None:
    guest = module(NORMALIZE.format(length=len(given)), imports=GIVE, data=given.replace('"', '\\"'))
    with pytest.raises(RuntimeError, match=r"^wasm: normalizescore error: "):
        harness(guest).run(POD)


def test_normalizescore_receives_the_scores() -> None:
    imports = f'{REASON} (import "k8s.io/scheduler" "nodeScoreList" (func $read (param i32 i32) (result i32)))'
    body = """(func (export "score") (result i64) (i64.const 0x0000000900000000))
        (func (export "normalizescore") (result i32)
          (call $reason (i32.const 1024) (call $read (i32.const 1024) (i32.const 32000))) (i32.const 1))"""
    with pytest.raises(RuntimeError, match=r'\{"n1":9,"n2":9,"n3":9\}'):
        harness(module(body, imports=imports)).run(POD)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("0x0000000000000000", None),
        ("0x00000004000005dc", PermitWait(1.5)),
        ("0x00000004ffffffff", PermitWait(4294967.295)),
        ("0x0000000200000000", Status.unschedulable("why")),
        ("0x0000000100000000", Status.error("why")),
    ],
)
def test_permit(answer: str, expected: Status | PermitWait | None) -> None:
    plugin = harness(module(saying("permit", "why", f"i64.const {answer}"), imports=REASON, data="why")).plugin
    assert plugin.permit(CycleState(), POD, "n1") == expected


def test_addpod_and_removepod_receive_the_other_pod() -> None:
    other = make_pod("other").uid("u2").obj()
    for export, method in (("addpod", "add_pod"), ("removepod", "remove_pod")):
        found = harness(_with_filter(export, "targetPod", "i32.const 2"))
        info = PodInfo(other, found.handle.template(other))
        status = getattr(found.plugin, method)(CycleState(), POD, info, found.info("n1"))
        assert "other" in status.message


@pytest.mark.parametrize(
    ("records", "events"),
    [
        ([(0, 1)], [ClusterEvent("Pod", ActionType.ADD)]),
        ([(1, 9), (6, 2)], [ClusterEvent("Node", ActionType(9)), ClusterEvent("StorageClass", ActionType.DELETE)]),
        ([(10, 63)], [ClusterEvent("*", ActionType.ALL)]),
        ([(0, 60)], [ClusterEvent("Pod", ActionType.UPDATE)]),
        ([(4, 1), (99, 1), (1, 0)], list(CATCH_ALL)),
        ([], list(CATCH_ALL)),
    ],
    ids=["one", "two", "all", "any update", "nothing known", "nothing"],
)
def test_enqueue(records: list[tuple[int, int]], events: list[ClusterEvent]) -> None:
    imports = '(import "k8s.io/scheduler" "result.cluster_events" (func $give (param i32 i32)))'
    raw = b"".join(kind.to_bytes(4, "little") + bits.to_bytes(4, "little") for kind, bits in records)
    data = "".join(f"\\{byte:02x}" for byte in raw)
    body = f"""(func (export "enqueue") (call $give (i32.const 0) (i32.const {len(raw)})))
        (func (export "filter") (result i32) (i32.const 0))"""
    plugin = harness(module(body, imports=imports, data=data)).plugin
    assert list(plugin.events_to_register()) == events


def test_a_guest_that_fails_in_enqueue_gets_all_events() -> None:
    body = '(func (export "enqueue") unreachable) (func (export "filter") (result i32) (i32.const 0))'
    assert harness(module(body)).plugin.events_to_register() == CATCH_ALL


def test_a_guest_has_the_points_that_it_exports() -> None:
    body = """(func (export "filter") (result i32) (i32.const 0)) (func (export "postbind"))
        (func (export "score") (result i64) (i64.const 0)) (func (export "somethingelse"))"""
    plugin = plugin_from_module("Some", module(body))
    assert plugin.name == "Some"
    assert points_of(plugin) == {"filter", "score", "postBind"}
    assert check_methods(plugin) == []
    assert not hasattr(plugin, "events_to_register")
