"""Pod-level requests and limits that are too small for the devices of claims."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.pod import Pod
from mooring.plugins.dynamic_resources.pod_level_coverage import uncovered_by_pod_level

REQUESTS = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
LIMITS = "is insufficient to cover the aggregated container and node-allocatable DRA limits"
CONTAINER = "is insufficient to cover the limit and DRA overhead for container main"


@pytest.mark.parametrize(
    ("given", "limits", "text"),
    [
        ({}, {}, ""),
        ({"requests": {"cpu": "3"}}, {}, ""),
        ({"requests": {"cpu": "2999m"}}, {}, f"pod level request for cpu {REQUESTS}"),
        ({"requests": {"memory": "320Mi"}}, {}, ""),
        ({"requests": {"memory": "319Mi"}}, {}, f"pod level request for memory {REQUESTS}"),
        ({"requests": {"ephemeral-storage": "1"}}, {}, ""),
        # Each container that refers to a claim gets what is needed for the pod and for a container.
        ({"limits": {"cpu": "2", "memory": "310Mi"}}, {"memory": "200Mi"}, ""),
        ({"limits": {"memory": "309Mi"}}, {"memory": "200Mi"}, f"pod level limit for memory {CONTAINER}"),
        ({"limits": {"cpu": "3"}}, {"cpu": "2"}, f"pod level limit for cpu {CONTAINER}"),
        # Huge pages count even if no container has a limit.
        ({"limits": {"hugepages-2Mi": "8Mi"}}, {"hugepages-2Mi": "4Mi"}, ""),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, {}, f"pod level limit for hugepages-2Mi {LIMITS}"),
    ],
)
def test_uncovered(given: Any, limits: Any, text: str) -> None:
    requests = {"cpu": "1", "memory": "200Mi", "ephemeral-storage": "9Gi"}
    main = {"name": "main", "image": "i", "resources": {"requests": requests, "limits": limits}}
    statuses = [
        {
            "resourceClaimName": "c",
            "containers": ["main", "second"],
            "mapping": [{"name": "cpu", "quantity": "2"}, {"name": "hugepages-2Mi", "quantity": "4Mi"}],
            "overhead": [{"name": "memory", "perPod": "100Mi", "perContainer": "10Mi"}],
        },
        {"resourceClaimName": "d", "overhead": [{"name": "memory", "perContainer": "900Mi"}]},
    ]
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [main, {"name": "second", "image": "i"}], "resources": given},
        "status": {"nodeAllocatableResourceClaimStatuses": statuses},
    }
    assert uncovered_by_pod_level(fit(pod, Pod)) == text
