"""Which release of kube-scheduler Mooring emulates on a real API server: by default that of the server."""

from __future__ import annotations

import pytest

from mooring.releases import RELEASES, Release, release_named
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import ask, is_ready
from tests.e2e.mooring_process import mooring_command

#: What the message of a pod that is too large ends with.
_PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


@pytest.mark.parametrize("release", [None, *RELEASES], ids=lambda each: each.version if each else "default")
def test_the_release_of_the_server_or_of_the_flag(cluster: Cluster, release: Release | None) -> None:
    port = free_port()
    flags = [] if release is None else [f"--emulated-version={release.version}"]
    command = mooring_command(cluster.plane, "--leader-elect=false", *flags, port=port)
    process = cluster.plane.run("mooring", command, ready=lambda: is_ready(port))
    expected = release if release is not None else release_named(KUBERNETES)
    found = ask(port, "/version", token=cluster.plane.users["admin"].token).json()
    assert (found["decidesAs"], f"1.{found['emulationMinor']}") == (expected.reference, expected.version)
    line = [line for line in process.log.read_text().splitlines() if "Starting Mooring" in line][-1]
    assert f'emulatedVersion="{expected.version}"' in line
    cluster.add_node("small", cpu="1")
    cluster.add_pod("large", cpu="9")
    message = cluster.wait_unschedulable("large")
    start = "no new claims to deallocate, " if expected.reports_no_deallocation else ""
    assert message == f"0/1 nodes are available: 1 Insufficient cpu. {start}{_PREEMPTION}"
    process.stop()
