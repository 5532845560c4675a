"""The selector that services and controllers imply."""

from __future__ import annotations

import pytest

from mooring.api.label_selectors import EVERYTHING, compile_selector
from mooring.framework.handle import Handle
from mooring.plugins.pod_topology_spread.default_selector import DefaultSelectors
from mooring.testing import (
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
    selector,
)

web = make_pod("web").label(app="web", tier="front")
TIER = selector({}, ("tier", "In", "front", "back"))

CASES = {
    "nothing known": (web, [], selector()),
    "a service": (web, [make_service("s", {"app": "web"})], selector({"app": "web"})),
    "two services": (
        web,
        [make_service("s", {"app": "web"}), make_service("t", {"tier": "front"})],
        selector({"app": "web", "tier": "front"}),
    ),
    "a service of others": (web, [make_service("s", {"app": "db"})], selector()),
    "a service of another namespace": (web, [make_service("s", {"app": "web"}, "other")], selector()),
    "a service without selector": (web, [make_service("s", None)], selector()),
    "a service with an empty selector": (web, [make_service("s", {})], selector()),
    "a replica set": (web.owner("ReplicaSet", "r"), [make_replica_set("r", TIER)], TIER),
    "a replica set and a service": (
        web.owner("ReplicaSet", "r"),
        [make_replica_set("r", TIER), make_service("s", {"app": "web"})],
        selector({"app": "web"}, ("tier", "In", "front", "back")),
    ),
    "a replica set without selector": (web.owner("ReplicaSet", "r"), [make_replica_set("r", None)], selector()),
    "a replica set whose selector makes no sense": (
        web.owner("ReplicaSet", "r"),
        [make_replica_set("r", selector({}, ("a", "Like", "b"))), make_service("s", {"app": "web"})],
        selector({"app": "web"}),
    ),
    "a replica set that is gone": (web.owner("ReplicaSet", "r"), [make_replica_set("q", TIER)], selector()),
    "a replica set of another version": (
        web.owner("ReplicaSet", "r", api_version="apps/v2"),
        [make_replica_set("r", TIER)],
        selector(),
    ),
    "a stateful set": (web.owner("StatefulSet", "r"), [make_stateful_set("r", TIER)], TIER),
    "a replication controller": (
        web.owner("ReplicationController", "r", api_version="v1"),
        [make_replication_controller("r", {"app": "web"})],
        selector({"app": "web"}),
    ),
    "a replication controller overrules services": (
        web.owner("ReplicationController", "r", api_version="v1"),
        [make_replication_controller("r", {"app": "other"}), make_service("s", {"app": "web"})],
        selector({"app": "other"}),
    ),
    "a job": (
        web.owner("Job", "r", api_version="batch/v1"),
        [make_service("s", {"app": "web"})],
        selector({"app": "web"}),
    ),
}


@pytest.mark.parametrize("late", [False, True], ids=["known before", "heard of later"])
@pytest.mark.parametrize(("pod", "objects", "expected"), CASES.values(), ids=CASES)
def test_the_selector(pod, objects, expected, late):
    handle = Handle()
    for item in () if late else objects:
        handle.objects.put(item.obj())
    selectors = DefaultSelectors(handle)
    template = handle.template(pod.obj())
    if late:
        assert selectors.of(template) == EVERYTHING
    for item in objects if late else ():
        handle.objects.put(item.obj())
    assert selectors.of(template) == compile_selector(expected)


def test_changes_update_the_selector():
    handle = Handle()
    selectors = DefaultSelectors(handle)
    template = handle.template(web.obj())
    handle.objects.put(make_service("s", {"app": "web"}).obj())
    assert selectors.of(template) == compile_selector(selector({"app": "web"}))
    handle.objects.put(make_service("s", {"tier": "front"}).obj())
    assert selectors.of(template) == compile_selector(selector({"tier": "front"}))
    handle.objects.remove(make_service("s", {"tier": "front"}).obj())
    assert selectors.of(template) == EVERYTHING
