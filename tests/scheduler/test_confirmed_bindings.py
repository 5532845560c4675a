"""Observed bindings, with the labels that the API server adds: they change no decision, and the cache stays valid."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.framework import Plugin, depends_on
from mooring.loading import configuration
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod

ZONES = ("z1", "z2")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("a", "b")


def pod_of(name: str, app: str, kind: int) -> Pod:
    pod = make_pod(name).label(app=app).req(cpu="300m")
    if kind == 1:
        return pod.pod_anti_affinity(HOST, {"app": app}).obj()
    if kind == 2:
        return pod.preferred_pod_affinity(50, ZONE, {ZONE: "z2"}).pod_anti_affinity(HOST, {ZONE: "z1"}).obj()
    if kind == 3:
        return pod.spread(ZONE, {"app": app}).spread(HOST, {ZONE: "z2"}, when="ScheduleAnyway").obj()
    return pod.obj()


class World:
    """An engine, its pods as the API server has them, and the outcomes of attempts."""

    def __init__(self, *, marks_labels: bool) -> None:
        self.now = 1000.0
        self.engine = Engine(default_config(), clock=lambda: self.now, rng=random.Random(3))
        assert not self.engine.cache.table.marks_labels
        self.engine.cache.table.marks_labels = marks_labels
        self.pods: dict[str, Pod] = {}
        self.decided: list[AssumedPod] = []
        self.bound: list[str] = []
        self.log: list[object] = []
        for number in range(4):
            labels = {ZONE: ZONES[number % 2], HOST: f"n{number}"}
            self.engine.put(make_node(f"n{number}").label(**labels).capacity(cpu="2", memory="8Gi", pods="5").obj())

    def put(self, pod: Pod) -> None:
        self.pods[pod.name] = pod
        self.engine.put(pod)

    def attempt(self) -> None:
        outcome = self.engine.schedule_one()
        if isinstance(outcome, AssumedPod):
            self.decided.append(outcome)
            self.log.append((outcome.pod.name, outcome.node_name))
        elif isinstance(outcome, FailedAttempt):
            self.log.append((outcome.queued.pod.name, outcome.failure.message))

    def bind(self, index: int) -> None:
        if not self.decided:
            return
        assumed = self.decided.pop(index % len(self.decided))
        assert asyncio.run(self.engine.bind(assumed)) is None
        pod = self.pods[assumed.pod.name]
        self.pods[pod.name] = msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, node_name=assumed.node_name)
        )
        self.bound.append(pod.name)

    def confirm(self, index: int, labels: dict[str, str]) -> None:
        """Observe a bound pod, perhaps again, with other labels."""
        if not self.bound:
            return
        pod = self.pods[self.bound[index % len(self.bound)]]
        zone = self.engine.cache.table.nodes[self.engine.cache.table.row_of[pod.node_name]].labels[ZONE]
        metadata = msgspec.structs.replace(pod.metadata, labels={**pod.labels, ZONE: zone, **labels})
        self.put(msgspec.structs.replace(pod, metadata=metadata))

    def delete(self, index: int) -> None:
        if self.bound:
            pod = self.pods.pop(self.bound.pop(index % len(self.bound)))
            self.engine.remove(pod)

    def run(self, step: tuple[str, int, int, int], number: int) -> None:
        what, index, kind, app = step
        self.now += 7.0
        self.engine.tick()
        if what == "add":
            self.put(pod_of(f"p{number}", APPS[app], kind))
            self.attempt()
        elif what == "attempt":
            self.attempt()
        elif what == "bind":
            self.bind(index)
        elif what == "confirm":
            self.confirm(index, {} if kind else {"app": APPS[app]})
        else:
            self.delete(index)


STEPS = st.tuples(
    st.sampled_from(["add", "add", "attempt", "bind", "bind", "confirm", "confirm", "delete"]),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 1),
)


@given(st.lists(STEPS, min_size=20, max_size=50))
def test_decisions_do_not_depend_on_whether_other_labels_mark_a_row(steps: list[tuple[str, int, int, int]]) -> None:
    worlds = World(marks_labels=False), World(marks_labels=True)
    for number, step in enumerate(steps):
        for world in worlds:
            world.run(step, number)
        assert worlds[0].log == worlds[1].log
    for world in worlds:
        cache = world.engine.cache
        assert cache.table.check() == []
        listed = {pod.uid for pod in cache.objects.lister(Pod).list() if pod.node_name}
        assert cache.assumed == cache.table.pods.keys() - listed


class ReadsLabels(Plugin):
    """Rejects nodes that have a pod with a label that the API server adds."""

    @depends_on("node", "pods")
    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return "taken" if any(ZONE in other.labels for other in node.pods) else None


@pytest.mark.parametrize("reloaded", [False, True])
def test_users_plugins_see_the_labels_that_the_api_server_adds(reloaded: bool) -> None:
    plugins: dict[str, type[Plugin]] = {"ReadsLabels": ReadsLabels}
    config = configuration(None, plugins=plugins, source="")
    if reloaded:
        engine = Engine(default_config(), rng=random.Random(3))
        engine.profiles.renewed(config, plugins)
    else:
        engine = Engine(config, plugins=plugins, rng=random.Random(3))
    assert engine.cache.table.marks_labels
    if reloaded:
        return
    engine.put(make_node("n").label(**{ZONE: "z1"}).capacity(cpu="4", memory="8Gi", pods="5").obj())
    for name, taken in (("a", False), ("b", False), ("c", True)):
        engine.put(make_pod(name).obj())
        outcome = engine.schedule_one()
        assert isinstance(outcome, FailedAttempt) == taken
        if name == "b":
            engine.put(make_pod("a").label(**{ZONE: "z1"}).node("n").obj())
