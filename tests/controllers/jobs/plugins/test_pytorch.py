from __future__ import annotations

from tests.controllers.jobs.builders import plugin_pod, pod_env


def test_pytorch() -> None:
    common = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert pod_env(plugin_pod("master", pytorch=[])).items() >= {**common, "RANK": "0"}.items()
    assert pod_env(plugin_pod("worker", 1, pytorch=[])).items() >= {**common, "RANK": "2"}.items()
    waiting = plugin_pod("worker", 0, pytorch=["--wait-master-enabled", "--wait-master-image=b", "--port=7"])
    (waiter,) = waiting["spec"]["initContainers"]
    assert (waiter["name"], waiter["image"]) == ("wait-for-master", "b")
    assert "nc -z j-master-0.j 7" in waiter["command"][2]
    assert "initContainers" not in plugin_pod("master", 0, pytorch=["--wait-master-enabled=true"])["spec"]
