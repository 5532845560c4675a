"""A cluster of either kind, embedded or real, with a scheduler that a test starts: for what must hold on both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.docs.commands import ROOT
from tests.e2e.controlplane import Api, Object
from tests.e2e.embedded.process import read_access, run_kubectl

GALLERY = ROOT / "examples" / "plugins"
_MOORING = Path(sys.executable).parent / "mooring"
_SECONDS = 90.0
T = TypeVar("T")


class Ground:
    """What a test needs of a cluster, whichever it is."""

    def __init__(self, kind: str, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self.kind = kind
        self.namespace = namespace
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._log = folder / "scheduler.log"
        server, authority, token = read_access(kubeconfig)
        (folder / "ca.pem").write_text(authority)
        self.api = Api(server, folder / "ca.pem", token)

    def add_node(self, name: str, *, cpu: str = "4", memory: str = "8Gi", **labels: str) -> None:
        """Make a node that is ready; keywords are labels of example.com."""
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
        }
        metadata = {"name": name, "labels": {f"example.com/{key}": value for key, value in labels.items()}}
        self.api.create("/api/v1/nodes", {"metadata": metadata, "status": status})

    def add_pod(
        self,
        name: str,
        scheduler: str = "",
        *,
        node: str = "",
        requests: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Make a pod, for a scheduler or on a node."""
        container = {"name": "main", "image": "example/app:1", "resources": {"requests": requests or {}}}
        spec = {"containers": [container], "schedulerName": scheduler or "nobody", "terminationGracePeriodSeconds": 0}
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        pod = {"metadata": metadata, "spec": {**spec, "nodeName": node} if node else spec}
        self.api.create(f"/api/v1/namespaces/{self.namespace}/pods", pod)

    def apply(self, text: str) -> None:
        """`kubectl apply` manifests; definitions of kinds are waited for."""
        self._kubectl("apply", "-f", "-", stdin=text)
        for document in yaml.safe_load_all(text):
            if document and document["kind"] == "CustomResourceDefinition":
                name = document["metadata"]["name"]
                self._kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> None:
        done = run_kubectl(self._kubeconfig, self._folder, "-n", self.namespace, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr

    def apply_definitions(self, plugin: Path) -> None:
        """Apply the definitions of the custom resources that a plugin declares."""
        command = [str(_MOORING), "plugin", "manifests", str(plugin), "--crd"]
        self.apply(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    @contextmanager
    def scheduler(
        self, config: Path, *plugins: str, change: Callable[[Object], None] = lambda _config: None
    ) -> Iterator[None]:
        """Run a scheduler with a configuration of the examples, and plugins (`NAME=FILE`).

        ``change`` may change the configuration; where it names a kubeconfig, that is the cluster's.
        """
        document: Any = yaml.safe_load(config.read_text())
        document.setdefault("clientConnection", {})["kubeconfig"] = str(self._kubeconfig)
        change(document)
        changed = self._folder / "scheduler.yaml"
        changed.write_text(yaml.safe_dump(document))
        command = [str(_MOORING), "run", "--config", str(changed), "--secure-port", "0"]
        command += [f"--plugin={plugin}" for plugin in plugins]
        with self._log.open("wb") as log:
            env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=env)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30.0)

    def gallery(self, folder: str, *names: str, **more: Any) -> Any:
        """The scheduler of a folder of the gallery, whose plugins are in the file of the same name."""
        file = GALLERY / folder / f"{folder}.py"
        return self.scheduler(GALLERY / folder / "scheduler.yaml", *(f"{name}={file}" for name in names), **more)

    # What became of it

    def pod(self, name: str) -> Object:
        """The pod as it is now."""
        return self.api.pod(name, self.namespace)

    def node_of(self, name: str) -> str:
        """The node of a pod, once it has one."""
        return self._await(f"node for {name}", lambda: str(self.pod(name)["spec"].get("nodeName", "")))

    def why_waiting(self, name: str) -> str:
        """Why a pod has no node, once somebody has tried."""

        def look() -> str:
            for condition in self.pod(name).get("status", {}).get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition["message"])
            return ""

        return self._await(f"message about {name}", look)

    def await_log(self, text: str) -> None:
        """Wait until the scheduler has said something."""
        self._await(f"line with {text!r} in the log", lambda: text in self._log.read_text())

    def _await(self, what: str, look: Callable[[], T]) -> T:
        end = time.monotonic() + _SECONDS
        while not (found := look()):
            if time.monotonic() > end:
                raise AssertionError(f"no {what}; the scheduler said:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)
        return found
