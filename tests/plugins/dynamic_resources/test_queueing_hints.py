"""Which events may help a pod that waits for devices."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import ActionType, Hint
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.releases import V1_36, V1_37, Release
from mooring.simulation.evaluate import evaluate
from mooring.testing import PluginHarness, make_pod
from tests.plugins.device_world import claim

CREATED = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM


@pytest.mark.parametrize(
    ("release", "resource", "for_another"), [(V1_36, "Pod", Hint.SKIP), (V1_37, "TargetPod", Hint.QUEUE)]
)
def test_a_claim_was_created(release: Release, resource: str, for_another: Hint) -> None:
    """Since 1.37, the queue sends only updates of the waiting pod, and the hint does not compare pods."""
    world = PluginHarness(DynamicResources, objects=[claim()], release=release)
    [event] = [each for each in world.plugin.events_to_register() if each.actions & CREATED and "Pod" in each.resource]
    assert event.resource == resource
    pod, other = (make_pod(name).uid(name).resource_claim("gpu", "c").obj() for name in ("p", "other"))
    missing = make_pod("p").uid("p").resource_claim("gpu", "missing").obj()
    assert event.hint is not None
    assert [event.hint(pod, pod, each) for each in (pod, missing, other)] == [Hint.QUEUE, Hint.SKIP, for_another]


def shown(release: Release, *, uid: str) -> Any:
    def pod(uid: str) -> dict[str, Any]:
        metadata = {"name": uid, "namespace": "default", "uid": uid}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}

    event = {"resource": "Pod", "old": pod(uid), "new": pod(uid)}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    return evaluate({"id": "x", "objects": [node], "pod": pod("p"), "events": [event]}, release=release)


def test_a_case_with_events_is_about_devices() -> None:
    """So its answer has hints, and the score of DynamicResources, even if there is no object of devices."""
    for release in (V1_36, V1_37):
        found = shown(release, uid="p")
        assert found["hints"] == ["Queue"]
        assert found["scores"]["n"]["DynamicResources"] == 0
    assert shown(V1_36, uid="other")["hints"] == ["Skip"]
    assert shown(V1_37, uid="other")["hints"] == ["Queue"]
