"""`mooring up` and `mooring cluster`: one command for a cluster and its scheduler, and nothing left afterwards."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.kube import load_access
from tests.waiting import PATIENCE, wait_until

MOORING = [sys.executable, "-m", "mooring.cli"]
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "example/app:1"}]},
}


class Up:
    """A `mooring up` (or another command that runs until it is ended) in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.kubeconfig = folder / "mooring.kubeconfig"
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*MOORING, *arguments], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        wait_until(lambda: self.kubeconfig.exists() or self.process.poll() is not None)

    def ask(self, path: str, body: Any = None) -> Any:
        access = load_access(kubeconfig=str(self.kubeconfig))
        context = ssl.create_default_context(cadata=(access.ca or b"").decode())
        headers = {"Authorization": f"Bearer {access.user.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(access.server + path, data=data, headers=headers)
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def serves(self) -> bool:
        try:
            self.ask("/api/v1/nodes")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def node_of(self, name: str) -> str:
        return str(self.ask(f"/api/v1/namespaces/default/pods/{name}")["spec"].get("nodeName", ""))

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)


def mooring(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MOORING, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ},
    )


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*arguments: str) -> Up:
        started.append(Up(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


def test_up_schedules_explains_and_ends_with_ctrl_c(up: Callable[..., Up], tmp_path: Path) -> None:
    """With a plugin by the option of `mooring run`; the kubeconfig is enough to ask the running scheduler."""
    (tmp_path / "last.py").write_text(
        "from mooring.framework import Plugin\n\n\nclass Last(Plugin):\n"
        "    def score(self, state, pod, node):\n        return 100 if node.name == 'node-4' else 0\n"
    )
    running = up("up", "--nodes", "5", "--plugin", "Last=last.py")
    assert running.kubeconfig.stat().st_mode & 0o777 == 0o600
    running.ask("/api/v1/namespaces/default/pods", POD)
    assert wait_until(lambda: running.node_of("web")) == "node-4"
    told = mooring(tmp_path, "explain", "pod", "web", "--kubeconfig", "mooring.kubeconfig", "-o", "json")
    assert told.returncode == 0, told.stderr
    explanation = json.loads(told.stdout)
    assert explanation["node"] == "node-4"
    assert "again" not in explanation.get("note", ""), "the running scheduler was not asked"
    status = mooring(tmp_path, "cluster", "status")
    assert "Nodes: 5, ready 5\nPods: 1, bound 1\n" in status.stdout
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(PATIENCE) == 0
    assert not running.kubeconfig.exists(), "of no use any more"
    text = running.log.read_text()
    assert "Traceback" not in text
    assert f"export KUBECONFIG={running.kubeconfig}" in text


PLUGIN = """\
import sys, threading, time
from mooring.framework import Plugin


class Mine(Plugin):
    def setup(self):
        threading.Thread(target=time.sleep, args=(3600,), name="sleeper").start()

    async def run(self):
        sys.exit(3)

    def filter(self, state, pod, node):
        if pod.name == "web":
            {statement}
"""
SOURCES = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Mine}]}}
---
apiVersion: mooring.dev/v1alpha1
kind: PluginSources
plugins:
- {name: Mine, path: mine.py, timeout: 300ms}
"""


def test_a_plugin_neither_ends_nor_blocks_the_scheduler(up: Callable[..., Up], tmp_path: Path) -> None:
    """It exits, then hangs; the corrected file is loaded. A thread that it left behind does not delay the end."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.format(statement="sys.exit(3)"))
    (tmp_path / "scheduler.yaml").write_text(SOURCES)
    running = up("up", "--nodes", "2", "--no-controller", "--config", "scheduler.yaml")
    running.ask("/api/v1/namespaces/default/pods", POD)

    def logged(text: str) -> None:
        wait_until(lambda: text in running.log.read_text())

    logged("SystemExit: 3")
    plugin.write_text(PLUGIN.format(statement="while True: pass"))
    logged("mine.py:14 in filter: plugin Mine has not returned for")
    logged("plugin switched off after a call that hung")
    plugin.write_text(PLUGIN.format(statement="pass"))
    assert wait_until(lambda: running.node_of("web"))
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(PATIENCE) == 0
    assert "Exiting although threads of plugins are still running: sleeper" in running.log.read_text()


def test_a_signal_ends_up_while_a_plugin_hangs(up: Callable[..., Up], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.format(statement="print('hangs', flush=True); time.sleep(3600)"))
    (tmp_path / "scheduler.yaml").write_text(SOURCES.replace("300ms", "1h"))
    running = up("up", "--nodes", "2", "--no-controller", "--config", "scheduler.yaml")
    running.ask("/api/v1/namespaces/default/pods", POD)
    wait_until(lambda: "hangs" in running.log.read_text())
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE) == 0


def test_a_configuration_for_another_cluster_is_used_on_this_one(up: Callable[..., Up], tmp_path: Path) -> None:
    """Somebody tries out what they run elsewhere."""
    config = tmp_path / "scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "profiles": [{"schedulerName": "other"}],
    }
    config.write_text(yaml.safe_dump(document))
    running = up("up", "--nodes", "1", "--config", str(config))
    running.ask("/api/v1/namespaces/default/pods", {**POD, "spec": {**POD["spec"], "schedulerName": "other"}})
    wait_until(lambda: running.node_of("web"))
    document["profiles"] = [{"schedulerName": "new"}]
    config.write_text(yaml.safe_dump(document))
    new = {**POD, "metadata": {"name": "new"}, "spec": {**POD["spec"], "schedulerName": "new"}}
    running.ask("/api/v1/namespaces/default/pods", new)
    wait_until(lambda: running.node_of("new"))
    log = running.log.read_text()
    assert "ignored" not in log
    assert "clientConnection" not in log


def test_a_cluster_ends_with_the_process_that_it_belongs_to(up: Callable[..., Up]) -> None:
    """Even where that is killed."""
    running = up("up", "--nodes", "1")
    assert wait_until(running.serves)
    running.process.kill()
    running.process.wait()
    wait_until(lambda: not running.serves())


def test_up_ends_with_its_cluster(up: Callable[..., Up], tmp_path: Path) -> None:
    """`mooring cluster stop` ends the cluster; a scheduler without one would be of no use."""
    running = up("up", "--nodes", "1")
    stopped = mooring(tmp_path, "cluster", "stop")
    assert stopped.stdout == "The embedded cluster has stopped.\n", stopped.stderr
    assert running.process.wait(PATIENCE) == 1
    assert "The embedded cluster exited unexpectedly" in running.log.read_text()


def test_a_kubeconfig_in_use_stays(up: Callable[..., Up], tmp_path: Path) -> None:
    """A second cluster in the folder needs another file; once the first has ended, even by a kill, it does not."""
    first = up("cluster", "start", "--nodes", "0")
    text = first.kubeconfig.read_text()
    second = mooring(tmp_path, "up", "--nodes", "0")
    assert second.returncode == 1
    assert "mooring.kubeconfig belongs to the embedded cluster that runs at https://127.0.0.1:" in second.stderr
    assert "give another --kubeconfig-out" in second.stderr
    assert first.kubeconfig.read_text() == text
    first.process.kill()
    first.process.wait()
    third = up("cluster", "start", "--nodes", "0")
    wait_until(lambda: third.kubeconfig.read_text() != text)


def test_data_survives_and_is_not_shared(up: Callable[..., Up], tmp_path: Path) -> None:
    """Everything is there again after a kill; a folder in use is refused; an old kubeconfig's token stays good."""
    first = up("cluster", "start", "--nodes", "2", "--data-dir", "data")
    first.ask("/api/v1/namespaces/default/pods", POD)
    token = yaml.safe_load(first.kubeconfig.read_text())["users"][0]["user"]["token"]
    second = mooring(tmp_path, "up", "--data-dir", "data", "--kubeconfig-out", "other")
    assert second.returncode == 1
    assert "is another embedded cluster using it" in second.stderr
    assert not (tmp_path / "other").exists()
    first.process.kill()
    first.process.wait()
    first.kubeconfig.unlink()
    third = up("up", "--nodes", "2", "--data-dir", "data")
    assert yaml.safe_load(third.kubeconfig.read_text())["users"][0]["user"]["token"] == token
    assert wait_until(lambda: third.node_of("web")).startswith("node-")
    third.end()
    assert third.kubeconfig.exists(), "it is good for the next start"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("up", "--kubeconfig-out", "mine"), "mine is there already and was not written by Mooring"),
        (("cluster", "start", "--kubeconfig-out", "mine"), "mine is there already and was not written by Mooring"),
        (("up", "--nodes", "-1"), "-1 is not in the range x>=0"),
        (("up", "--nodes", "1", "--config", "none.yaml"), "none.yaml: no such file"),
        (("up", "--nodez", "3"), "unknown flag: --nodez. Did you mean --nodes?"),
        (("up", "--no-controler"), "unknown flag: --no-controler. Did you mean --no-controller?"),
        (("up", "--plugin-dir", "x"), "unknown flag: --plugin-dir. Did you mean --plugins-dir?"),
        (("up", "--nodes", "1", "three"), "unexpected argument 'three'"),
        (("up", "--kube-api-qps", "many"), "'many' is not a number"),
        (("cluster", "status"), "no embedded cluster found: mooring.kubeconfig: no such file"),
        (("cluster", "stop", "--kubeconfig", "dead"), "dead: no Mooring embedded cluster answers"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    from mooring.cluster.kubeconfig import kubeconfig_text

    (tmp_path / "mine").write_text("apiVersion: v1\nkind: Config\n")
    (tmp_path / "dead").write_text(kubeconfig_text(server="https://127.0.0.1:9", authority="", token="x"))
    done = mooring(tmp_path, *arguments)
    assert done.returncode in (1, 2)
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "", "nothing was started"
    assert (tmp_path / "mine").read_text() == "apiVersion: v1\nkind: Config\n"
    assert not (tmp_path / "mooring.kubeconfig").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("up",), "--port"), (("cluster", "start"), "--port"), (("up",), "--secure-port")],
    ids=["up", "cluster", "endpoints"],
)
def test_a_port_in_use_is_one_message(tmp_path: Path, arguments: tuple[str, ...], option: str) -> None:
    """The interpreter of the cluster aborted, because a thread held the lock of standard input at exit."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = mooring(tmp_path, *arguments, "--nodes", "0", option, str(port))
    assert done.returncode == 1
    assert re.fullmatch(rf"Error: .*{port}: .*[Aa]ddress already in use; choose another.*\n", done.stderr), done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("value", ["gpu", "gpu=", "gpu=x", "=8", "GPU=8", "gpu=129", "a_b=1"])
def test_devices_must_be_a_name_and_a_count(value: str) -> None:
    done = CliRunner().invoke(main, ["up", "--devices", value])
    assert done.exit_code == 2
    assert "is not NAME=COUNT, such as gpu=8" in done.output
