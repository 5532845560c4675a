"""The pool finds the pods that an event concerns without looking at the others."""

from __future__ import annotations

import math

from mooring.framework import ActionType
from mooring.scheduler.queue.queued_pod import QueueCounters, QueuedPod
from mooring.scheduler.queue.queueing_hints import Interest, Interests
from mooring.scheduler.queue.unschedulable_pods import UnschedulablePods
from mooring.testing import make_pod
from tests.scheduler.queue.helpers import PROFILE, on


def queued(name: str, *plugins: str, gate: str = "", profile: str = PROFILE, time: float = 0.0) -> QueuedPod:
    pod = QueuedPod.new(make_pod(name).scheduler(profile).obj(), time)
    pod.unschedulable_plugins = frozenset(plugins)
    pod.gating_plugin = gate
    return pod


def interest(*plugins: str) -> Interest:
    """An event that these plugins of the one profile registered for."""
    hints = {plugin: [on("Node")] for plugin in plugins}
    return Interests({PROFILE: hints}, QueueCounters()).of("Node", ActionType.ADD)


def concerned(pool: UnschedulablePods, *plugins: str) -> list[str]:
    return sorted(pod.pod.name for pod in pool.concerned(interest(*plugins)))


def test_pods_are_found_by_the_plugins_that_turned_them_down() -> None:
    pool = UnschedulablePods()
    for pod in (
        queued("fit", "Fit"),
        queued("both", "Fit", "Ports"),
        queued("ports", "Ports"),
        queued("gated", "Fit", "Gate", gate="Gate"),
        queued("gated-elsewhere", "Gate", gate="Gate", profile="other"),
        queued("stranger", "Fit", profile="other"),
    ):
        assert pool.put(pod)
    assert concerned(pool) == ["stranger"]
    assert concerned(pool, "Fit") == ["both", "fit", "stranger"]
    assert concerned(pool, "Fit", "Ports") == ["both", "fit", "ports", "stranger"]
    assert concerned(pool, "Gate") == ["gated", "gated-elsewhere", "stranger"]
    assert (len(pool), pool.gated) == (6, 2)


def test_a_pod_is_filed_anew_when_its_plugins_change() -> None:
    pool = UnschedulablePods()
    pod = queued("p", "Fit")
    assert pool.put(pod)
    pod.unschedulable_plugins, pod.gating_plugin = frozenset({"Fit", "Gate"}), "Gate"
    assert not pool.put(pod)
    assert (concerned(pool, "Fit"), concerned(pool, "Gate"), pool.gated) == ([], ["p"], 1)
    pod.gating_plugin = ""
    pool.put(pod)
    assert (concerned(pool, "Fit"), concerned(pool, "Gate"), pool.gated) == (["p"], ["p"], 0)
    assert pool.remove(pod.key) is pod
    assert (concerned(pool, "Fit", "Gate"), len(pool), pool.gated) == ([], 0, 0)
    assert pool.remove(pod.key) is None


def test_a_wildcard_concerns_all() -> None:
    pool = UnschedulablePods()
    pool.put(queued("a", "Fit"))
    pool.put(queued("b", "Gate", gate="Gate"))
    wildcard = Interests({}, QueueCounters()).wildcard("x")
    assert [pod.pod.name for pod in pool.concerned(wildcard)] == ["a", "b"]


def test_age_is_counted_from_the_last_attempt_or_flush() -> None:
    pool = UnschedulablePods()
    assert pool.oldest == math.inf
    old, flushed, young = (
        queued("old", "Fit", time=10),
        queued("flushed", "Fit", time=5),
        queued("young", "Fit", time=20),
    )
    flushed.flush_timestamp = 15.0
    for pod in (young, flushed, old):
        pool.put(pod)
    assert pool.oldest == 10
    assert pool.older_than(10) == []
    assert pool.older_than(10.001) == [old]
    assert pool.older_than(16) == [old, flushed]
    assert pool.older_than(99) == [old, flushed, young]
    pool.remove(old.key)
    assert (pool.oldest, pool.older_than(16)) == (15, [flushed])
    assert old.key not in pool
    assert sorted(pod.pod.name for pod in pool) == ["flushed", "young"]


def test_pods_are_retried_in_the_order_in_which_their_backoff_ends() -> None:
    pool = UnschedulablePods()
    pods = {name: queued(name, "Fit") for name in ("late", "early", "filed-anew", "never")}
    for name, ends in (("late", 9.0), ("early", 3.0), ("filed-anew", 1.0), ("never", 2.0)):
        pods[name].backoff_expiration = ends
        pool.put(pods[name])
        if name != "never":
            pool.retry_after_backoff(pods[name])
    pool.put(pods["filed-anew"])
    assert [name for name, pod in pods.items() if pool.is_retried(pod)] == ["late", "early"]
    assert pool.next_retry is pods["early"]
    pool.remove(pods["early"].key)
    assert pool.next_retry is pods["late"]
    pool.remove(pods["late"].key)
    assert pool.next_retry is None
