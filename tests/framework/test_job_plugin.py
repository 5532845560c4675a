from __future__ import annotations

from typing import Any

from mooring.framework.job_plugin import containers_of, host_of, hosts_of, mount, open_port, set_env, task_of
from tests.controllers.jobs.builders import MASTER, WORKER, job

NAMED: dict[str, Any] = {"name": "named", "replicas": 2, "template": {"spec": {"hostname": "h", "subdomain": "s"}}}


def test_host_names() -> None:
    found = job(MASTER, WORKER, NAMED)
    worker, named = task_of(found, "worker"), task_of(found, "named")
    assert worker is not None
    assert named is not None
    assert hosts_of(found, worker) == ["j-worker-0.j", "j-worker-1.j"]
    assert hosts_of(found, named) == ["h.s"], "the template has one host name for all"
    assert host_of(found, named, 1) == "h.s"
    assert task_of(found, "lost") is None


def test_changes_apply_to_all_containers() -> None:
    pod: dict[str, Any] = {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}}
    set_env(pod, KEY="value")
    mount(pod, {"name": "v", "emptyDir": {}}, "/data", readOnly=True)
    for container in containers_of(pod):
        assert container["env"] == [{"name": "KEY", "value": "value"}]
        assert container["volumeMounts"] == [{"name": "v", "mountPath": "/data", "readOnly": True}]
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_a_port_is_opened_once() -> None:
    container: dict[str, Any] = {}
    open_port(container, 80, "http")
    open_port(container, 80, "other")
    assert container["ports"] == [{"name": "http", "containerPort": 80}]
