"""Dry runs of a session plugin or an action: sessions on small synthetic clusters that detect its faults.

The clusters have pending and running gangs in several queues, so that all built-in actions make decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.batch.actions import ACTIONS
from mooring.batch.arguments import Arguments
from mooring.batch.conf import BatchConf, PluginOption, read_conf
from mooring.batch.evaluate import offline_cluster
from mooring.batch.plugin import SessionGuards, decoded, user_action
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import close_session, open_session, run_actions
from mooring.framework.plugin_args import ArgsError
from mooring.loading import SESSION, FoundPlugin
from mooring.loading.circuit_breaker import Guard
from mooring.loading.dry_run import DryRun, Recorder, missing_arguments, run_in_time

_CONF: Final = """\
actions: "enqueue, allocate, preempt, reclaim, backfill, shuffle"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
#: The cores of the nodes of each cluster. In the second one only evictions make room.
_CLUSTERS: Final = ({"node-0": "4", "node-1": "3", "node-2": "2"}, {"node-0": "4"})
_Raw = dict[str, Any]


def dry_run_session(found: FoundPlugin, arguments: Mapping[str, Any], seconds: float) -> DryRun:
    """Dry-run a session plugin or an action. A call that exceeds the timeout is a fault."""
    run = _session_plugin if found.kind is SESSION else _action
    return run_in_time(found, seconds, lambda: run(found, arguments))


def _session_plugin(found: FoundPlugin, arguments: Mapping[str, Any]) -> DryRun:
    try:
        decoded(found.cls, Arguments(dict(arguments)))
    except ArgsError as error:
        return DryRun(reason=missing_arguments(error))
    guards = _Recorders(found)
    conf = read_conf(_CONF, actions=ACTIONS, plugins=PLUGINS)
    option = PluginOption(found.name, dict(arguments))
    conf = BatchConf(conf.actions, ((option, *conf.tiers[0]), *conf.tiers[1:]))
    registered: dict[str, None] = {}
    for nodes in _CLUSTERS:
        session = offline_cluster(list(_objects(nodes))).session(conf)
        opened = open_session(session, {**PLUGINS, found.name: found.cls}, guards)
        registered |= dict.fromkeys(session.registered(found.name))
        run_actions(session)
        close_session(session, opened)
    return guards.result(registered)


def _action(found: FoundPlugin, _arguments: Mapping[str, Any]) -> DryRun:
    guards = _Recorders(found)
    actions = {**ACTIONS, found.name: guards.action(found.name, user_action(found.cls))}
    conf = read_conf(_CONF, actions=ACTIONS, plugins=PLUGINS)
    conf = BatchConf(("enqueue", found.name, *conf.actions[1:]), conf.tiers)
    for nodes in _CLUSTERS:
        session = offline_cluster(list(_objects(nodes))).session(conf)
        opened = open_session(session)
        run_actions(session, actions)
        close_session(session, opened)
    return guards.result(("execute",))


class _Recorders(SessionGuards):
    """The recorder of the plugin under test."""

    def __init__(self, found: FoundPlugin) -> None:
        super().__init__(clock=lambda: 0.0)
        self.recorder = Recorder(found.name, found.cls, self)

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the recorder: no other plugin is guarded."""
        return self.recorder

    def result(self, callbacks: Iterable[str]) -> DryRun:
        """Return the result, given the callbacks that the plugin registered."""
        faults, called = tuple(self.recorder.faults.values()), self.recorder.called
        return DryRun(
            faults,
            called=tuple(each for each in callbacks if each in called),
            not_called=tuple(each for each in callbacks if each not in called),
        )


# The clusters


def _objects(nodes: Mapping[str, str]) -> Iterator[KubeObject]:
    numbers = itertools.count(1)
    for raw in (
        *(_node(name, cpu) for name, cpu in nodes.items()),
        *(_queue(name) for name in ("root", "default", "one", "two", "three")),
        *_running("busy", queue="one"),
        *_running("spare", queue="three"),
        *_pending("small", 2, queue="one", minResources={"cpu": "1"}),
        *_pending("single", 1, queue="three"),
        *_pending("huge", 5, queue="two", minResources={"cpu": "5"}),
        *_pending("large", 3, queue="one"),
        *_pending("other", 1, queue="two"),
    ):
        number = next(numbers)
        raw["metadata"] |= {"uid": f"uid-{number:03d}", "creationTimestamp": f"2026-01-01T00:{number:02d}:00Z"}
        item = decode_object(raw)
        assert isinstance(item, KubeObject)
        yield item


def _node(name: str, cpu: str) -> _Raw:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a", "kubernetes.io/os": "linux"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _queue(name: str) -> _Raw:
    head: _Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**head, "spec": {"weight": 1, "reclaimable": True}, "status": {"state": "Open"}}


def _group(name: str, least: int, phase: str, **spec: Any) -> _Raw:
    metadata = {"name": name, "namespace": "default"}
    head: _Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
    return {**head, "spec": {"minMember": least, **spec}, "status": {"phase": phase}}


def _pod(name: str, gang: str, node: str = "") -> _Raw:
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "annotations": {"scheduling.k8s.io/group-name": gang}}
    spec: _Raw = {"schedulerName": "volcano", "containers": [container], **({"nodeName": node} if node else {})}
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _pending(name: str, pods: int, **spec: Any) -> list[_Raw]:
    """Return a gang whose pods are pending."""
    return [_group(name, pods, "Pending", **spec), *(_pod(f"{name}-{number}", name) for number in range(pods))]


def _running(name: str, **spec: Any) -> list[_Raw]:
    """Return a gang of two pods that run on the first node."""
    return [_group(name, 1, "Running", **spec), *(_pod(f"{name}-{number}", name, "node-0") for number in range(2))]
