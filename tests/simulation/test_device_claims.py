"""Devices in simulations: templates, shared claims, extended resources, and victims that give devices back."""

from __future__ import annotations

from typing import Any

import pytest

from mooring import simulate
from mooring.api.codec import to_dict
from mooring.testing import make_node, make_pod
from tests.plugins.device_world import claim, exactly, gpu_class, gpu_slice

NODES = [make_node("n0").capacity(cpu="8").obj(), make_node("n1").capacity(cpu="8").obj()]
GPU = {"example.com/gpu": "1"}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
}


def placed(*objects: Any, pods: list[Any]) -> dict[str, str]:
    everything = [*NODES, gpu_class(extendedResourceName="example.com/gpu"), *objects, *pods]
    documents = [each if isinstance(each, dict) else to_dict(each) for each in everything]
    result = simulate(documents)
    return {pod["pod"]: pod["node"] for pod in result.placements}


def from_template(name: str) -> Any:
    return make_pod(name).req(cpu=1).resource_claim("gpu", template="t").obj()


@pytest.mark.parametrize(("devices", "running"), [(2, 2), (3, 3)])
def test_claims_from_templates(devices: int, running: int) -> None:
    found = placed(TEMPLATE, gpu_slice("n0", devices), pods=[from_template(f"p{n}") for n in range(3)])
    assert sorted(found.values()) == [""] * (3 - running) + ["n0"] * running


def test_pods_that_share_a_claim_run_on_one_node() -> None:
    pods = [make_pod(f"p{n}").req(cpu=1).resource_claim("gpu", "c").obj() for n in range(3)]
    found = placed(claim(exactly(1)), gpu_slice("n1", 1), pods=pods)
    assert set(found.values()) == {"n1"}


def test_extended_resources() -> None:
    pods = [make_pod(f"p{n}").req(GPU).guaranteed().obj() for n in range(2)]
    found = placed(gpu_slice("n1", 1), pods=pods)
    assert sorted(found.values()) == ["", "n1"]
