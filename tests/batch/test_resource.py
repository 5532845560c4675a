"""Amounts, Volcano's rules for comparing them, and the requests of pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import decode_object
from mooring.api.pod import Pod
from mooring.batch.resource import (
    UNLIMITED,
    Resource,
    changes,
    exceeded_part,
    highest,
    pod_request,
    share,
    shared_names,
)
from tests.batch.cases import pod, task

GPU = "nvidia.com/gpu"


def amounts(cpu: float = 0.0, memory: float = 0.0, **scalars: float) -> Resource:
    """``gpu`` and ``pods`` are scalars; without any, ``scalars`` is None."""
    named = {GPU if name == "gpu" else name: amount for name, amount in scalars.items()}
    return Resource(cpu, memory, named or None)


def test_amounts_of_kubernetes() -> None:
    given = {"cpu": "1500m", "memory": "1Ki", "pods": "3", GPU: "2", "ephemeral-storage": "1", "count/pods": "7"}
    found = Resource.of(given)
    assert found.as_dict() == {"cpu": 1500, "memory": 1024, "pods": 3, GPU: 2000, "ephemeral-storage": 1000}
    assert found.max_tasks == 3
    assert Resource.of({}).scalars is None


@pytest.mark.parametrize(
    ("resource", "empty", "names"),
    [
        (amounts(), True, []),
        (amounts(0.05, 0.05, gpu=0.05), True, []),
        (amounts(pods=1), True, ["pods"]),
        (amounts(0.1), False, ["cpu"]),
        (amounts(gpu=1), False, [GPU]),
        (amounts(1, 1, pods=1, gpu=0), False, ["cpu", "memory", "pods"]),
    ],
)
def test_is_empty_ignores_pods_and_names_do_not(resource: Resource, empty: bool, names: list[str]) -> None:
    assert resource.is_empty is empty
    assert resource.names() == names


@pytest.mark.parametrize(
    ("request_", "room", "fits"),
    [
        (amounts(1, 1), amounts(1, 1), True),
        (amounts(1.09), amounts(1), True),
        (amounts(1.2), amounts(1), False),
        (amounts(0, 0), amounts(-1, 0), False),
        (amounts(0, 0), amounts(-0.05, 0), True),
        (amounts(gpu=1), amounts(), False),
        (amounts(gpu=0.05), amounts(), True),
        (amounts(), amounts(gpu=1), True),
        (amounts(pods=1), amounts(pods=0), False),
        (amounts(2, 2, pods=1, gpu=1), amounts(1, 1), False),
    ],
)
def test_fits_compares_every_dimension_within_a_tolerance(request_: Resource, room: Resource, fits: bool) -> None:
    """CPU and memory are always compared, a scalar that the room does not name is 0, pods is a scalar like others."""
    assert request_.fits(room) is fits


@pytest.mark.parametrize(
    ("total", "room", "asked", "exceeding"),
    [
        (amounts(2), amounts(1), amounts(1), ["cpu"]),
        (amounts(1.01), amounts(1), amounts(1), ["cpu"]),
        (amounts(2), amounts(1), amounts(0, 1), []),
        (amounts(0, 2), amounts(0, 1), amounts(0, 1), ["memory"]),
        (amounts(pods=9), amounts(pods=1), amounts(pods=1), []),
        (amounts(gpu=2), amounts(), amounts(gpu=1), [GPU]),
        (amounts(gpu=2), amounts(gpu=2), amounts(gpu=1), []),
        (amounts(), amounts(-1), amounts(gpu=1), []),
    ],
)
def test_exceeding_compares_requested_dimensions_without_tolerance(
    total: Resource, room: Resource, asked: Resource, exceeding: list[str]
) -> None:
    assert total.exceeding(room, asked) == exceeding


@pytest.mark.parametrize(
    ("left", "right", "less"),
    [
        (amounts(1), amounts(1), False),
        (amounts(0.99), amounts(1), True),
        (amounts(1, 0), amounts(1, 1), True),
        (amounts(1), amounts(gpu=0), True),
        (amounts(gpu=1), amounts(gpu=2), True),
        (amounts(gpu=1), amounts(), False),
    ],
)
def test_less_in_some(left: Resource, right: Resource, less: bool) -> None:
    """A scalar that only the right side names counts as less, even if it is 0 there."""
    assert left.less_in_some(right) is less


@pytest.mark.parametrize(
    ("future", "deserved", "asked", "within"),
    [
        (amounts(2, 1), amounts(1, 1), amounts(1, 1), True),
        (amounts(2, 2), amounts(1, 1), amounts(1, 1), False),
        (amounts(2, 1), amounts(1, 1), amounts(1, 0), False),
        (amounts(1, 0), amounts(0, 0), amounts(1, 0), False),
        (amounts(0, 0), amounts(0, 0), amounts(1, 1), False),
        (amounts(9, pods=1), amounts(1, pods=5), amounts(1, pods=1), False),
        (amounts(9, gpu=1), amounts(1, gpu=5), amounts(1, gpu=1), True),
    ],
)
def test_within_some(future: Resource, deserved: Resource, asked: Resource, within: bool) -> None:
    assert future.within_some(deserved, asked) is within


@pytest.mark.parametrize(
    ("allocated", "limit", "asked", "exceeds"),
    [
        (amounts(2), amounts(1), amounts(1), True),
        (amounts(2), amounts(0), amounts(1), False),
        (amounts(2), amounts(1), amounts(0, 1), False),
        (amounts(1), amounts(1), amounts(1), False),
        (amounts(gpu=2), amounts(gpu=1), amounts(gpu=1), True),
        (amounts(gpu=2), amounts(), amounts(gpu=1), False),
        (amounts(pods=2), amounts(pods=1), amounts(pods=1), False),
    ],
)
def test_exceeds_some_ignores_what_the_limit_does_not_have(
    allocated: Resource, limit: Resource, asked: Resource, exceeds: bool
) -> None:
    assert allocated.exceeds_some(limit, asked) is exceeds


def test_arithmetic_and_which_scalars_are_named() -> None:
    assert amounts(1).add(amounts(1, gpu=2)).as_dict() == {"cpu": 2, "memory": 0, GPU: 2}
    assert amounts(1).sub(amounts(2, gpu=2)).as_dict() == {"cpu": -1, "memory": 0}, "it names no scalars"
    assert amounts(1, gpu=1).sub(amounts(gpu=2)).as_dict() == {"cpu": 1, "memory": 0, GPU: -1}
    assert amounts(2, 4, gpu=6).multiply(0.5).as_dict() == {"cpu": 1, "memory": 2, GPU: 3}
    assert amounts(1, 5).raise_to(amounts(2, 3, gpu=1)).as_dict() == {"cpu": 2, "memory": 5, GPU: 1}
    original = amounts(1, gpu=1)
    original.clone().add(amounts(1, gpu=1))
    assert original.same_as(amounts(1, gpu=1))
    assert amounts().same_as(Resource(scalars={}))


@pytest.mark.parametrize(("missing_is_unlimited", "gpu"), [(True, 5), (False, 0)])
def test_limit_to(missing_is_unlimited: bool, gpu: float) -> None:
    limited = amounts(5, 5, gpu=5).limit_to(amounts(3, UNLIMITED), missing_is_unlimited=missing_is_unlimited)
    assert limited.as_dict() == {"cpu": 3, "memory": 5, GPU: gpu}


def test_differences() -> None:
    more, less = changes(amounts(3, 1, gpu=1), amounts(1, 2, pods=2))
    assert (more.cpu, more.memory, more.get(GPU), more.get("pods")) == (2, 0, 1, 0)
    assert (less.cpu, less.memory, less.get(GPU), less.get("pods")) == (0, 1, 0, 2)
    assert exceeded_part(amounts(3, 1), amounts(1, 2)).as_dict() == {"cpu": 2, "memory": 0}
    assert highest(amounts(1, 5, gpu=1), amounts(2, 3, pods=1)).as_dict() == {
        "cpu": 2, "memory": 5, GPU: 1, "pods": 1
    }  # fmt: skip
    assert shared_names(amounts(1, 1, pods=1), amounts(0, 1, pods=1, gpu=1)) == ["memory", "pods"]


@pytest.mark.parametrize(("part", "whole", "expected"), [(1, 4, 0.25), (0, 0, 0), (1, 0, 1), (0, 3, 0), (6, 3, 2)])
def test_share(part: float, whole: float, expected: float) -> None:
    assert share(part, whole) == expected


# Requests of pods


def container(cpu: str, memory: str = "0", **rest: Any) -> dict[str, Any]:
    return {
        "name": rest.pop("name", "c"),
        "image": "i",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        **rest,
    }


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("5"), container("2")]}, 5000),
        ({"containers": [container("4")], "initContainers": [container("3")]}, 4000),
        ({"containers": [container("1")], "initContainers": [container("2", **SIDECAR)]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("2", **SIDECAR), container("5")]}, 7000),
        ({"containers": [container("1")], "initContainers": [container("5"), container("2", **SIDECAR)]}, 5000),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}, 4000),
    ],
    ids=["sum", "init", "small init", "sidecar", "sidecar before init", "init before sidecar", "overhead", "pod level",
         "pod level and overhead"],
)  # fmt: skip
def test_cpu(spec: dict[str, Any], cpu: float) -> None:
    assert task(**spec).request.cpu == cpu


def test_every_pod_requests_one_of_pods() -> None:
    one = task(cpu="")
    assert one.request.as_dict() == {"cpu": 0, "memory": 0, "pods": 1}
    assert one.best_effort


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [
        ([], 3000),
        ([{"type": "PodResizePending", "status": "True", "reason": "Deferred"}], 3000),
        ([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}], 2000),
    ],
)
def test_a_resize_counts_the_greater_amount_unless_it_is_infeasible(conditions: list[Any], cpu: float) -> None:
    made = pod("p", "g", containers=[container("3")])
    statuses = [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}]
    made["status"] = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
    decoded = decode_object(made)
    assert isinstance(decoded, Pod)
    assert pod_request(decoded).cpu == cpu
