"""What `mooring plugin manifests` prints, on a real API server: applied, explained and enforced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import KubectlError

MOORING = Path(sys.executable).parent / "mooring"
GALLERY = Path(__file__).parent.parent.parent / "examples" / "plugins"
FIT = GALLERY / "node_crd_resource_fit" / "node_crd_resource_fit.py"
PLUGIN = '''
from datetime import datetime
from typing import Annotated, Any, Literal

from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, Lister, Meta, Plugin


class NodeReport(
    CustomResource,
    group="reports.example.com",
    version="v1beta1",
    short_names=("nr",),
    categories=("all",),
    columns={"Zone": "spec.zone", "Weight": "spec.weight", "Seen": "status.seen"},
):
    """What is known of a node."""

    class Spec:
        class Link:
            """A way to another node."""

            to: str
            cost: Annotated[float, Meta(gt=0)] = 1.5

        zone: Annotated[str, Meta(description="Where the node stands.", pattern="^[a-z]+$", examples=["east"])]
        weight: Annotated[int, Meta(ge=0, le=100)] = 50
        mode: Literal["soft", "hard"] = "soft"
        links: Annotated[tuple[Link, ...], Meta(max_length=2)] = ()
        by_name: dict[str, Link] = {}
        free: dict[str, QuantityLike] = {}
        since: datetime | None = None
        extra: Any = None

    class Status:
        seen: bool = False

    spec: Spec
    status: Status


class Reports(Plugin):
    reports = Lister(NodeReport)

    def score(self, state, pod, node):
        return 0
'''


def printed(*arguments: str) -> str:
    command = [str(MOORING), "plugin", "manifests", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "reports.py"
    path.write_text(PLUGIN)
    return str(path)


def test_manifests_are_applied_and_hold(cluster: Cluster, plugin: str) -> None:
    applied = cluster.kubectl("apply", "-f", "-", stdin=printed(plugin))
    assert "customresourcedefinition.apiextensions.k8s.io/nodereports.reports.example.com created" in applied
    assert "clusterrolebinding.rbac.authorization.k8s.io/mooring-plugins created" in applied
    try:
        cluster.kubectl("wait", "--for=condition=Established", "crd/nodereports.reports.example.com", "--timeout=60s")
        cluster.api.wait_for("discovery of the kind", lambda: _discovered(cluster), 30.0)
        _explained(cluster)
        _enforced(cluster, plugin)
        assert _allowed(cluster, "watch", "nodereports.reports.example.com")
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=printed(plugin))


def _allowed(cluster: Cluster, verb: str, kind: str) -> bool:
    """Whether the scheduler's service account may; the kind need not be served for that."""
    resource, _, group = kind.partition(".")
    attributes = {"verb": verb, "resource": resource, "group": group}
    spec = {"user": "system:serviceaccount:kube-system:mooring", "resourceAttributes": attributes}
    answer = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(answer["status"]["allowed"])


def _discovered(cluster: Cluster) -> bool:
    """A definition is established before the API server lists what it defines."""
    return "nodereports" in cluster.kubectl("api-resources", "--api-group=reports.example.com", "--cached=false")


def _explained(cluster: Cluster) -> None:
    def explain(what: str) -> str:
        """A server publishes the schema a while after it serves the kind."""
        try:
            return cluster.kubectl("explain", what, "--api-version=reports.example.com/v1beta1")
        except KubectlError:
            return ""

    text = cluster.api.wait_for("schema", lambda: explain("nodereport.spec"))
    assert "Where the node stands." in text
    assert "weight\t<integer>" in text
    assert "A way to another node." in explain("nodereport.spec.links")


def _enforced(cluster: Cluster, plugin: str) -> None:
    sample = printed(plugin, "--sample").replace("namespace: default", f"namespace: {cluster.namespace}")
    assert "created" in cluster.kubectl("apply", "-f", "-", stdin=sample)
    shown = cluster.kubectl("get", "nr")
    assert shown.split()[:4] == ["NAME", "ZONE", "WEIGHT", "SEEN"]
    assert "east" in shown
    for wrong, why in (
        ("zone: East", "spec.zone"),
        ("zone: east, weight: 101", "less than or equal to 100"),
        ("zone: east, mode: loud", "Unsupported value"),
        ("weight: 1", "spec.zone: Required value"),
        ("zone: east, links: [{cost: 1}]", "to: Required value"),
        ("zone: east, links: [{to: a, cost: 0}]", "should be greater than 0"),
        ("zone: east, links: [{to: a}, {to: b}, {to: c}]", "must have at most 2 items"),
        ("zone: east, free: {cpu: [1]}", "spec.free"),
        ("zone: east, zon: west", "unknown field"),
    ):
        about = "apiVersion: reports.example.com/v1beta1, kind: NodeReport, metadata: {name: wrong}"
        manifest = f"{{{about}, spec: {{{wrong}}}}}"
        with pytest.raises(KubectlError) as refused:
            cluster.kubectl("create", "-f", "-", stdin=manifest)
        assert why in str(refused.value), wrong


@pytest.mark.parametrize(
    ("folder", "kind", "may"),
    [
        ("node_crd_resource_fit", "clusterscopedresources.scheduling.sigs.k8s.io", "watch"),
        ("network_metrics", "networkmetrics.network.example.com", "watch"),
        ("load_aware", "nodes.metrics.k8s.io", "list"),
    ],
)
def test_all_that_the_gallery_declares_is_accepted(cluster: Cluster, folder: str, kind: str, may: str) -> None:
    """Definition, role and configuration at once, then the sample."""
    path = str(GALLERY / folder)
    text = printed(path)
    try:
        applied = cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        assert "clusterrole.rbac.authorization.k8s.io/mooring-plugins serverside-applied" in applied
        assert "configmap/mooring-plugins serverside-applied" in applied
        if samples := printed(path, "--sample"):
            cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind}", "--timeout=60s")
            assert "serverside-applied" in cluster.kubectl("apply", "--server-side", "-f", "-", stdin=samples)
        assert _allowed(cluster, may, kind)
        assert not _allowed(cluster, "delete", kind)
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)
