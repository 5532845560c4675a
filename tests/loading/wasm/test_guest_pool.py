"""The assignment of instances to attempts."""

from __future__ import annotations

import asyncio
import random
import weakref
from typing import Any

import pytest

from mooring.config import PluginSpec, load_config
from mooring.framework import CycleState
from mooring.framework.points import points_of
from mooring.loading.wasm.guest_plugin import plugin_from_module
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod
from tests.loading.wasm.guests import REASON, harness, module

A, B = make_pod("a").uid("a").obj(), make_pod("b").uid("b").obj()
#: Counts attempts (prefilter) and returns the count. A new instance starts at zero.
COUNTING = """
    (func (export "prefilter") (result i32)
      (i32.store8 (i32.const 0) (i32.add (i32.load8_u (i32.const 0)) (i32.const 1))) (i32.const 0))
    (func $tell (export "filter") (result i32) (call $reason (i32.const 0) (i32.const 1)) (i32.const 2))
    (func (export "reserve") (result i32) (call $tell))
    (func (export "unreserve"))
    (func (export "postbind"))"""
GUEST = module(COUNTING, imports=REASON, data="0")


def begun(plugin: Any, state: CycleState, pod: Any) -> str:
    """Return the number of attempts that the instance of an attempt has counted, including this one."""
    return str(plugin.reserve(state, pod, "n1").message)


def test_consecutive_cycles_share_an_instance() -> None:
    plugin = harness(GUEST).plugin
    for number in "123":
        state = CycleState()
        plugin.pre_filter(state, A, None)
        nodes = plugin.handle.nodes
        assert plugin.filter_nodes(state, A, nodes).status(1).message == number


def test_an_attempt_with_a_node_keeps_its_instance() -> None:
    plugin = harness(GUEST).plugin
    first, second = CycleState(), CycleState()
    plugin.pre_filter(first, A, None)
    assert begun(plugin, first, A) == "1"
    plugin.pre_filter(second, B, None)
    assert begun(plugin, second, B) == "1", "another instance"
    assert begun(plugin, first, A) == "1", "still the first one's own"


def test_returned_instances_are_reused() -> None:
    for give_back in ("unreserve", "post_bind"):
        plugin = harness(GUEST).plugin
        first, second = CycleState(), CycleState()
        plugin.pre_filter(first, A, None)
        assert begun(plugin, first, A) == "1"
        getattr(plugin, give_back)(first, A, "n1")
        plugin.pre_filter(second, B, None)
        assert begun(plugin, second, B) == "2"


def test_a_collected_attempt_returns_its_instance() -> None:
    plugin = harness(GUEST).plugin
    first, second = CycleState(), CycleState()
    plugin.pre_filter(first, A, None)
    assert begun(plugin, first, A) == "1"
    del first
    plugin.pre_filter(second, B, None)
    assert begun(plugin, second, B) == "2"


def test_an_attempt_without_its_instance_calls_prefilter_again() -> None:
    """As when an attempt is explained after the next one ran: the guest must not confuse the two."""
    plugin = harness(GUEST).plugin
    nodes = plugin.handle.nodes
    first, second = CycleState(), CycleState()
    plugin.pre_filter(first, A, None)
    plugin.pre_filter(second, B, None)
    assert plugin.filter_nodes(first, A, nodes).status(1).message == "3"


def test_the_memory_of_kept_instances_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.loading.wasm.guest._MAX_KEPT_BYTES", 3 << 16)
    plugin = harness(GUEST, memoryLimit="64Ki").plugin  # four instances may be kept
    states = [CycleState() for _ in range(6)]
    guests = []
    for state in states:
        plugin.pre_filter(state, A, None)
        assert begun(plugin, state, A) == "1"
        guests.append(weakref.ref(plugin._pool.lease(state)[0]))
    assert [guest() is None for guest in guests] == [True, True, False, False, False, False]
    assert begun(plugin, states[-1], A) == "1", "still its own"
    assert begun(plugin, states[0], A) == "1", "a new instance, after prefilter"


def test_prefilter_resets_a_guest_whose_prefilter_point_is_disabled() -> None:
    """Guests of the SDK reset their state in `prefilter`, but a profile may not enable PreFilter."""
    found = harness(GUEST)
    for number in "12":
        assert found.plugin.filter_nodes(CycleState(), A, found.nodes()).status(1).message == number


# In the engine

#: Scores a node by the last character of its name, and rejects nodes whose name begins with x. Has all binding points.
WHOLE = """
    (func $last (result i32)
      (i32.load8_u (i32.sub (call $name (i32.const 0) (i32.const 256)) (i32.const 1))))
    (func (export "prefilter") (result i32) (i32.const 0))
    (func (export "filter") (result i32)
      (drop (call $last))
      (if (i32.eq (i32.load8_u (i32.const 0)) (i32.const 120))
        (then (call $reason (i32.const 512) (i32.const 9)) (return (i32.const 2))))
      (i32.const 0))
    (func (export "score") (result i64)
      (i64.shl (i64.extend_i32_u (i32.sub (call $last) (i32.const 48))) (i64.const 32)))
    (func (export "reserve") (result i32) (i32.const 0))
    (func (export "unreserve"))
    (func (export "permit") (result i64) (i64.const 0))
    (func (export "prebind") (result i32) (i32.const 0))
    (func (export "bind") (result i32) (i32.const 5))
    (func (export "postbind"))
    (data (i32.const 512) "x is shut")"""
NAME = '(import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))'
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Guest, weight: 1000}]}}
  pluginConfig: [{name: Guest, args: {guestURL: "file://guest.wasm"}}]
"""


def engine(body: str = WHOLE) -> Engine:
    plugin = plugin_from_module("Guest", module(body, imports=REASON + NAME))
    specs = {"Guest": PluginSpec("Guest", points_of(plugin), None)}
    config = load_config(CONFIG, source="test", plugins=specs)
    return Engine(config, plugins={"Guest": plugin}, rng=random.Random(1), clock=lambda: 1000.0)


def test_a_guest_in_a_scheduler() -> None:
    made = engine()
    for name in ("n1", "n7", "x9", "n3"):
        made.put(make_node(name).capacity(cpu="4", memory="8Gi", pods="10").obj())
    for number in range(3):
        made.put(make_pod(f"p{number}").uid(f"p{number}").obj())
    for _ in range(3):
        decided = made.schedule_one()
        assert isinstance(decided, AssumedPod)
        assert decided.node_name == "n7"
        assert asyncio.run(made.bind(decided)) is None


def test_a_guests_reasons_are_in_the_message() -> None:
    made = engine()
    made.put(make_node("x1").capacity(cpu="4", memory="8Gi", pods="10").obj())
    made.put(make_pod("p").uid("p").obj())
    failed = made.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.startswith("0/1 nodes are available: 1 x is shut.")


def test_a_failing_guest_fails_one_attempt() -> None:
    """The guest fails for nodes whose name begins with an exclamation mark."""
    trap = "(if (i32.eq (i32.load8_u (i32.const 0)) (i32.const 33)) (then unreachable))"
    made = engine(WHOLE.replace("(drop (call $last))", f"(drop (call $last)) {trap}"))
    made.put(make_node("!1").capacity(cpu="4", memory="8Gi", pods="10").obj())
    made.put(make_pod("p").uid("p").obj())
    failed = made.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message == (
        'running "Guest" filter plugin: GuestError: wasm: filter error: wasm trap: '
        "wasm `unreachable` instruction executed"
    )
    made.remove(make_node("!1").obj())
    made.put(make_node("n1").capacity(cpu="4", memory="8Gi", pods="10").obj())
    made.put(make_pod("q").uid("q").obj())
    decided = made.schedule_one()
    assert isinstance(decided, AssumedPod)
