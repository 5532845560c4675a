"""Extended resources: which class provides one, and the requests of the claim for a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.devices import DeviceClass
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.extended_resources import ExtendedResources, requests_and_mappings
from mooring.testing import make_pod
from tests.plugins.device_world import gpu_class

GPU = "example.com/gpu"


def aged(name: str, created: str) -> DeviceClass:
    made = gpu_class(name, extendedResourceName=GPU)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, creation_timestamp=created))


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (aged("a", "2026-01-01T00:00:00Z"), aged("b", "2026-01-02T00:00:00Z"), "b"),
        (aged("a", "2026-01-02T00:00:00Z"), aged("b", "2026-01-01T00:00:00Z"), "a"),
        (aged("b", "2026-01-01T00:00:00Z"), aged("a", "2026-01-01T00:00:00Z"), "a"),
    ],
)
def test_the_newest_class_wins(first: DeviceClass, second: DeviceClass, winner: str) -> None:
    lister: Lister[DeviceClass] = Lister(DeviceClass)
    found = ExtendedResources(lister)
    lister.put(first)
    lister.put(second)
    provider = found.get(GPU)
    assert provider is not None
    assert provider.name == winner
    lister.remove(winner)
    assert found.get(GPU) is None
    assert found.get(f"deviceclass.resource.kubernetes.io/{winner}") is None


def pod(*containers: int, init: tuple[int, ...] = ()) -> Any:
    from mooring.api.pod import Container, ResourceRequirements

    def made(name: str, count: int) -> Container:
        return Container(
            name=name, resources=ResourceRequirements(requests={"cpu": "1", GPU: str(count)} if count else {})
        )

    plain = make_pod("p").obj()
    spec = msgspec.structs.replace(
        plain.spec,
        containers=tuple(made(f"c{n}", count) for n, count in enumerate(containers)),
        init_containers=tuple(made(f"i{n}", count) for n, count in enumerate(init)),
    )
    return msgspec.structs.replace(plain, spec=spec)


@pytest.mark.parametrize(
    ("made", "requests", "mappings"),
    [
        (pod(2), {"container-0-request-1": 2}, [("c0", "container-0-request-1")]),
        (
            pod(1, 0, 2),
            {"container-0-request-1": 1, "container-2-request-1": 2},
            [("c0", "container-0-request-1"), ("c2", "container-2-request-1")],
        ),
        # Init containers reuse devices; the largest remainder serves them all.
        (
            pod(1, init=(3, 2)),
            {"container-0-request-1": 2, "container-2-request-1": 1},
            [
                ("c0", "container-2-request-1"),
                ("i0", "container-2-request-1"),
                ("i0", "container-0-request-1"),
                ("i1", "container-2-request-1"),
                ("i1", "container-0-request-1"),
            ],
        ),
        (
            pod(2, init=(1,)),
            {"container-1-request-1": 2},
            [("c0", "container-1-request-1"), ("i0", "container-1-request-1")],
        ),
    ],
)
def test_requests(made: Any, requests: Any, mappings: Any) -> None:
    found, mapped = requests_and_mappings(made, [GPU], {GPU: gpu_class()})
    assert {each.name: each.exactly.count for each in found if each.exactly} == requests
    assert [(each.container_name, each.request_name) for each in mapped] == mappings
