"""PodGroupGang: groups of Kubernetes and of Coscheduling, decided without consequences."""

from __future__ import annotations

import random

import msgspec

from bench.pending_gangs import GANGS, gang_engine
from bench.suggestions import cluster
from mooring.scheduler.gang_suggestions import NOTHING
from mooring.scheduler.pod_group_gang import gang_of

OBJECTS = cluster(12, random.Random(0))


def test_a_group_with_too_large_minimum_resources_does_not_start() -> None:
    gang = GANGS["coscheduling: pods"]("pending", random.Random(1))
    engine = gang_engine([*OBJECTS, *gang.objects])
    found = gang_of(engine, gang.pod)
    assert found is not None
    assert not found.decide(NOTHING).starts
    enough = found.with_minimum(len(found.pending))
    change = msgspec.structs.replace  # the group with a minimum that no cluster has
    spec = change(enough.spec, min_resources={"cpu": "100000"})  # type: ignore[union-attr]
    large = change(enough, spec=spec)  # type: ignore[type-var]
    from mooring.scheduler.gang_suggestions import GangChange

    assert found.decide(GangChange("", "", enough)).starts
    assert not found.decide(GangChange("", "", large)).starts


def test_a_pod_without_a_group_has_no_gang() -> None:
    engine = gang_engine(OBJECTS)
    pod = next(item for item in OBJECTS if item.kind == "Pod")
    assert gang_of(engine, pod) is None  # type: ignore[arg-type]
