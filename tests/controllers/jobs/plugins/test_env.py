from __future__ import annotations

from tests.controllers.jobs.builders import plugin_pod, pod_env


def test_env() -> None:
    assert pod_env(plugin_pod("worker", 1, env=[])) == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}
