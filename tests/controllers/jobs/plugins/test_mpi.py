from __future__ import annotations

from tests.controllers.jobs.builders import MASTER, plugin_pod, pod_env


def test_mpi() -> None:
    assert pod_env(plugin_pod("master", mpi=[]))["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
    worker = plugin_pod("worker", mpi=["--port=2000"])
    assert "MPI_HOST" not in pod_env(worker)
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "mpijob-port", "containerPort": 2000}]
    alone = plugin_pod("master", 0, MASTER, mpi=[])
    assert "ports" not in alone["spec"]["containers"][0], "without workers nothing is set, as in Volcano"
