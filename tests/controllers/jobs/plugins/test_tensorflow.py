from __future__ import annotations

import json

from tests.controllers.jobs.builders import plugin_pod, pod_env


def test_tensorflow() -> None:
    tasks = {"name": "ps", "replicas": 1}, {"name": "work", "replicas": 2}
    found = json.loads(pod_env(plugin_pod("work", 1, *tasks, tensorflow=["--worker=work", "--port=1"]))["TF_CONFIG"])
    cluster = {"ps": ["j-ps-0.j:1"], "worker": ["j-work-0.j:1", "j-work-1.j:1"]}
    assert found == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert "TF_CONFIG" not in pod_env(plugin_pod("worker", 0, {"name": "worker", "replicas": 1}, tensorflow=[]))
