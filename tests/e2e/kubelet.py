"""A kubelet of the poor: runs containers of a Deployment as processes, with their command lines, files and accounts.

ConfigMaps become files as kubelets write them, behind a link that is exchanged when they change; the token is one that
the API server gave for the service account; and each pod has a port of its own, on loopback.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import ssl
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from examples.stories.config_map import write_config_map
from tests.e2e.controlplane import ControlPlane, Object, Process, free_port
from tests.e2e.controlplane.commands import LOOPBACK

SANDBOX: Final = Path(__file__).with_name("sandbox.py")
SOURCE: Final = Path(__file__).parents[2] / "src"
#: As root there is no need for a namespace of users, which some machines forbid.
UNSHARE: Final = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_NUMBERS: Final = itertools.count(1)


class PlayedPod:
    """A pod's first container as a process. Volumes that are no ConfigMaps are `folders`, by the volume's name."""

    def __init__(
        self, plane: ControlPlane, workload: Object, folder: Path, folders: dict[str, Path] | None = None
    ) -> None:
        number = next(_NUMBERS)
        self._plane = plane
        self._namespace = workload["metadata"]["namespace"]
        self._spec: Object = workload["spec"]["template"]["spec"]
        self._container: Object = self._spec["containers"][0]
        self._folder = folder / f"pod-{number}"
        self._folders = folders or {}
        self._versions: dict[str, str] = {}
        self.name = f"{workload['metadata']['name']}-{number}"
        # What the network of pods would do with addresses is done with ports here.
        self.port = free_port()
        self.update_files()
        self.process = self._run()

    def update_files(self) -> None:
        """Write ConfigMaps that have changed, as a kubelet does from time to time."""
        for volume in self._spec["volumes"]:
            if "configMap" not in volume:
                continue
            name = volume["configMap"]["name"]
            found = self._plane.api.get(f"/api/v1/namespaces/{self._namespace}/configmaps/{name}")
            version = found["metadata"]["resourceVersion"]
            if self._versions.get(name) != version:
                self._versions[name] = version
                place = self._place(volume["name"])
                write_config_map(place, version, found.get("data") or {})
                place.chmod(0o777)  # as kubelets leave it

    def answers(self, probe: str) -> bool:
        """Whether a probe of the container succeeds, such as readinessProbe."""
        get = self._container[probe]["httpGet"]
        assert (get["scheme"], get["port"]) == ("HTTPS", "https")
        return self.ask(get["path"])[0] == 200

    def ask(self, path: str, token: str = "") -> tuple[int, str]:
        """GET a path of its endpoints; 0 where nobody listens."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(LOOPBACK, self.port, context=context, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def stop(self) -> None:
        """End it as a kubelet does: with a signal, and with patience."""
        self.process.stop(timeout=float(self._spec["terminationGracePeriodSeconds"]))

    def _run(self) -> Process:
        root = self._folder / "root"
        root.mkdir(parents=True)
        spec = self._folder / "spec.json"
        spec.write_text(json.dumps({"root": str(root), "mounts": self._mounts(), **self._program()}))
        # Not the environment's Python, whose prefix may be hidden; any will do.
        command = [*UNSHARE, sys.executable, str(SANDBOX), str(spec)]
        return self._plane.run(self.name, command, ready=lambda: self.answers("readinessProbe"), wait=False)

    def _program(self) -> Object:
        server = urlsplit(self._plane.server)
        env = {
            # What the image has.
            "PATH": f"/.host{image_programs(self._folder)}:/usr/bin:/bin",
            "PYTHONPATH": f"/.host{SOURCE}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "KUBERNETES_SERVICE_HOST": server.hostname,
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }
        env |= {each["name"]: each["value"] for each in self._container.get("env", ())}
        words = [*self._container["command"], *self._container["args"]]
        port = self._container["ports"][0]["containerPort"]
        there = {
            "--bind-address=0.0.0.0": f"--bind-address={LOOPBACK}",
            f"--secure-port={port}": f"--secure-port={self.port}",
        }
        assert set(there) <= set(words)
        return {"command": [there.get(word, word) for word in words], "env": env}

    def _mounts(self) -> list[Object]:
        found = []
        for mount in self._container["volumeMounts"]:
            place = self._place(mount["name"])
            place.mkdir(parents=True, exist_ok=True)
            found.append({"from": str(place), "to": mount["mountPath"], "readOnly": mount.get("readOnly", False)})
        if self._spec["automountServiceAccountToken"]:
            found.append({"from": str(self._account()), "to": _ACCOUNT, "readOnly": True})
        return found

    def _place(self, volume: str) -> Path:
        return self._folders.get(volume, self._folder / "volumes" / volume)

    def _account(self) -> Path:
        folder = self._folder / "account"
        folder.mkdir(parents=True)
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{self._spec['serviceAccountName']}/token"
        made = self._plane.api.create(path, {"spec": {"expirationSeconds": 3600}})
        (folder / "token").write_text(made["status"]["token"])
        (folder / "ca.crt").write_bytes(self._plane.ca.read_bytes())
        (folder / "namespace").write_text(self._namespace)
        return folder


def image_programs(folder: Path, python: Path = Path(sys.executable)) -> Path:
    """A folder with the command that the image has, which works where a volume hides the environment.

    A checkout below /tmp is such a case: the first line of the environment's own `mooring` names a path in it.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    command = programs / "mooring"
    command.write_text(f'#!/bin/sh\nexec "/.host{python}" -m mooring.cli "$@"\n')
    command.chmod(0o755)
    return programs
