"""Objects of kinds that plugins declare, in manifests and cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main

GALLERY = Path(__file__).parent.parent.parent / "examples" / "plugins" / "node_crd_resource_fit"
PLUGIN = f"--plugin=NodeCRDResourceFit={GALLERY / 'node_crd_resource_fit.py'}"
CONFIG = f"--config={GALLERY / 'scheduler.yaml'}"
FILES = [f"-f{GALLERY / name}.yaml" for name in ("nodes", "resources", "pod")]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


def test_simulate_reads_them() -> None:
    result = run("simulate", *FILES, CONFIG, PLUGIN, "-o", "json")
    assert result.exit_code == 0
    assert "ignored" not in result.stderr
    outcome = json.loads(result.stdout)
    assert "node-2" in json.dumps(outcome)


def test_explain_reads_them() -> None:
    result = run("explain", "pod", "nginx", *FILES, CONFIG, PLUGIN)
    assert result.exit_code == 0, result.stderr
    assert "resource company.net/memory is not enabled on the node" in result.stdout or "node-2" in result.stdout


@pytest.mark.parametrize(
    ("spec", "outcome"),
    [
        ({"resourcesFilter": {"company.net/memory": True}}, {"n": {"code": "Success", "reasons": []}}),
        ({"resourcesFilter": {"company.net/memory": "yes"}}, "objects[1]: spec.resourcesFilter"),
    ],
)
def test_evaluate_reads_them(spec: dict[str, object], outcome: object) -> None:
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10", "company.net/memory": "1"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": amounts}}
    offer = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ClusterScopedResource"}
    container = {"name": "c", "resources": {"requests": {"company.net/memory": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    case = {"objects": [node, {**offer, "metadata": {"name": "n"}, "spec": spec}], "pod": pod}
    answer = json.loads(run("evaluate", PLUGIN, stdin=json.dumps(case)).stdout)
    if isinstance(outcome, str):
        assert outcome in answer["error"]
    else:
        assert answer["filter"] == outcome


def test_a_wrong_field_is_told_with_its_line(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        (GALLERY / "resources.yaml").read_text().replace("company.net/memory: 70", "company.net/memory: best")
    )
    result = run("simulate", *FILES[:1], FILES[2], f"-f{wrong}", CONFIG, PLUGIN)
    assert result.exit_code == 1
    assert f"{wrong}, line 23: ClusterScopedResource node-2: spec.resourcesScore" in result.stderr
    assert "whole number" in result.stderr
