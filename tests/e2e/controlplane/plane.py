"""A real control plane on loopback: etcd, kube-apiserver and whatever else a test wants, each a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.e2e.controlplane import commands
from tests.e2e.controlplane.api import Api
from tests.e2e.controlplane.commands import LOOPBACK
from tests.e2e.controlplane.credentials import User, standard_users, write_kubeconfig, write_tokens
from tests.e2e.controlplane.parts import binary
from tests.e2e.controlplane.processes import Process, Reaper, free_port
from tests.e2e.controlplane.stages import write_stages

_KUBECTL_SECONDS: Final = 120.0
_QPS: Final = 5000


class KubectlError(Exception):
    """kubectl ended with an error; the message is what it said."""


class ControlPlane:
    """A control plane with data of its own, in a temporary folder.

    With `controller_manager` deployments make pods and claims find volumes; with `kwok` nodes become ready and bound
    pods run; with `kube_scheduler` Kubernetes' own scheduler schedules. `unlimited` lifts the API server's limits, for
    measurements. `state` is a folder written by `save_state`, whose objects are there from the start. Use it as a
    context manager; when an exception leaves it, or `keep` is set, the logs stay and `folder` says where.
    """

    def __init__(
        self,
        *,
        controller_manager: bool = False,
        kwok: bool = False,
        kube_scheduler: bool = False,
        unlimited: bool = False,
        state: Path | None = None,
        users: Iterable[User] = (),
        apiserver_flags: Sequence[str] = (),
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mooring-e2e-"))
        self.keep = False
        self.users = {user.key: user for user in (*standard_users(), *users)}
        self._certificates = self.folder / "certificates"
        self.ca = self._certificates / "apiserver.crt"
        self._ports = {"etcd": free_port(), "apiserver": free_port()}
        self.server = f"https://{LOOPBACK}:{self._ports['apiserver']}"
        self._reaper = Reaper(self.folder)
        #: Everything that was ever started here, in that order.
        self.processes: list[Process] = []
        self._wanted = (controller_manager, kwok, kube_scheduler)
        write_tokens(self.folder / "tokens.csv", tuple(self.users.values()))
        self.api = self.api_as("admin")
        self.etcd = self._etcd(state)
        self.apiserver = self._apiserver(unlimited, taint_new_nodes=controller_manager and kwok, more=apiserver_flags)
        #: These three are there once they were asked for.
        self.controller_manager: Process | None = None
        self.kwok: Process | None = None
        self.kube_scheduler: Process | None = None

    def __enter__(self) -> ControlPlane:
        try:
            return self.start()
        except BaseException:
            self.keep = True
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.keep = self.keep or (kind is not None and issubclass(kind, Exception))
        self.stop()

    def start(self) -> ControlPlane:
        """Start everything that was asked for and wait until it serves."""
        self.etcd.start()
        self.apiserver.start()
        self._wait_for_namespace("default")
        controller_manager, kwok, kube_scheduler = self._wanted
        if kwok:
            self.start_kwok()
        if controller_manager:
            self.start_controller_manager()
        if kube_scheduler:
            self.kube_scheduler = self.start_kube_scheduler()
        return self

    def stop(self) -> None:
        """Stop everything, last started first, and remove the folder unless the logs are to be kept."""
        self.api.close()
        for process in reversed(self.processes):
            # An API server without its etcd cannot end well; nothing that it would do at the end matters here.
            process.stop(timeout=10.0)
        self._reaper.dismiss()
        if self.keep:
            shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            print(f"-- the control plane's logs are kept in {self.folder}", flush=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    # What others need in order to use it.

    def kubeconfig(self, user: str = "admin", namespace: str = "default") -> Path:
        """A kubeconfig for one of `users`."""
        path = self.folder / f"{user}.{namespace}.kubeconfig"
        return write_kubeconfig(path, server=self.server, ca=self.ca, user=self.users[user], namespace=namespace)

    def api_as(self, user: str) -> Api:
        """A plain client that speaks as one of `users`."""
        return Api(self.server, self.ca, self.users[user].token)

    def kubectl(
        self, *arguments: str, user: str = "admin", namespace: str = "default", stdin: str | None = None
    ) -> str:
        """Run kubectl as a user would, and hand back what it printed. Raises KubectlError."""
        # Its cache goes to our folder too.
        env = os.environ | {"KUBECONFIG": str(self.kubeconfig(user, namespace)), "HOME": str(self.folder)}
        done = subprocess.run(
            [str(binary("kubectl")), *arguments],
            input=stdin,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=_KUBECTL_SECONDS,
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def apply(self, *objects: dict[str, Any], namespace: str = "default") -> str:
        """`kubectl apply` these objects."""
        text = "\n---\n".join(json.dumps(each) for each in objects)
        return self.kubectl("apply", "-f", "-", namespace=namespace, stdin=text)

    # Parts that come and go.

    def start_controller_manager(self, without: Iterable[str] = ()) -> Process:
        """Start Kubernetes' controllers; without KWOK nobody renews nodes' leases, so nodes are then not judged."""
        port = free_port()
        if self.kwok is None:
            without = [*without, "node-lifecycle-controller"]
        folder = self._folder("kube-controller-manager")
        command = commands.controller_manager(
            self.kubeconfig("controller-manager"), port, folder, self._certificates, without
        )
        self.controller_manager = self.run("kube-controller-manager", command, ready=_serves_tls(port, "/healthz"))
        return self.controller_manager

    def start_kwok(self) -> Process:
        """Start KWOK, which plays the kubelet of all nodes."""
        port = free_port()
        command = commands.kwok(self.kubeconfig("admin"), port, write_stages(self.folder / "stages.yaml"))
        self.kwok = self.run("kwok", command, ready=_serves(f"http://{LOOPBACK}:{port}/healthz"))
        return self.kwok

    def start_kube_scheduler(
        self,
        config: dict[str, Any] | None = None,
        *,
        name: str = "kube-scheduler",
        user: str = "scheduler",
        flags: Sequence[str] = (),
        wait: bool = True,
    ) -> Process:
        """Start kube-scheduler with a configuration of your own, completed by how to reach this control plane."""
        port = free_port()
        command = commands.scheduler(
            self.scheduler_config(config, name=name, user=user), self.kubeconfig(user), port, self._folder(name), flags
        )
        return self.run(name, command, ready=_serves_tls(port, "/readyz"), wait=wait)

    def start_vc_scheduler(self, conf: Path, flags: Sequence[str] = ()) -> Process:
        """Start Volcano's scheduler with its configuration; its definitions must be there."""
        port = free_port()
        command = commands.volcano(conf, self.kubeconfig("admin"), port, flags)
        return self.run("vc-scheduler", command, ready=_serves(f"http://{LOOPBACK}:{port}/healthz"))

    def scheduler_config(self, config: dict[str, Any] | None, *, name: str, user: str = "scheduler") -> Path:
        """Write a KubeSchedulerConfiguration for this control plane; Mooring reads the same."""
        return commands.scheduler_config(self.folder / f"{name}.yaml", self.kubeconfig(user), config, _QPS)

    def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool] | None = None,
        env: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Process:
        """Run any program beside the control plane: its log is kept with the others', and it is stopped at the end."""
        process = self._process(name, command, ready=ready, env=env)
        return process.start(wait=wait)

    # Its data.

    def save_state(self, to: Path) -> None:
        """Stop and keep all objects in a folder, from which other control planes can start."""
        self.apiserver.stop()
        self.etcd.stop()
        shutil.copytree(self.folder / "etcd", to)

    def compact(self) -> int:
        """Make etcd forget all versions of objects but the present ones, and hand back the present revision."""
        url = f"http://{LOOPBACK}:{self._ports['etcd']}/v3/kv"
        revision = int(_post(f"{url}/range", {"key": "AA==", "limit": 1})["header"]["revision"])
        _post(f"{url}/compaction", {"revision": revision, "physical": True})
        return revision

    def tails(self, lines: int = 15) -> dict[str, str]:
        """The end of every log."""
        return {process.name: process.tail(lines) for process in self.processes}

    def _etcd(self, state: Path | None) -> Process:
        data = self.folder / "etcd"
        if state is not None:
            shutil.copytree(state, data)
        port = self._ports["etcd"]
        ready = _serves(f"http://{LOOPBACK}:{port}/readyz")
        return self._process("etcd", commands.etcd(data, port, free_port()), ready=ready)

    def _apiserver(self, unlimited: bool, *, taint_new_nodes: bool, more: Sequence[str]) -> Process:
        server = commands.ApiServer(
            etcd_port=self._ports["etcd"],
            port=self._ports["apiserver"],
            certificates=self._certificates,
            tokens=self.folder / "tokens.csv",
            taint_new_nodes=taint_new_nodes,
            unlimited=unlimited,
            more=tuple(more),
        )
        return self._process("kube-apiserver", server.command(), ready=self.api_as("admin").ready)

    def _process(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        process = Process(name, command, self.folder, ready=ready, env={"HOME": str(self.folder), **(env or {})})
        self.processes.append(process)
        return process

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _wait_for_namespace(self, name: str) -> None:
        """The API server makes its own namespaces shortly after it says that it is ready."""
        self.api.wait_for(
            f"namespace {name}",
            lambda: any(each["metadata"]["name"] == name for each in self.api.items("/api/v1/namespaces")),
        )


def _serves(url: str) -> Callable[[], bool]:
    def answered() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, http.client.HTTPException):
            return False

    return answered


def _serves_tls(port: int, path: str) -> Callable[[], bool]:
    """Parts other than the API server sign certificates of their own for loopback; whose they are does not matter."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def answered() -> bool:
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return answered


def _post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())
