from __future__ import annotations

import msgspec

from mooring.api.pod import Pod
from mooring.controllers.quota_usage import add_usage, format_amounts, quota_usage


def pod(requests: dict[str, str], limits: dict[str, str]) -> Pod:
    container = {"name": "c", "resources": {"requests": requests, "limits": limits}}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, Pod)


def test_requests_count_under_both_names_and_limits_under_one() -> None:
    usage = quota_usage(pod({"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}, {"cpu": "1"}))
    assert usage == {
        "pods": 1,
        "count/pods": 1,
        "cpu": 500,
        "requests.cpu": 500,
        "memory": 1 << 30,
        "requests.memory": 1 << 30,
        "example.com/gpu": 2,
        "requests.example.com/gpu": 2,
        "limits.cpu": 1000,
    }


def test_amounts_are_formatted_in_the_unit_of_their_resource() -> None:
    total: dict[str, int] = {}
    add_usage(total, {"cpu": 500, "requests.memory": 1 << 29, "pods": 1}, 3)
    add_usage(total, {"pods": 5}, 0)
    assert format_amounts(total) == {"cpu": "1500m", "pods": "3", "requests.memory": "1536Mi"}
