"""What a pod requests, as Volcano adds it up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import task


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
    from mooring.batch.requests import pod_request

    from mooring.api.codec import decode_object
    from mooring.api.pod import Pod
    from tests.batch.cases import pod

    made = pod("p", "g", containers=[container("3")])
    statuses = [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}]
    made["status"] = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
    decoded = decode_object(made)
    assert isinstance(decoded, Pod)
    assert pod_request(decoded).cpu == cpu
