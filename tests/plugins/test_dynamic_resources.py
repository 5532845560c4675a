"""DynamicResources: silent for pods without claims, clear for pods with them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import CycleState, Status
from mooring.framework.status import Code
from mooring.plugins.dynamic_resources import UNSUPPORTED, DynamicResources
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.agreement import FORMS

NODES = [make_node("a").obj(), make_node("b").obj()]
PLAIN = make_pod("p").req(cpu=1).obj()
CLAIMING = make_pod("p").resource_claim("gpu", "one-gpu").obj()


def test_pods_without_claims_are_skipped() -> None:
    """No filter, no score."""
    result = run_plugin(DynamicResources, PLAIN, nodes=NODES)
    assert result.pre_filter.code is Code.SKIP
    assert (result.feasible, result.scores) == (["a", "b"], {})


@pytest.mark.parametrize("pod", [CLAIMING, make_pod("p").resource_claim("gpu", template="gpus").obj()])
def test_pods_with_claims_are_rejected(pod: Any) -> None:
    """The reason says what is the matter: never a silent pass."""
    assert run_plugin(DynamicResources, pod, nodes=NODES).pre_filter == Status.unresolvable(UNSUPPORTED)


@pytest.mark.parametrize("form", FORMS)
def test_nor_do_claims_pass_where_pre_filter_is_disabled(form: Any) -> None:
    """Filter alone turns them down too."""
    harness = PluginHarness(DynamicResources, nodes=NODES)
    found = harness.filter(CycleState(), CLAIMING, harness.nodes(), form=form)
    assert set(found.values()) == {Status.unresolvable(UNSUPPORTED)}
    assert all(status.is_success for status in harness.filter(CycleState(), PLAIN, harness.nodes(), form=form).values())


def test_post_filter() -> None:
    """Nothing to deallocate; an error if PreFilter was never reached, as upstream has it."""
    harness = PluginHarness(DynamicResources, nodes=NODES)
    state = CycleState()
    assert harness.plugin.post_filter(state, PLAIN, None) == Status.error("not found")
    harness.pre_filter(state, PLAIN)
    assert harness.plugin.post_filter(state, PLAIN, None) == Status.unschedulable("no new claims to deallocate")


def test_arguments_are_accepted() -> None:
    """The configuration carries time limits for it."""
    args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}
    assert run_plugin(DynamicResources, PLAIN, nodes=NODES, args=args).pre_filter.code is Code.SKIP
