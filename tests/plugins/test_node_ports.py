"""NodePorts: when two uses of a host port exclude each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework import CycleState, Hint, Status
from mooring.framework.status import Code
from mooring.plugins.node_ports import NodePorts
from mooring.testing import PluginHarness, check_what_if, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS, Agreement, events, play
from tests.plugins.reference.node_ports import NodePortsReference

REJECTED = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")
NODE = make_node("n").obj()

CASES = {
    "the same": (make_pod("a").port(80), make_pod("b").port(80), False),
    "another port": (make_pod("a").port(80), make_pod("b").port(81), True),
    "another protocol": (make_pod("a").port(80), make_pod("b").port(80, "UDP"), True),
    "another address": (make_pod("a").port(80, host_ip="10.0.0.1"), make_pod("b").port(80, host_ip="10.0.0.2"), True),
    "the same address": (make_pod("a").port(80, host_ip="10.0.0.1"), make_pod("b").port(80, host_ip="10.0.0.1"), False),
    "wanted on all addresses": (make_pod("a").port(80), make_pod("b").port(80, host_ip="10.0.0.1"), False),
    "used on all addresses": (make_pod("a").port(80, host_ip="10.0.0.1"), make_pod("b").port(80), False),
    "all addresses, spelt out": (make_pod("a").port(80, host_ip="0.0.0.0"), make_pod("b").port(80), False),
    "one of several": (make_pod("a").port(80).port(81), make_pod("b").port(81).port(82), False),
    "of another container": (make_pod("a").req().req().port(81), make_pod("b").req().port(81), False),
    "of a sidecar": (make_pod("a").init(sidecar=True, host_port=80), make_pod("b").port(80), False),
    "of an init container, which is gone by then": (
        make_pod("a").init(host_port=80).port(81),
        make_pod("b").port(80),
        True,
    ),
    "protocol TCP if none is written": (make_pod("a").port(80, ""), make_pod("b").port(80, "TCP"), False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_filter(case: str, form: Any) -> None:
    """A pod to place, and one that is there."""
    pod, there, fine = CASES[case]
    result = run_plugin(NodePorts, pod.obj(), nodes=[NODE], pods=[there.node("n").obj()], form=form)
    assert result.filter["n"] == (Status() if fine else REJECTED)


@pytest.mark.parametrize("pod", [make_pod("p"), make_pod("p").port(0), make_pod("p").init(host_port=80)])
def test_skips_pods_without_host_ports(pod: Any) -> None:
    """Ports of plain init containers do not count."""
    assert run_plugin(NodePorts, pod.obj(), nodes=[NODE]).pre_filter.code is Code.SKIP


@pytest.mark.parametrize("form", FORMS)
def test_filter_needs_pre_filter(form: Any) -> None:
    """Where PreFilter is disabled, upstream's Filter misses its state."""
    harness = PluginHarness(NodePorts, nodes=[NODE])
    found = harness.filter(CycleState(), make_pod("p").port(80).obj(), harness.nodes(), form=form)
    assert found["n"] == Status.error('reading "PreFilterNodePorts" from cycleState: not found')


def test_a_victim_frees_its_port_even_if_another_pod_has_it_too() -> None:
    """Used ports are a set upstream: the first pod to go takes the entry with it."""
    pods = [make_pod(name).port(80).node("n").obj() for name in ("stays", "goes")]
    harness = PluginHarness(NodePorts, nodes=[NODE], pods=pods)
    pod, state = make_pod("p").port(80).obj(), CycleState()
    harness.pre_filter(state, pod)
    assert harness.filter_what_if(state, pod, "n") == REJECTED
    assert harness.filter_what_if(state, pod, "n", without=[pods[1].uid]).is_success
    again = make_pod("again").port(80).obj()
    assert harness.filter_what_if(state, pod, "n", without=[pods[1].uid], with_pods=[again]) == REJECTED
    check_what_if(harness, pod, {"n": [pods[1].uid]})


WAITING = make_pod("p").port(80)
HINTS = {
    "a pod with the port went": (WAITING, make_pod("o").port(80).node("n"), Hint.QUEUE),
    "one nominated to a node": (WAITING, make_pod("o").port(80).nominated("n"), Hint.QUEUE),
    "one without a node": (WAITING, make_pod("o").port(80), Hint.SKIP),
    "one with another port": (WAITING, make_pod("o").port(81).node("n"), Hint.SKIP),
    "one without ports": (WAITING, make_pod("o").node("n"), Hint.SKIP),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    """Worth an attempt when a pod goes that had a port this one wants."""
    pod, gone, expected = HINTS[case]
    event = PluginHarness(NodePorts).plugin.events_to_register()[0]
    assert event.hint(pod.obj(), gone.obj(), None) is expected


PORTS = st.lists(
    st.tuples(st.sampled_from([80, 81]), st.sampled_from(["TCP", "UDP"]), st.sampled_from(["", "10.0.0.1", "0.0.0.0"])),
    max_size=3,
)
NAMES = st.sampled_from([f"n{number}" for number in range(4)])


@st.composite
def listening(draw: st.DrawFn, placed: bool = True) -> Pod:
    pod = make_pod(f"p{draw(st.integers(0, 9))}" if placed else "new")
    for port, protocol, address in draw(PORTS):
        pod = pod.port(port, protocol, host_ip=address)
    if draw(st.integers(0, 3)) == 0:
        pod = pod.init(sidecar=draw(st.booleans()), host_port=80)
    return pod.node(draw(NAMES)).obj() if placed else pod.obj()


@settings(max_examples=80, deadline=None)
@given(
    happened=events(NAMES.map(lambda name: make_node(name).obj()), listening()),
    pod=listening(placed=False),
    seed=st.integers(0, 99),
)
def test_agrees_with_the_reference(happened: Any, pod: Pod, seed: int) -> None:
    """The index of used ports says what the pods on each node say, as they come and go."""
    agreement = Agreement(NodePorts, NodePortsReference)
    play(agreement, happened, pod, seed)
    agreement.check_what_if(pod, seed=seed)
