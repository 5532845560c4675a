"""Suggestions for gangs: each makes the gang start on a new cluster, and the running one is not changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.pending_gangs import GANGS, Gang, gang_engine, gang_starts, gang_works, session_cluster, suggest_for
from bench.suggestions import cluster
from mooring.api.meta import KubeObject
from mooring.batch.cluster import BatchCluster
from mooring.scheduler.engine import Engine
from mooring.scheduler.gang_suggestions import GangSuggestion

OBJECTS: list[KubeObject] = cluster(44, random.Random(0))
#: Cause -> the kind of the first suggestion.
FIRST = {
    "gang: cpu": "reduce-request",
    "gang: cordoned": "uncordon",
    "gang: another runs": "wait",
    "gang: pods": "create-pods",
    "gang: gates": "remove-gate",
    "gang: gates and cpu": "remove-gate,reduce-request",
    "queue: missing": "create-queue",
    "queue: closed": "open-queue",
    "queue: capability": "raise-capability",
    "queue: full": "raise-capability",
    "queue: parent": "raise-capability",
    "group: missing": "create-group",
    "group: pods": "create-pods",
    "group: some fit": "reduce-minimum",
    "coscheduling: pods": "create-pods",
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return gang_engine(OBJECTS)


@pytest.fixture(scope="module")
def sessions(engine: Engine) -> BatchCluster:
    return session_cluster(engine)


@contextmanager
def pending(engine: Engine, cause: str) -> Iterator[Gang]:
    found = GANGS[cause]("pending", random.Random(1))
    for item in found.objects:
        engine.put(item)
    try:
        yield found
    finally:
        for item in reversed(found.objects):
            engine.remove(item)


def suggestions(engine: Engine, sessions: BatchCluster, gang: Gang) -> list[GangSuggestion]:
    return suggest_for(engine, sessions, gang, seconds=60)


@pytest.mark.parametrize("cause", GANGS)
def test_every_suggestion_works(engine: Engine, sessions: BatchCluster, cause: str) -> None:
    with pending(engine, cause) as gang:
        found = suggestions(engine, sessions, gang)
        assert found
        assert cause not in FIRST or found[0].change.kind == FIRST[cause]
        assert not gang_starts([*OBJECTS, *gang.objects], gang), "it starts without a change"
        for each in found:
            assert gang_works(OBJECTS, gang, each), each.change.text
        assert len({each.change.text for each in found}) == len(found)


def test_the_cluster_is_restored(engine: Engine, sessions: BatchCluster) -> None:
    before = [(node.name, [info.pod.uid for info in node.pods]) for node in engine.cache.table.nodes]
    state = sessions.handle.random.getstate()
    for cause in GANGS:
        with pending(engine, cause) as gang:
            suggestions(engine, sessions, gang)
    after = [(node.name, sorted(info.pod.uid for info in node.pods)) for node in engine.cache.table.nodes]
    assert after == [(name, sorted(uids)) for name, uids in before]
    assert engine.cache.table.check() == []
    assert sessions.handle.random.getstate() == state


def test_the_queue_with_a_running_gang_names_it(engine: Engine, sessions: BatchCluster) -> None:
    with pending(engine, "queue: full") as gang:
        texts = [each.change.text for each in suggestions(engine, sessions, gang)]
    assert "Raise the capability of queue q-pending: cpu from 5 to 8" in texts
    freed = "Wait until PodGroup default/old-pending (2 pods) finishes and frees room in queue q-pending, or delete it"
    assert freed in texts


def test_a_view_counts_pods_and_nodes() -> None:
    from mooring.scheduler.gang_suggestions import GangChange

    made = GangSuggestion(GangChange("add-node", "Add a node"), ("a", "a", "b")).view
    assert (made.node, made.pods, made.nodes) == ("a", 3, 2)
