"""One kubectl script on the embedded cluster and on a real control plane, with the outputs compared."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.parts import binary
from tests.e2e.embedded.process import EmbeddedProcess, run_kubectl
from tests.e2e.embedded.script import SCRIPT, Step

_NOISE = (
    (re.compile(r"\b\d+(ms|[smhd])(\d+[smhd])?\b( ago)?"), "AGE"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "DATE"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\bweb-[a-z0-9]{6,10}\b"), "web-HASH"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "ADDRESS"),
)


def _comparable(text: str) -> list[str]:
    for pattern, word in _NOISE:
        text = pattern.sub(word, text)
    # Columns are as wide as their longest cell, and that may be an age.
    return [re.sub(r"\s{2,}", "  ", line).rstrip() for line in text.splitlines()]


class _Shell:
    """kubectl on one cluster."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._kubeconfig = kubeconfig
        self._home = home
        editor = home / "editor.sh"
        editor.write_text('#!/bin/sh\nsed -i \'s/z: "1"/z: "2"/\' "$1"\n')
        editor.chmod(0o700)
        self._editor = str(editor)

    def watch(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a watch, whose lines are read as they come."""
        command = [str(binary("kubectl")), "--kubeconfig", str(self._kubeconfig), "get", *arguments, "--watch"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(self, step: Step) -> str:
        end = time.monotonic() + 30
        while True:
            done = run_kubectl(
                self._kubeconfig,
                self._home,
                *_words(step.command),
                stdin=step.stdin,
                editor=self._editor,
            )
            text = done.stdout + done.stderr
            if not step.until or step.until in text or time.monotonic() > end:
                return text
            time.sleep(0.1)


def _words(command: str) -> list[str]:
    """The words of a command; one that holds JSON or templates is split at blanks alone."""
    return command.split(" ") if "{" in command else shlex.split(command)


@pytest.fixture(scope="module")
def shells(built: None) -> Iterator[tuple[_Shell, _Shell]]:
    """A real control plane and an embedded cluster, each with kube-scheduler."""
    with (
        ControlPlane(controller_manager=True, kwok=True, kube_scheduler=True) as plane,
        EmbeddedProcess(kube_scheduler=True) as embedded,
    ):
        yield _Shell(plane.kubeconfig(), plane.folder), _Shell(embedded.kubeconfig, embedded.folder)
        assert "Traceback" not in embedded.log


def test_kubectl_prints_the_same(shells: tuple[_Shell, _Shell]) -> None:
    """Every step of the script, to the letter, ages and generated names aside."""
    real, ours = shells
    found: list[str] = []
    for step in SCRIPT:
        left, right = _comparable(real.run(step)), _comparable(ours.run(step))
        if not step.quiet and left != right:
            found.append(f"$ kubectl {step.command}\n--- real\n" + "\n".join(left) + "\n--- ours\n" + "\n".join(right))
    assert not found, "\n\n".join(found)


def test_kubectl_sees_the_same_changes(shells: tuple[_Shell, _Shell]) -> None:
    """A watch tells what is there, then every change, in order."""
    steps = (
        Step("create configmap seen --from-literal=a=b"),
        Step("label configmap seen x=y"),
        Step('patch configmap seen -p {"data":{"c":"d"}}'),
        Step("delete configmap seen"),
    )
    told = []
    for shell in shells:
        shell.run(Step("create configmap before --from-literal=a=b"))
        watch = shell.watch("configmaps", "-l", "!skip", "--output-watch-events", "--no-headers", "--show-labels")
        try:
            assert watch.stdout is not None
            lines = [_next(watch, "before")]
            for step in steps:
                shell.run(step)
                lines.append(_next(watch, "seen"))
        finally:
            watch.terminate()
            watch.communicate()
        shell.run(Step("delete configmap before"))
        told.append([_comparable(line) for line in lines])
    real, ours = told
    assert ours == real
    assert [line[0].split()[0] for line in ours] == ["ADDED", "ADDED", "MODIFIED", "MODIFIED", "DELETED"]


def _next(watch: subprocess.Popen[str], name: str) -> str:
    """The next line about a thing; a real cluster has others of its own."""
    assert watch.stdout is not None
    return next(line for line in watch.stdout if name in line.split())


def test_kubectl_alone(built: None) -> None:
    """What has no counterpart: logs, and the cluster's own nodes."""
    with EmbeddedProcess(nodes=3) as embedded:
        assert embedded.kubectl("get", "nodes", "--no-headers").stdout.count(" Ready ") == 3
        embedded.kubectl("run", "p", "--image=x", "--overrides", '{"spec":{"nodeName":"node-0"}}')
        assert embedded.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s").returncode == 0
        logs = embedded.kubectl("logs", "p")
        assert logs.returncode == 1
        assert "nothing is executed there, so there are no logs" in logs.stderr
        assert "Traceback" not in embedded.log


def test_kubectl_debug(built: None) -> None:
    """A container in a running pod, a copy of the pod, and a pod on a node. Nothing can be attached to."""
    with EmbeddedProcess(nodes=1) as embedded:
        embedded.kubectl("run", "p", "--image=x", "--overrides", '{"spec":{"nodeName":"node-0"}}')
        embedded.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
        done = embedded.kubectl("debug", "p", "--image=busybox", "-c", "look")
        assert done.returncode == 0, done.stderr
        running = "jsonpath={.status.ephemeralContainerStatuses[0].state.running}"
        waited = embedded.kubectl("wait", f"--for={running}", "pod/p", "--timeout=60s")
        assert waited.returncode == 0, waited.stderr
        copied = embedded.kubectl("debug", "p", "--image=busybox", "--copy-to=q", "--same-node")
        assert copied.returncode == 0, copied.stderr
        assert embedded.kubectl("wait", "--for=condition=Ready", "pod/q", "--timeout=60s").returncode == 0
        on_node = embedded.kubectl("debug", "node/node-0", "--image=busybox")
        assert "Creating debugging pod node-debugger-node-0-" in on_node.stdout + on_node.stderr
        assert on_node.returncode == 0, on_node.stderr
        attached = embedded.kubectl("debug", "p", "--image=busybox", "-c", "see", "--attach")
        assert "nothing is executed there, so there is nothing to attach to" in attached.stdout + attached.stderr
        assert "Traceback" not in embedded.log


def test_stored_kinds_have_a_warning(built: None) -> None:
    with EmbeddedProcess(nodes=1) as embedded:
        embedded.kubectl("create", "deployment", "web", "--image=x")
        done = embedded.kubectl("autoscale", "deployment", "web", "--min=1", "--max=3")
        assert done.returncode == 0, done.stderr
        assert "the embedded cluster has no controller for HorizontalPodAutoscalers" in done.stderr
        assert "Deployment/web" in embedded.kubectl("get", "hpa").stdout
