"""The flags of `mooring run` on a real API server, beside kube-scheduler where both write something down."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object, free_port
from tests.e2e.controlplane.parts import binary
from tests.e2e.endpoints import ask, is_ready
from tests.e2e.mooring_process import MOORING, mooring_command

CERTS: Final = Path(__file__).parents[1] / "kube" / "certs"
PROFILES: Final[Object] = {
    "percentageOfNodesToScore": 40,
    "profiles": [
        {
            "schedulerName": "flagged",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 4}]}},
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 9}}],
        },
        {"schedulerName": "plain"},
    ],
}
#: `I1116 12:00:00.000000    4711] "Message" key="value"`
KLOG: Final = re.compile(r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+\] "(?:[^"\\]|\\.)*"( \w+=(".*"|\S+))*')


def test_a_start_with_many_flags(cluster: Cluster) -> None:
    """Each does what it does in kube-scheduler, and the flags of leader election count more than the file."""
    cluster.add_node("node-0")
    allow_leases(cluster)
    config = cluster.plane.scheduler_config({**PROFILES, "leaderElection": {"leaderElect": False}}, name="flags")
    named = yaml.safe_load(config.read_text())
    # The address comes from --master, the rest from the kubeconfig.
    named["clientConnection"]["kubeconfig"] = str(elsewhere(cluster))
    config.write_text(yaml.safe_dump(named))
    port = free_port()
    command = [
        *(str(MOORING), "run", f"--config={config}", f"--master={cluster.plane.server}"),
        *("--leader-elect", "--leader-elect-resource-name=mine"),
        *(f"--leader-elect-resource-namespace={cluster.namespace}", "--leader-elect-lease-duration=6s"),
        *("--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"),
        *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--tls-cert-file={CERTS / 'server.pem'}"),
        *(f"--tls-private-key-file={CERTS / 'server.key'}", "--tls-min-version=VersionTLS13"),
        *("-v=5", "--logging-format=json", "--profiling=false"),
    ]
    process = cluster.plane.run("mooring-flags", command, ready=lambda: is_ready(port))
    cluster.add_pod("one", schedulerName="flagged")
    cluster.add_pod("two", schedulerName="plain")
    assert cluster.wait_bound("one", "two") == {"one": "node-0", "two": "node-0"}
    lease = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.namespace}/leases/mine")
    assert lease["spec"]["leaseDurationSeconds"] == 6
    assert tls_version(port) == "TLSv1.3"
    served = ask(port, "/configz", token=cluster.plane.users["admin"].token).json()["componentconfig"]
    assert served["leaderElection"]["resourceName"] == "mine"
    assert [each["schedulerName"] for each in served["profiles"]] == ["flagged", "plain"]
    process.stop()
    assert process.exit_code == 0
    lines = [json.loads(line) for line in process.log.read_text().splitlines()[1:]]
    told = {each["msg"] for each in lines}
    assert {"Attempting to schedule pod", "Successfully bound pod to node", "Node passes all filters"} <= told
    assert all(abs(each["ts"] / 1000 - time.time()) < 3600 for each in lines)


def allow_leases(cluster: Cluster) -> None:
    """The role of kube-scheduler has its own lease only."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leases"}
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}]
    path, metadata = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{cluster.namespace}", {"name": "leases"}
    cluster.api.create(f"{path}/roles", {"metadata": metadata, "rules": rules})
    cluster.api.create(f"{path}/rolebindings", {"metadata": metadata, "roleRef": role, "subjects": [subject]})


def elsewhere(cluster: Cluster) -> Path:
    """The scheduler's kubeconfig, with an address where nobody is."""
    document = yaml.safe_load(cluster.plane.kubeconfig("scheduler").read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    path = cluster.plane.folder / "elsewhere.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def tls_version(port: int) -> str | None:
    """What is spoken with one who trusts the authority of the certificate that was given."""
    context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        return secure.version()


#: --write-config-to does not ask the API server for its version, and the default is the newest release.
OLDER = "--emulated-version=1.36"


@pytest.mark.parametrize("given", [{}, PROFILES], ids=["defaults", "profiles"])
def test_both_write_the_same_configuration(cluster: Cluster, tmp_path: Path, given: Object) -> None:
    """--write-config-to writes what is in force, defaults and flags included, and ends."""
    config = cluster.plane.scheduler_config(given, name="written")
    flags = [f"--config={config}", "--leader-elect-resource-name=mine", "--leader-elect-retry-period=1s"]
    flags.append("--secure-port=0")
    found = []
    for name, program in (("theirs", [str(binary("kube-scheduler"))]), ("ours", [str(MOORING), "run", OLDER])):
        file = tmp_path / name
        done = run(*program, *flags, f"--write-config-to={file}")
        assert done.returncode == 0, done.stderr
        found.append(comparable(yaml.safe_load(file.read_text())))
    theirs, ours = found
    assert ours == theirs
    assert ours["leaderElection"]["resourceName"] == "mine"


def comparable(config: Object) -> Object:
    """Without weights of nothing and points where nothing is said; two of theirs are for gangs, which are off."""
    for profile in config["profiles"]:
        points = {name: point for name, point in profile["plugins"].items() if point}
        for each in (each for point in points.values() for kind in point.values() for each in kind):
            if not each.get("weight"):
                each.pop("weight", None)
        profile["plugins"] = points
    return config


def test_logs_are_lines_as_klog_writes_them(cluster: Cluster) -> None:
    cluster.add_node("node-0")
    process = cluster.plane.run("mooring-text", mooring_command(cluster.plane, "--leader-elect=false"), wait=False)
    cluster.add_pod("one")
    cluster.add_pod("big", cpu="400")
    cluster.wait_bound("one")
    cluster.wait_unschedulable("big")
    process.stop()
    lines = process.log.read_text().splitlines()[1:]
    assert [line for line in lines if not KLOG.fullmatch(line)] == []
    assert any('"Successfully bound pod to node" pod="' in line and "feasibleNodes=1" in line for line in lines)


@pytest.mark.parametrize(
    ("flag", "code", "says"),
    [
        ("--leader-elct=true", 2, "unknown flag: --leader-elct. Did you mean --leader-elect?"),
        ("--policy-config-file=x", 2, "was removed from kube-scheduler 1.23; write a --config file"),
        ("--feature-gates=CoordinatedLeaderElection=true", 2, "CoordinatedLeaderElection=true changes how"),
        ("--config=nowhere.yaml", 1, "nowhere.yaml: no such file"),
        ("--kubeconfig=nowhere", 1, "nowhere: no such file"),
    ],
)
def test_what_we_do_not_have_is_explained(built: None, flag: str, code: int, says: str) -> None:
    done = run(str(MOORING), "run", "--secure-port=0", flag)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
