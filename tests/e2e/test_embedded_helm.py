"""Helm with the embedded cluster: a chart with hooks and tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.embedded.process import EmbeddedProcess
from tests.e2e.helm import Helm, HelmError


def _hook(kind: str, name: str, when: str, command: list[str], **annotations: str) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "nodeName": "node-0"}
    spec |= {"containers": [{"name": "c", "image": "busybox", "command": command}]}
    return {
        "apiVersion": "v1" if kind == "Pod" else "batch/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": {"helm.sh/hook": when, **annotations}},
        "spec": spec if kind == "Pod" else {"template": {"spec": spec}},
    }


def _chart(folder: Path, *, failing: bool) -> Path:
    container = {"name": "c", "image": "nginx:{{ .Values.tag }}"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"nodeName": "node-0", "containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    exit_code = {"mooring.dev/exit-code": "1"} if failing else {}
    objects = {
        "deployment": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        "migrate": _hook("Job", "migrate", "pre-install", ["migrate"]),
        "test": _hook("Pod", "web-test", "test", ["wget", "web:80"], **exit_code),
    }
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    (folder / "values.yaml").write_text("tag: one\n")
    for name, each in objects.items():
        (folder / "templates" / f"{name}.yaml").write_text(json.dumps(each))
    return folder


def test_helm_installs_upgrades_tests_and_removes(helm_built: None, tmp_path: Path) -> None:
    with EmbeddedProcess(nodes=1) as embedded:
        helm = Helm(tmp_path, kubeconfig=embedded.kubeconfig)
        chart = _chart(tmp_path / "chart", failing=False)
        helm("install", "web", chart, "--wait", "--timeout", "60s")
        assert embedded.kubectl("get", "job", "migrate", "-o", "jsonpath={.status.succeeded}").stdout == "1"
        assert "Phase:          Succeeded" in helm("test", "web", "--timeout", "60s")
        image = ("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
        helm("upgrade", "web", chart, "--set", "tag=two", "--wait", "--timeout", "60s")
        assert embedded.kubectl(*image).stdout == "nginx:two"
        helm("rollback", "web", "1", "--wait", "--timeout", "60s")
        assert embedded.kubectl(*image).stdout == "nginx:one"
        helm("uninstall", "web", "--wait", "--timeout", "60s")
        assert embedded.kubectl("get", "deployments", "-o", "name").stdout == ""
        assert "Traceback" not in embedded.log


def test_a_failing_helm_test_fails(helm_built: None, tmp_path: Path) -> None:
    with EmbeddedProcess(nodes=1) as embedded:
        helm = Helm(tmp_path, kubeconfig=embedded.kubeconfig)
        helm("install", "web", _chart(tmp_path / "chart", failing=True), "--wait", "--timeout", "60s")
        with pytest.raises(HelmError, match="web-test failed"):
            helm("test", "web", "--timeout", "60s")
