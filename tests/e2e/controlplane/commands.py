"""The command lines of the control plane's parts. Everything listens on loopback only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.controlplane.parts import binary

LOOPBACK: Final = "127.0.0.1"
#: No token controller runs without a controller manager, so pods could not be given a service account's token.
_NO_ADMISSION: Final = ("ServiceAccount",)
#: Taints new nodes as not ready until the node controller finds them ready.
TAINT_NEW_NODES: Final = "TaintNodesByCondition"


def etcd(data: Path, port: int, peer_port: int) -> list[str]:
    """A single etcd that does not wait for its disk: a test's data need not outlive a power cut."""
    client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    flags = {
        "data-dir": data,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # A saved state was made with other ports.
        "force-new-cluster": "true" if data.exists() else "false",
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": 8 << 30,
        "log-level": "warn",
    }
    return [str(binary("etcd")), *_flags(flags)]


@dataclass(frozen=True)
class ApiServer:
    """What differs between API servers."""

    etcd_port: int
    port: int
    certificates: Path
    tokens: Path
    #: Taint new nodes, as a cluster with a node controller does.
    taint_new_nodes: bool
    #: Let every request in at once, so that a benchmark measures the scheduler and not the queue before the server.
    unlimited: bool = False
    more: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """The command line."""
        key = self.certificates / "apiserver.key"
        without = [*_NO_ADMISSION, *([] if self.taint_new_nodes else [TAINT_NEW_NODES])]
        flags: dict[str, Any] = {
            "etcd-servers": f"http://{LOOPBACK}:{self.etcd_port}",
            "bind-address": LOOPBACK,
            "advertise-address": LOOPBACK,
            "secure-port": self.port,
            # It signs its own certificate there, and with the same key its service accounts' tokens.
            "cert-dir": self.certificates,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.96.0.0/16",
            # Nobody has a certificate of this authority; but parts that ask the server about tokens look for one.
            "client-ca-file": self.certificates / "apiserver.crt",
            "requestheader-client-ca-file": self.certificates / "apiserver.crt",
            "requestheader-allowed-names": "nobody",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "token-auth-file": self.tokens,
            "authorization-mode": "RBAC",
            "disable-admission-plugins": ",".join(without),
            # A loopback address cannot be an endpoint of the service `kubernetes`.
            "endpoint-reconciler-type": "none",
            "allow-privileged": "true",
        }
        if self.unlimited:
            flags |= {
                "enable-priority-and-fairness": "false",
                "max-requests-inflight": 4000,
                "max-mutating-requests-inflight": 4000,
            }
        return [str(binary("kube-apiserver")), *_flags(flags), *self.more]


def controller_manager(
    kubeconfig: Path, port: int, folder: Path, certificates: Path, without: Iterable[str]
) -> list[str]:
    """All of Kubernetes' controllers but those `without`."""
    flags: dict[str, Any] = {
        **_serving(kubeconfig, port, folder),
        "kubeconfig": kubeconfig,
        "controllers": ",".join(["*", *(f"-{each}" for each in without)]),
        "leader-elect": "false",
        # Roles are given to each controller rather than to all of them together.
        "use-service-account-credentials": "true",
        "service-account-private-key-file": certificates / "apiserver.key",
        "root-ca-file": certificates / "apiserver.crt",
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
    }
    return [str(binary("kube-controller-manager")), *_flags(flags)]


def scheduler(config: Path, kubeconfig: Path, port: int, folder: Path, more: Iterable[str] = ()) -> list[str]:
    """kube-scheduler itself, for comparison."""
    flags = {**_serving(kubeconfig, port, folder), "config": config}
    return [str(binary("kube-scheduler")), *_flags(flags), *more]


def scheduler_config(path: Path, kubeconfig: Path, given: dict[str, Any] | None, qps: int) -> Path:
    """Write a scheduler's configuration: what is given, completed by how to reach this control plane."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **(given or {}),
    }
    connection = {"kubeconfig": str(kubeconfig), "qps": qps, "burst": qps}
    document["clientConnection"] = connection | document.get("clientConnection", {})
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def volcano(conf: Path, kubeconfig: Path, port: int, more: Iterable[str] = ()) -> list[str]:
    """Volcano's scheduler, for comparison."""
    flags = {
        "kubeconfig": kubeconfig,
        "scheduler-conf": conf,
        "leader-elect": "false",
        "enable-healthz": "true",
        "healthz-address": f"{LOOPBACK}:{port}",
        "listen-address": f"{LOOPBACK}:0",
        "cache-dumper": "false",
    }
    return [str(binary("vc-scheduler")), *_flags(flags), *more]


def kwok(kubeconfig: Path, port: int, stages: Path) -> list[str]:
    """KWOK plays the kubelet of every node."""
    flags = {
        "kubeconfig": kubeconfig,
        "config": stages,
        "manage-all-nodes": "true",
        "node-lease-duration-seconds": 40,
        "node-ip": LOOPBACK,
        "cidr": "10.32.0.0/12",
        "server-address": f"{LOOPBACK}:{port}",
    }
    return [str(binary("kwok")), *_flags(flags)]


def _serving(kubeconfig: Path, port: int, folder: Path) -> dict[str, Any]:
    return {
        "bind-address": LOOPBACK,
        "secure-port": port,
        "cert-dir": folder,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
    }


def _flags(values: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]
