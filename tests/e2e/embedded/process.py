"""An embedded cluster in a process of its own, as `mooring cluster start` runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import yaml

from tests.e2e.controlplane.parts import binary

_START = "import sys; from mooring.cli.cluster import cluster; cluster(sys.argv[1:])"
#: The same without controllers and kubelets, for questions about the API alone.
_BARE = """
import sys
from pathlib import Path
from mooring.cluster import EmbeddedCluster
from mooring.cluster.serving import run, serve
run(lambda: serve(EmbeddedCluster(0, controllers=False), kubeconfig=Path(sys.argv[-1]), nodes=0))
"""
_SECONDS = 30.0


class EmbeddedProcess:
    """Starts an embedded cluster on a free port; use it as a context manager."""

    def __init__(
        self, *, nodes: int = 0, kube_scheduler: bool = False, controllers: bool = True, data: Path | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mooring-embedded-"))
        self.kubeconfig = self.folder / "kubeconfig"
        self._program = _START if controllers else _BARE
        self._arguments = ["start", "--port", "0", "--nodes", str(nodes), "--kubeconfig-out"]
        self._arguments.append(str(self.kubeconfig))
        if data is not None:
            self._arguments = ["start", "--data-dir", str(data), *self._arguments[1:]]
        self._kube_scheduler = kube_scheduler
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> EmbeddedProcess:
        self._start([sys.executable, "-c", self._program, *self._arguments], "cluster.log")
        end = time.monotonic() + _SECONDS
        while not self.kubeconfig.exists():
            if self._processes[0].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the embedded cluster did not start: {(self.folder / 'cluster.log').read_text()}")
            time.sleep(0.02)
        if self._kube_scheduler:
            command = [str(binary("kube-scheduler")), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"]
            self._start([*command, "--secure-port=0"], "scheduler.log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(10.0)
        # The logs stay where something went wrong.
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, command: list[str], log: str) -> None:
        with (self.folder / log).open("wb") as file:
            self._processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))

    @property
    def log(self) -> str:
        """What the cluster has said so far."""
        return (self.folder / "cluster.log").read_text()

    @property
    def access(self) -> tuple[str, str, str]:
        """Address, certificate authority (PEM) and token."""
        return read_access(self.kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None, editor: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl; whether it succeeded is the caller's business."""
        return run_kubectl(self.kubeconfig, self.folder, *arguments, stdin=stdin, editor=editor)


def run_kubectl(
    kubeconfig: Path, home: Path, *arguments: str, stdin: str | None = None, editor: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run kubectl with a kubeconfig; its cache goes to `home`."""
    env = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(home), "KUBE_EDITOR": editor}
    command = [str(binary("kubectl")), *arguments]
    return subprocess.run(command, input=stdin, env=env, capture_output=True, text=True, check=False, timeout=90)


def read_access(kubeconfig: Path) -> tuple[str, str, str]:
    """Address, certificate authority (PEM) and token of a kubeconfig."""
    import base64

    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    if "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    else:
        authority = Path(cluster["certificate-authority"]).read_text()
    return cluster["server"], authority, user["token"]
