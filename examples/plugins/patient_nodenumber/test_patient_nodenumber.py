from pathlib import Path

import pytest

from mooring.framework import PermitWait
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin

PatientNodeNumber = load_plugin("PatientNodeNumber", Path(__file__).with_name("patient_nodenumber.py"))


def test_scores():
    nodes = [make_node("node-1").obj(), make_node("node-2").obj()]
    assert run_plugin(PatientNodeNumber, make_pod("web-2").obj(), nodes=nodes).scores == {"node-1": 0, "node-2": 10}


@pytest.mark.parametrize(("node", "expected"), [("node-3", PermitWait(10, allow_after=3)), ("node-x", None)])
def test_the_pod_waits_as_many_seconds_as_the_digit(node, expected):
    plugin = PluginHarness(PatientNodeNumber).plugin
    assert plugin.permit(None, make_pod("web").obj(), node) == expected
