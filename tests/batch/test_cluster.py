"""Sessions and the pod-by-pod engine share one account of what nodes have left."""

from __future__ import annotations

import random
from typing import Any

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import close_session, open_session, run_actions
from mooring.batch.session import Session
from mooring.framework.handle import Handle
from mooring.scheduler.cache import Cache
from mooring.testing import make_pod
from tests.batch.cases import conf, gang, node, queue


class World:
    """A cache as the engine has it, and sessions on it."""

    def __init__(self, *objects: Any, actions: str = "enqueue, allocate, backfill") -> None:
        self.cache = Cache()
        handle = Handle(table=self.cache.table, objects=self.cache.objects, rng=random.Random(0))
        self.cluster = BatchCluster(handle)
        self.conf = read_conf(conf(actions=actions), actions=ACTIONS, plugins=PLUGINS)
        self.put(queue("root"), queue("default"), *objects)

    def put(self, *objects: Any) -> None:
        for each in objects:
            if isinstance(each, list):
                self.put(*each)
                continue
            item = decode_object(each) if isinstance(each, dict) else each
            assert isinstance(item, KubeObject)
            self.cache.put(item)
            self.cluster.put(item)

    def session(self) -> Session:
        """Run a session to its end."""
        session = self.cluster.session(self.conf)
        opened = open_session(session)
        run_actions(session)
        close_session(session, opened)
        return session


def single(name: str, cpu: str) -> Pod:
    return make_pod(name).req(cpu=cpu).uid(name).obj()


def test_a_session_counts_the_pods_that_the_engine_has_assumed() -> None:
    world = World(node("a", "4"), gang("g", 1, cpu="4"))
    world.put(single("p", "4"))
    world.cache.assume(single("p", "4"), "a")
    assert world.session().bindings == []


def test_a_session_uses_the_room_of_an_assumption_that_was_undone() -> None:
    world = World(node("a", "4"), gang("g", 1, cpu="4"))
    pod = single("p", "4")
    world.put(pod)
    world.cache.assume(pod, "a")
    world.cache.forget(pod)
    assert [task.name for task in world.session().bindings] == ["g-task-0"]
