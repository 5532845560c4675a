"""`mooring controller`: its flags, before it connects to a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from mooring.cli.controller import _gate_notes, _topology, _webhook, controller
from mooring.controllers.reconciler import Settings
from tests.log_capture import capture_logs

GATES = "--feature-gates=SchedulingGatesQueueAdmission=true"


def given(*arguments: str) -> dict[str, Any]:
    with controller.make_context("controller", list(arguments)) as context:
        return context.params


@pytest.mark.parametrize(
    ("arguments", "adds"),
    [
        (("--enabled-admission=all",), False),
        (("--enabled-admission=all", GATES), True),
        (("--enabled-admission=all", GATES, "--feature-gates=SchedulingGatesQueueAdmission=false"), False),
    ],
)
def test_the_webhook_adds_scheduling_gates(arguments: tuple[str, ...], adds: bool) -> None:
    found = _webhook(given(*arguments), Settings())
    assert found is not None
    assert found.rules.adds_queue_gates is adds


def test_scheduling_gates_without_the_webhook_of_pods_are_reported() -> None:
    with capture_logs() as logs:
        assert _webhook(given("--enabled-admission=/jobs/mutate", GATES), Settings()) is not None
    assert [each for each in logs if "without /pods/mutate in --enabled-admission" in str(each)]


def test_feature_gates() -> None:
    assert _gate_notes([("SchedulingGatesQueueAdmission", "true"), ("VolcanoJobSupport", "true")]) == []
    assert _gate_notes([("X", "true")]) == ["--feature-gates: X has no effect: it is not a gate of Volcano"]
    with pytest.raises(click.BadParameter, match="PriorityClass"):
        _gate_notes([("PriorityClass", "false")])


def test_sources_of_hyper_nodes(tmp_path: Path) -> None:
    file = tmp_path / "volcano-controller.conf"
    file.write_text("networkTopologyDiscovery: [{source: ufm, enabled: true}]")
    with pytest.raises(click.ClickException, match="secretRef"):
        _topology(str(file))
    secret = "credentials: {secretRef: {name: s, namespace: x}}"
    file.write_text(f"networkTopologyDiscovery: [{{source: ufm, enabled: true, {secret}, config: {{endpoint: u}}}}]")
    found = _topology(str(file)).ufm
    assert found is not None
    assert found.endpoint == "https://u"
    assert _topology("").ufm is None
