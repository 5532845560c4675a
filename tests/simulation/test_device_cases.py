"""Cases about devices: errors in a case, and what the recorded writes show."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import to_dict
from mooring.plugins.dynamic_resources import device_state
from mooring.releases import V1_36
from mooring.simulation.evaluate import CaseError, evaluate
from mooring.testing import make_node, make_pod
from tests.plugins.device_world import claim, exactly, gpu_class, gpu_slice

OBJECTS = [to_dict(each) for each in (make_node("n0").obj(), claim(), gpu_class(), gpu_slice("n0", 1))]
POD = to_dict(make_pod("p").resource_claim("gpu", "c").obj())


def test_allocation_and_writes() -> None:
    answer = evaluate({"objects": OBJECTS, "pod": POD})
    assert [each["device"] for each in answer["allocations"]["n0"]["c"]["devices"]] == ["gpu-0"]
    assert [(each["verb"], each.get("subresource", "")) for each in answer["bind"]["writes"]] == [
        ("update", ""),
        ("update", "status"),
    ]
    assert answer["scores"]["n0"]["DynamicResources"] == 0


def test_a_group_without_its_feature_gate_is_no_field_of_the_pod() -> None:
    """The API server drops the field, so that kube-scheduler places the pod like any other."""
    pod = {**POD, "spec": {**POD["spec"], "schedulingGroup": {"podGroupName": "g"}}}
    assert evaluate({"objects": OBJECTS, "pod": pod}, release=V1_36) == evaluate(
        {"objects": OBJECTS, "pod": POD}, release=V1_36
    )


def test_a_pod_before_has_the_device() -> None:
    other = to_dict(make_pod("q").resource_claim("gpu", "d").obj())
    objects = [*OBJECTS, to_dict(claim(name="d"))]
    answer = evaluate({"objects": objects, "pod": POD, "before": [{"pod": other, "node": "n0"}]})
    assert answer["filter"]["n0"]["reasons"] == ["cannot allocate all claims"]


def test_one_case_may_search_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event loop waits: the search ends as in kube-scheduler, and not with a timeout."""
    monkeypatch.setattr(device_state, "_MOST_STEPS", 2)
    assert evaluate({"objects": OBJECTS, "pod": POD})["filter"]["n0"]["code"] == "Success"


def test_a_pod_before_whose_filter_fails_has_no_device() -> None:
    other = to_dict(make_pod("q").resource_claim("gpu", "d").obj())
    failing = claim(exactly(selectors=[{"cel": {"expression": 'device.attributes["a"].b == 1'}}]), name="d")
    case = {"objects": [*OBJECTS, to_dict(failing)], "pod": POD, "before": [{"pod": other, "node": "n0"}]}
    assert evaluate(case)["filter"]["n0"]["code"] == "Success"


def test_a_claim_for_extended_resources_waits_for_its_binding_conditions() -> None:
    """The claim was just created: the watch need not have shown it yet."""
    devices = [{"name": "d", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}]
    world = (make_node("n0").obj(), gpu_class(extendedResourceName="example.com/gpu"), gpu_slice("n0", devices))
    pod = to_dict(make_pod("p").req({"example.com/gpu": "1"}).obj())
    answer = evaluate({"objects": [to_dict(each) for each in world], "pod": pod})
    assert answer["bind"]["preBind"] == {"code": "Wait", "plugin": "DynamicResources"}


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"before": {}}, "before: not a list"),
        ({"before": [{"pod": POD}]}, r"before\[0\].node: not a name"),
        ({"before": [{"pod": POD, "node": "x"}]}, "there is no node 'x'"),
        ({"events": [1]}, r"events\[0\]: not an object"),
        ({"events": {}}, "events: not a list"),
        ({"events": [{"new": {"apiVersion": "x/v1", "kind": "X"}}]}, "the kind is not known"),
    ],
)
def test_errors(extra: dict[str, Any], text: str) -> None:
    with pytest.raises(CaseError, match=text):
        evaluate({"objects": OBJECTS, "pod": POD, **extra})


def test_an_error_of_the_search_for_victims_is_shown() -> None:
    failing = to_dict(claim())
    selector = {"cel": {"expression": 'device.attributes["x"].y'}}
    failing["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [selector]
    victim = make_pod("victim").req(cpu="1").priority(0).node("n0").obj()
    node = make_node("n0").capacity(cpu="1", memory="1Gi", pods="10").obj()
    objects = [failing, *map(to_dict, (node, gpu_class(), gpu_slice("n0", 1), victim))]
    pod = to_dict(make_pod("p").resource_claim("gpu", "c").req(cpu="1").priority(10).obj())
    answer = evaluate({"objects": objects, "pod": pod}, release=V1_36)
    assert answer["filter"]["n0"]["reasons"] == ["Insufficient cpu"]
    error = "claim default/c: selector #0: CEL runtime error: no such key: y"
    assert answer["preemption"]["status"] == {
        "code": "Error",
        "plugin": "DefaultPreemption",
        "reasons": [f'preemption: running "DynamicResources" filter plugin: {error}'],
    }


def test_there_are_no_victims_without_nodes() -> None:
    answer = evaluate({"objects": [to_dict(claim()), to_dict(gpu_class())], "pod": POD})
    assert answer["preemption"]["status"]["reasons"] == ["preemption: no nodes available"]
