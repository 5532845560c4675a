from __future__ import annotations

import pytest

from mooring.framework import JobPluginError
from tests.controllers.jobs.builders import plugin_objects, plugin_pod


def test_ray() -> None:
    container = [{"name": "head"}, {"name": "other"}]
    tasks = (
        {"name": "head", "replicas": 1, "template": {"spec": {"containers": container}}},
        {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "worker"}]}}},
    )
    head, other = plugin_pod("head", 0, *tasks, ray=["--dashboardPort=9"])["spec"]["containers"]
    assert [each["containerPort"] for each in head["ports"]] == [6379, 9, 10001]
    assert head["command"][2] == (
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=9 "
        "--ray-client-server-port=10001"
    )
    assert "command" not in other
    worker = plugin_pod("w", 0, *tasks, ray=["--worker", "w"])["spec"]["containers"][0]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]
    service = plugin_objects(*tasks, ray=[])["Service j-head-svc"]["spec"]
    assert [each["name"] for each in service["ports"]] == ["gcs", "dashboard", "client-server"]
    assert service["selector"]["volcano.sh/task-spec"] == "head"
    with pytest.raises(JobPluginError, match="job j doesn't have head task boss"):
        plugin_pod("head", 0, *tasks, ray=["--head=boss"])
