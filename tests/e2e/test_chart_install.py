"""Every values file of charts/mooring/ci, installed by Helm on a real API server, and run as its manifests say.

Nobody plays tricks for it: the scheduler has the command line, the files, the account and the roles of the release.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from mooring import __version__
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane
from tests.e2e.helm import CHART, VALUES
from tests.e2e.release import Release, audit_flags
from tests.e2e.test_rbac import is_forbidden

FAVOURITE: Final = '''
from mooring.framework import Plugin

class Favourite(Plugin):
    """Likes one node more than all others."""

    name = "favourite"

    def score(self, state, pod, node):
        return 100 if node.name == "node-2" else 0
'''
#: What monitoring systems bring.
MONITORING: Final = ("ServiceMonitor", "PodMonitor", "PrometheusRule")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def audited(built: None, helm_built: None, audit: Path) -> Iterator[ControlPlane]:
    yield from running(ControlPlane(apiserver_flags=audit_flags(audit)))


@pytest.fixture
def release(audited: ControlPlane, audit: Path) -> Iterator[Release]:
    cluster = Cluster(audited)
    for number in range(3):
        cluster.add_node(f"node-{number}")
    yield Release(cluster, audit)
    cluster.clean_up()


def place(release: Release, *schedulers: str) -> None:
    """Pods of each scheduler name find a node."""
    cluster = release.cluster
    names = []
    for scheduler in schedulers:
        for number in range(3):
            names.append(f"{scheduler}-{number}")
            cluster.add_pod(names[-1], schedulerName=scheduler)
    cluster.wait_bound(*names)


def run_active_active(release: Release, values: Path) -> None:
    """Three replicas that all bind pods; the Leases of all of them exist."""
    cluster = release.cluster
    release.install("--values", values)
    for _ in range(3):
        release.start()
    place(release, "mooring")
    leases = cluster.api.items(f"/apis/coordination.k8s.io/v1/namespaces/{release.home}/leases")
    assert len({each["spec"]["holderIdentity"] for each in leases}) == 3


def run_default(release: Release, values: Path) -> None:
    said = release.install("--values", values)
    assert f"WARNING: no image was given, so the pods run mooring:v{__version__}" in said
    release.start()
    place(release, "mooring")


def run_config(release: Release, values: Path) -> None:
    release.install("--values", values)
    release.start()
    place(release, "my-scheduler")
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/my-scheduler"
    assert release.cluster.api.get(lease)["spec"]["holderIdentity"]


def run_plugins(release: Release, values: Path) -> None:
    """Files from everywhere; of those that kubelets do not write, the test is the source."""
    cluster, folder = release.cluster, release.cluster.plane.folder
    path = f"/api/v1/namespaces/{release.home}/configmaps"
    cluster.api.create(path, {"metadata": {"name": "team-plugins"}, "data": {"favourite.py": FAVOURITE}})
    folders = {"plugins-claim-0": folder / "claim", "plugins-image-0": folder / "image"}
    for each in folders.values():
        each.mkdir()
    release.install("--values", values)
    release.start(folders=folders)
    place(release, "plugins-scheduler")
    assert set(cluster.placements().values()) == {"node-2"}


def run_profiles(release: Release, values: Path) -> None:
    """Two replicas, of which one schedules; and one who may read metrics."""
    cluster = release.cluster
    install_monitoring(release)
    release.install("--values", values)
    pods = [release.start(), release.start()]
    place(release, "spread", "pack")
    cluster.add_namespace("monitoring")
    cluster.plane.kubectl("create", "serviceaccount", "prometheus", namespace="monitoring")
    token = cluster.plane.kubectl("create", "token", "prometheus", namespace="monitoring").strip()
    for pod in pods:
        assert pod.ask("/metrics")[0] == 403
        status, text = pod.ask("/metrics", token)
        assert (status, "scheduler_pending_pods" in text) == (200, True)
    holder = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{release.home}/leases/profiles")
    assert holder["spec"]["holderIdentity"]
    leads = [line for pod in pods for line in pod.ask("/metrics", token)[1].splitlines() if line.startswith("leader_")]
    assert sorted(leads) == [f'leader_election_master_status{{name="profiles"}} {number}.0' for number in (0, 1)]


def run_seed(release: Release, values: Path) -> None:
    """The values that people have, with the four plugins that they name: a gang waits for its last pod."""
    cluster = release.cluster
    release.install("--values", values)
    release.start()
    name = "scheduler-plugins-scheduler"
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{cluster.namespace}/podgroups"
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "gang"}}
    cluster.api.create(path, {**group, "spec": {"minMember": 3}})
    metadata = {"labels": {"scheduling.x-k8s.io/pod-group": "gang"}}
    for number in range(2):
        cluster.add_pod(f"gang-{number}", schedulerName=name, metadata=metadata)
    place(release, name)
    cluster.wait_unschedulable("gang-0")
    assert not {each for each in cluster.placements() if each.startswith("gang")}
    cluster.add_pod("gang-2", schedulerName=name, metadata=metadata)
    cluster.wait_bound("gang-0", "gang-1", "gang-2")
    release.start("scheduler-plugins-controller")
    look = f"{path}/gang"
    cluster.api.wait_for("status of the group", lambda: cluster.api.get(look).get("status", {}).get("phase"))


def run_batch(release: Release, values: Path) -> None:
    """A gang that fits is placed whole, one that does not fit not at all; a changed ConfigMap holds at once."""
    cluster = release.cluster
    install_monitoring(release)
    release.install("--values", values)
    release.start()
    release.start("mooring-controller")
    gang(release, "fits", pods=3, cpu="1")
    gang(release, "waits", pods=4, cpu="2")
    cluster.wait_bound("fits-0", "fits-1", "fits-2")
    place(release, "mooring")
    path = f"/api/v1/namespaces/{release.home}/configmaps/mooring-scheduler-configmap"
    text = cluster.api.get(path)["data"]["volcano-scheduler.conf"]
    # Without the gang plugin nobody waits for the others.
    cluster.api.patch(path, {"data": {"volcano-scheduler.conf": text.replace("  - name: gang\n", "")}})
    assert not {name for name in cluster.placements() if name.startswith("waits")}
    release.update_files()
    cluster.api.wait_for("some of the gang", lambda: any(each.startswith("waits") for each in cluster.placements()))


def gang(release: Release, name: str, *, pods: int, cpu: str) -> None:
    """Pods of a PodGroup, which starts when all of them can."""
    cluster = release.cluster
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    cluster.api.create(path, {**group, "spec": {"minMember": pods, "queue": "default"}})
    metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
    for number in range(pods):
        cluster.add_pod(f"{name}-{number}", cpu=cpu, schedulerName="volcano", metadata=metadata)


def run_volcano(release: Release, values: Path) -> None:
    """The values of Volcano's chart: sessions for schedulerName volcano, and the controllers of its jobs."""
    cluster = release.cluster
    # The control plane of the test has no network to Services, so that it could not call the webhook.
    choices = ("--set", "image.registry=registry.example.com", "--set", "custom.admission_enable=false")
    said = release.install("--values", values, *choices)
    assert "WARNING" not in said
    release.start()
    release.start("mooring-controller")
    gang(release, "fits", pods=3, cpu="1")
    gang(release, "waits", pods=4, cpu="2")
    cluster.wait_bound("fits-0", "fits-1", "fits-2")
    place(release, "mooring")
    assert not {name for name in cluster.placements() if name.startswith("waits")}


def install_monitoring(release: Release) -> None:
    """The kinds of the Prometheus operator."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in MONITORING:
        plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        release.cluster.plane.apply(definition)
        release.cluster.api.wait_for(kind, lambda plural=plural, group=group: _established(release, plural, group))


def _established(release: Release, plural: str, group: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}"
    conditions = release.cluster.api.get(path).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


RUNS: Final[dict[str, Callable[[Release, Path], None]]] = {
    "active-active": run_active_active,
    "batch": run_batch,
    "config": run_config,
    "default": run_default,
    "plugins": run_plugins,
    "profiles": run_profiles,
    "seed": run_seed,
    "volcano": run_volcano,
}


def test_all_values_are_run() -> None:
    assert sorted(RUNS) == [path.name.removesuffix("-values.yaml") for path in VALUES]


@pytest.mark.parametrize("name", RUNS)
def test_it_runs_as_installed(release: Release, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    RUNS[name](release, CHART / "ci" / f"{name}-values.yaml")
    took = time.monotonic() - started
    assert [each for each in release.asked() if is_forbidden(each)] == []
    for pod in release.pods:
        assert pod.answers("livenessProbe")
        pod.stop()
        assert pod.process.exit_code == 0, pod.process.tail()
        assert "Traceback" not in pod.process.log.read_text()
    release.helm("uninstall", release.name, "--namespace", release.home)
    left = release.plane.kubectl("get", "all,cm,sa,role,rolebinding,clusterrole,clusterrolebinding,pdb,netpol",
        "--all-namespaces", "-l", "app.kubernetes.io/instance=mooring", "-o", "name")  # fmt: skip
    assert left == ""
    with capsys.disabled():
        print(f"\n{name}: installed, started and {len(release.cluster.placements())} pods placed in {took:.1f} s")
