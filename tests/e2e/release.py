"""A release of the chart on a control plane without kubelets: Helm installs it, and its pods are played here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.helm import CHART, Helm
from tests.e2e.kubelet import PlayedPod

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"


def audit_flags(folder: Path) -> list[str]:
    """Flags of an API server that logs what service accounts ask, and what it answers."""
    policy = folder / "policy.yaml"
    rules = [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]},
        {"level": "None"},
    ]
    policy.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}", "--audit-log-mode=blocking"]


class Release:
    """One release, in the namespace of its own that `home` names."""

    def __init__(self, cluster: Cluster, folder: Path, *, name: str = "mooring", home: str = "") -> None:
        self.cluster = cluster
        self.plane: ControlPlane = cluster.plane
        self.name = name
        self.home = home or f"{cluster.namespace}-home"
        self.helm = Helm(folder, self.plane)
        self.pods: list[PlayedPod] = []
        self._folder = folder
        self._audit = folder / "audit.log"
        cluster.add_namespace(self.home)

    def install(self, *values: str | Path) -> str:
        """Install it, and hand back what Helm says; whatever the API server would warn about is an error.

        The objects can also be applied without Helm, from any namespace.
        """
        arguments = ("--namespace", self.home, *values)
        objects = self.helm("template", self.name, CHART, "--dry-run=server", *arguments)
        self.plane.kubectl(
            "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-",
            stdin=objects.partition("\n---\n")[2],
        )  # fmt: skip
        return self.helm("install", self.name, CHART, *arguments)

    def upgrade(self, *values: str | Path) -> None:
        """Upgrade it with these values, and no others."""
        self.helm("upgrade", self.name, CHART, "--namespace", self.home, "--reset-values", *values)

    def rollback(self) -> None:
        """Go back by one."""
        self.helm("rollback", self.name, "--namespace", self.home)

    def deployment(self, name: str = "") -> Object:
        """The Deployment of that name, or the scheduler's."""
        found = self.plane.api.items(_DEPLOYMENTS.format(self.home))
        (one,) = [
            each for each in found if (each["metadata"]["name"] == name if name else _component(each) == "scheduler")
        ]
        one["metadata"].setdefault("namespace", self.home)
        result: Object = one
        return result

    def start(self, name: str = "", *, folders: dict[str, Path] | None = None, wait: bool = True) -> PlayedPod:
        """Start one pod of a Deployment, the scheduler's unless named, as it is now."""
        pod = PlayedPod(self.plane, self.deployment(name), self._folder, folders)
        self.pods.append(pod)
        if wait:
            pod.process.wait_ready()
        return pod

    def roll(self) -> None:
        """Exchange all pods as the Deployment's strategy says: a new one is ready before an old one goes."""
        strategy = self.deployment()["spec"]["strategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        for old in list(self.pods):
            self.start()
            old.stop()
            self.pods.remove(old)

    def update_files(self) -> None:
        """What kubelets do from time to time."""
        for pod in self.pods:
            pod.update_files()

    def asked(self) -> list[dict[str, Any]]:
        """What service accounts of the release asked of the API server so far."""
        user = f"system:serviceaccount:{self.home}:"
        return [each for each in _lines(self._audit) if each["user"]["username"].startswith(user)]


def _component(workload: Object) -> str:
    return str(workload["metadata"]["labels"]["app.kubernetes.io/component"])


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text().splitlines() if log.exists() else ():
        yield json.loads(line)
