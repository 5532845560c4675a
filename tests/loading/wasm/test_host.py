"""Host functions: reading objects, logging, events and waiting pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.meta import KubeObject
from mooring.api.protobuf import decode_message, encode_object
from mooring.framework import CycleState
from mooring.framework.waiting_pods import WaitingPod
from mooring.loading.wasm.guest import GuestError
from mooring.testing import PluginHarness, make_node, make_pod
from tests.loading.wasm.guests import REASON, echo, harness, look_up, module
from tests.log_capture import capture_logs

POD = make_pod("p").uid("u1").label(app="web").req(cpu="1").obj()


def said(guest: bytes, *names: str, pod: Any = POD, **args: Any) -> dict[str, str]:
    return {name: reasons[0] for name, reasons in harness(guest, *names, **args).run(pod).rejected.items()}


def test_current_pod_is_protobuf() -> None:
    found = harness(echo("filter", "k8s.io/scheduler", "currentPod"), "a")
    state, wanted = CycleState(), encode_object(POD)
    found.plugin.filter_nodes(state, POD, found.nodes())
    guest, _ = found.plugin._pool.lease(state)
    assert guest.memory.read(1024, len(wanted)) == wanted


def test_an_answer_that_does_not_fit_returns_only_its_length() -> None:
    body = """(func (export "filter") (result i32)
        (i32.store8 (i32.const 1024) (i32.const 88))
        (drop (call $read (i32.const 1024) (i32.const 2)))
        (call $reason (i32.const 1024) (i32.const 1))
        (call $read (i32.const 1024) (i32.const 0)))"""
    imports = f'{REASON} (import "k8s.io/scheduler" "currentNodeName" (func $read (param i32 i32) (result i32)))'
    assert said(module(body, imports=imports), "abc") == {"abc": "X"}


def test_node_is_protobuf() -> None:
    for _ in range(2):
        texts = said(look_up("filter", "k8s.io/api", "node", "n2"), "n1", "n2")
        assert decode_message(texts["n1"].encode(), "core.Node")["metadata"]["name"] == "n2"
    assert said(look_up("filter", "k8s.io/api", "node", "gone"), "n1") == {"n1": ""}


#: Reads the current node by its name.
OWN_NODE = module(
    """(func (export "filter") (result i32) (local $n i32)
        (local.set $n (call $name (i32.const 0) (i32.const 1000)))
        (call $reason (i32.const 1024)
          (call $node (i32.const 0) (local.get $n) (i32.const 1024) (i32.const 32000))) (i32.const 2))""",
    imports=REASON
    + '(import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))'
    + '(import "k8s.io/api" "node" (func $node (param i32 i32 i32 i32) (result i32)))',
)


def test_the_current_node_in_shared_memory_is_the_latest() -> None:
    found = harness(OWN_NODE, "n1", "n2", "n3")

    def seen() -> list[Any]:
        rejected = found.run(POD).rejected
        nodes = [decode_message(reasons[0].encode(), "core.Node") for reasons in rejected.values()]
        return [(node["metadata"]["name"], node["metadata"]["labels"].get("a")) for node in nodes]

    plain = [("n1", None), ("n2", None), ("n3", None)]
    assert seen() == plain, "the first time the guest asks"
    assert seen() == plain, "then the nodes are on the desk"
    found.table.update_node(make_node("n2").label(a="b" * 50).obj())
    assert seen() == [("n1", None), ("n2", "b" * 50), ("n3", None)]
    found.table.update_node(make_node("n2").obj())
    assert seen() == plain


def test_node_list() -> None:
    texts = said(echo("filter", "k8s.io/api", "nodeList"), "a", "b")
    nodes = decode_message(texts["a"].encode(), "core.NodeList")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["a", "b"]


def test_image_states() -> None:
    guest = look_up("filter", "k8s.io/scheduler", "nodeImageStates", "n1")
    found = harness(guest, "n2")
    found.add(make_node("n1").image("web:1", size=1000).obj(), make_node("n3").image("web:1", size=1000).obj())
    text = found.run(POD).rejected["n2"][0]
    assert json.loads(text) == {"web:1": {"Size": 1000, "NumNodes": 2}}
    assert said(look_up("filter", "k8s.io/scheduler", "nodeImageStates", "gone"), "n2") == {"n2": "null"}


@pytest.mark.parametrize("config", ["", '{"reverse": true}', "ünïcode"])
def test_get_config(config: str) -> None:
    guest = echo("filter", "k8s.io/scheduler", "get_config")
    assert said(guest, "a", guestConfig=config) == {"a": config}


@pytest.mark.parametrize(
    "name", ["targetPod", "filteredNodeList", "nodeToStatusMap", "nodeScoreList"], ids=lambda name: name
)
def test_missing_data_is_empty(name: str) -> None:
    assert said(echo("filter", "k8s.io/scheduler", name), "a") == {"a": ""}


def test_arguments() -> None:
    sizes = '(import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))'
    body = """(func (export "filter") (result i32)
        (drop (call $sizes (i32.const 0) (i32.const 4))) (i32.load (i32.const 0)))"""
    guest = module(body, imports=sizes)
    assert len(said(guest, "a", args=["one", "two"])) == 1
    assert len(said(guest, "a", Args=["one", "two", "three"])) == 1
    assert said(guest, "a") == {}


LOG = '(import "k8s.io/klog" "log" (func $log (param i32 i32 i32)))'
LOGS = '(import "k8s.io/klog" "logs" (func $logs (param i32 i32 i32 i32 i32)))'
TALK = """(func (export "prefilter") (result i32)
    (call $log (i32.const 0) (i32.const 0) (i32.const 2))
    (call $log (i32.const 2) (i32.const 0) (i32.const 2))
    (call $logs (i32.const 1) (i32.const 0) (i32.const 2) (i32.const 2) (i32.const 11)) (i32.const 0))"""


@pytest.mark.parametrize(
    ("severity", "levels"), [(0, ["info", "error", "warning"]), (1, ["error", "warning"]), (2, ["error"]), (3, [])]
)
def test_logs_at_or_above_the_severity(severity: int, levels: list[str]) -> None:
    plugin = harness(
        module(TALK, imports=LOG + LOGS, data="hik\\00v\\00e\\00\\00x\\00y\\00"), logSeverity=severity
    ).plugin
    with capture_logs() as lines:
        plugin.pre_filter(CycleState(), POD, None)
    assert [line["log_level"] for line in lines] == levels
    assert all(line["event"] == "hi" and line["plugin"] == "Guest" for line in lines)
    pairs = [(line["k"], line["e"], line["x"]) for line in lines if "k" in line]
    assert pairs == [("v", "", "y")] * ("warning" in levels)


def test_severity() -> None:
    imports = '(import "k8s.io/klog" "severity" (func $severity (result i32)))'
    guest = module('(func (export "filter") (result i32) (call $severity))', imports=imports)
    assert len(said(guest, "a", logSeverity=2)) == 1


class Recorder:
    """Records its calls."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def record(self, regarding: KubeObject, *, related: KubeObject | None = None, **said: str) -> None:
        other = related.metadata.name if related is not None else ""
        self.events.append((regarding.kind, regarding.metadata.name, *said.values(), other))


@pytest.mark.parametrize("related", ["", "q"])
def test_events_are_recorded(related: str) -> None:
    text = json.dumps(
        {
            "RegardingReference": {"Kind": "Pod", "APIVersion": "v1", "Name": "p", "Namespace": "default", "UID": "u"},
            "RelatedReference": {"Kind": "Pod", "Name": related} if related else {},
            "Eventtype": "Normal",
            "Reason": "because",
            "Action": "acted",
            "Note": "100% sure",
        }
    )
    imports = '(import "k8s.io/scheduler" "handle.eventrecorder.eventf" (func $event (param i32 i32)))'
    body = f"""(func (export "prefilter") (result i32)
        (call $event (i32.const 0) (i32.const {len(text)})) (i32.const 0))"""
    found = harness(module(body, imports=imports, data=text.replace('"', '\\"')))
    recorder = found.handle.events = Recorder()
    found.plugin.pre_filter(CycleState(), POD, None)
    assert recorder.events == [("Pod", "p", "Normal", "because", "acted", "100% sure", related)]


def waiting(found: PluginHarness) -> WaitingPod:
    pod = WaitingPod(make_pod("held").uid("w1").obj(), "n1", {"X": (60.0, 1e12)})
    found.handle.waiting_pods.add(pod)
    return pod


@pytest.mark.parametrize(("uid", "rejected"), [("w1", True), ("w2", False)])
def test_rejecting_a_waiting_pod(uid: str, rejected: bool) -> None:
    imports = '(import "k8s.io/scheduler" "handle.reject_waiting_pod" (func $reject (param i32 i32 i32 i32)))'
    body = """(func (export "prefilter") (result i32)
        (call $reject (i32.const 0) (i32.const 2) (i32.const 64) (i32.const 8))
        (i32.mul (i32.const 5) (i32.load (i32.const 64))))"""
    found = harness(module(body, imports=imports, data=uid))
    held = waiting(found)
    answer = found.plugin.pre_filter(CycleState(), POD, None)
    assert (answer is not None) == rejected
    assert (held.verdict is not None) == rejected


@pytest.mark.parametrize(("uid", "name"), [("w1", "held"), ("w2", "")])
def test_reading_a_waiting_pod(uid: str, name: str) -> None:
    imports = REASON + '(import "k8s.io/scheduler" "handle.get_waiting_pod" (func $get (param i32 i32 i32 i32)))'
    body = """(func (export "prefilter") (result i32)
        (i64.store (i32.const 1024) (i64.const -1))
        (call $get (i32.const 0) (i32.const 2) (i32.const 1024) (i32.const 4096))
        (call $reason (i32.const 1024) (i32.const 8)) (i32.const 2))"""
    found = harness(module(body, imports=imports, data=uid))
    waiting(found)
    text = found.plugin.pre_filter(CycleState(), POD, None).message
    assert (text == "\0" * 8) == (name == "")
    assert name[:2] in text


# Guests that write too much: what they write is copied outside of their memory limit

_CALLS = {
    "k8s.io/klog log": "(call $f (i32.const 0) (i32.const 0) (i32.const {}))",
    "k8s.io/klog logs": "(call $f (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const {}))",
    "k8s.io/scheduler result.node_names": "(call $f (i32.const 0) (i32.const {}))",
    "k8s.io/scheduler result.nominated_node_name": "(call $f (i32.const 0) (i32.const {}))",
    "k8s.io/scheduler result.cluster_events": "(call $f (i32.const 0) (i32.const {}))",
    "k8s.io/scheduler result.normalized_score_list": "(call $f (i32.const 0) (i32.const {}))",
    "k8s.io/scheduler handle.eventrecorder.eventf": "(call $f (i32.const 0) (i32.const {}))",
}


@pytest.mark.parametrize("function", _CALLS)
@pytest.mark.parametrize("length", [60 << 20, -1], ids=["60 MiB", "4 GiB"])
def test_results_are_limited_in_size(function: str, length: int) -> None:
    source, name = function.split(" ")
    params = "i32 " * _CALLS[function].count("i32.const")
    imports = f'(import "{source}" "{name}" (func $f (param {params})))'
    body = f'(func (export "prefilter") (result i32) {_CALLS[function].format(length)} (i32.const 0))'
    plugin = harness(module(body, imports=imports, memory=1000)).plugin
    with pytest.raises(GuestError, match=r"has \d+ bytes; the limit is \d+"):
        plugin.pre_filter(CycleState(), POD, None)


def test_log_messages_are_limited_in_number_and_cannot_forge_lines() -> None:
    body = """(func (export "prefilter") (result i32) (local $n i32)
        (call $logs (i32.const 0) (i32.const 0) (i32.const 2) (i32.const 2) (i32.const 8))
        (loop $more
          (call $log (i32.const 0) (i32.const 0) (i32.const 2))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const 5000))))
        (i32.const 0))"""
    plugin = harness(module(body, imports=LOG + LOGS, data="hia\\0ab=1\\00v\\00"), timeLimit="60s").plugin
    for _ in range(2):  # the limit is that of a call
        with capture_logs() as lines:
            plugin.pre_filter(CycleState(), POD, None)
        assert len(lines) == 1001
        assert "further ones are dropped" in lines[-1]["event"]
        assert not any("\n" in key for line in lines for key in line)


def test_a_poll_has_a_limited_number_of_subscriptions() -> None:
    imports = '(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))'
    body = """(func (export "filter") (result i32)
        (call $poll (i32.const 0) (i32.const 0) (i32.const 5000000) (i32.const 0)))"""
    with pytest.raises(GuestError, match="the guest returned the status 28"):
        harness(module(body, imports=imports, memory=4000)).run(POD)
