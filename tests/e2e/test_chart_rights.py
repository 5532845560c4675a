"""The default set of the chart in place of kube-scheduler: what its roles allow is used, but for what is listed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane
from tests.e2e.release import Release, audit_flags
from tests.e2e.test_rbac import CONDITIONAL, PAGED, granted, is_forbidden, live_through, permission

#: With kube-scheduler's own lease and name, so that pods need not ask for it.
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def release(built: None, helm_built: None, tmp_path: Path) -> Iterator[Release]:
    for plane in running(ControlPlane(controller_manager=True, kwok=True, apiserver_flags=audit_flags(tmp_path))):
        yield Release(Cluster(plane), tmp_path)


def test_nothing_is_granted_that_is_not_used(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    release.install("--set-string", f"config={CONFIG}", "--set", "scheduler.replicaCount=0")
    pod = release.start()
    live_through(release.cluster, pod.port)
    pod.stop()
    asked = release.asked()
    assert [each for each in asked if is_forbidden(each)] == []
    used = {permission(each) for each in asked if "objectRef" in each}
    rendered = release.helm.template("--set-string", f"config={CONFIG}", namespace=release.home)
    allowed = granted(each for each in rendered if each["kind"] in ("ClusterRole", "Role"))
    unused = {each for each in allowed - used if each[2] != PAGED}
    assert unused == set(CONDITIONAL), "\n".join(map(" ".join, sorted(unused)))
    with capsys.disabled():
        print(f"\ngranted {len(allowed)}, used {len(used)}; unused beside lists by page: {sorted(unused)}")
