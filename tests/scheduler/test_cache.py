"""The cache: assumed pods, evictions in flight, nominations."""

from __future__ import annotations

import pytest

from mooring.api.pod import Pod
from mooring.scheduler.cache import Cache, CacheError
from mooring.testing import make_node, make_pod

P = make_pod("p").req(cpu="1").uid("p").obj()


def cache_with(*objects: object) -> Cache:
    cache = Cache()
    cache.put(make_node("n").capacity(cpu="4", memory="8Gi", pods="10").obj())
    for each in objects:
        cache.put(each.obj() if hasattr(each, "obj") else each)  # type: ignore[arg-type]  # builders and objects
    return cache


def free(cache: Cache) -> int:
    return cache.table.nodes[0].free("cpu")


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    cache = cache_with(P)
    info = cache.assume(P, "n")
    assert (free(cache), info.pod.node_name, cache.assumed) == (3000, "n", {"p"})
    cache.forget(P)
    assert (free(cache), cache.assumed) == (4000, set())


def test_a_pod_that_is_observed_on_its_node_is_no_longer_assumed_and_cannot_be_forgotten() -> None:
    cache = cache_with(P)
    bound = cache.assume(P, "n").pod
    cache.put(bound)
    assert cache.assumed == set()
    cache.forget(bound)
    assert free(cache) == 3000


def test_a_placed_pod_cannot_be_assumed_again() -> None:
    cache = cache_with(P)
    cache.assume(P, "n")
    with pytest.raises(CacheError, match="default/p is on a node already"):
        cache.assume(P, "n")


def test_a_pod_that_a_session_placed_in_the_table_can_be_assumed_there() -> None:
    cache = cache_with(P)
    cache.table.add_pod(P, "n")
    cache.assume(P, "n")
    assert (free(cache), cache.assumed) == (3000, {"p"})
    assert cache.table.check() == []


def test_an_eviction_is_in_flight_until_the_pod_is_deleted_or_it_fails() -> None:
    pod = make_pod("p").req(cpu="1").uid("p").node("n").obj()
    cache = cache_with(pod)
    cache.start_eviction(pod)
    assert cache.table.evicting == {"p"}
    cache.eviction_failed(pod)
    assert cache.table.evicting == set()
    cache.start_eviction(pod)
    cache.remove(pod)
    assert cache.table.evicting == set()
    cache.start_eviction(pod)  # deleted meanwhile, so its deletion would never end the eviction
    assert cache.table.evicting == set()


def test_a_finished_pod_frees_its_room_and_is_not_listed() -> None:
    cache = cache_with(make_pod("p").req(cpu="1").uid("p").node("n"))
    cache.put(make_pod("p").req(cpu="1").uid("p").node("n").phase("Succeeded").obj())
    assert free(cache) == 4000
    assert list(cache.objects.lister(Pod).list()) == []


def test_an_assumption_ends_a_nomination() -> None:
    cache = cache_with(P)
    cache.nominate(P, "n")
    cache.assume(P, "n")
    assert cache.nominator.node_of("p") is None
