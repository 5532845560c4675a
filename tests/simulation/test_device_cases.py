"""Cases about devices: errors in a case, and what the recorded writes show."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import to_dict
from mooring.simulation.evaluate import CaseError, evaluate
from mooring.testing import make_node, make_pod
from tests.plugins.device_world import claim, gpu_class, gpu_slice

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


def test_a_pod_before_has_the_device() -> None:
    other = to_dict(make_pod("q").resource_claim("gpu", "d").obj())
    objects = [*OBJECTS, to_dict(claim(name="d"))]
    answer = evaluate({"objects": objects, "pod": POD, "before": [{"pod": other, "node": "n0"}]})
    assert answer["filter"]["n0"]["reasons"] == ["cannot allocate all claims"]


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
