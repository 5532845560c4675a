from pathlib import Path

import pytest

from mooring.framework import PermitWait
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin

FILE = Path(__file__).with_name("nodenumber.py")
NodeNumber, PatientNodeNumber = (load_plugin(name, FILE) for name in ("NodeNumber", "PatientNodeNumber"))
NODES = [make_node("node-1").obj(), make_node("node-2").obj()]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (None, {"node-1": 0, "node-2": 10}),
        ({"reverse": True}, {"node-1": 10, "node-2": 0}),
    ],
)
def test_scores(args, expected):
    assert run_plugin(NodeNumber, make_pod("web-2").obj(), nodes=NODES, args=args).scores == expected


@pytest.mark.parametrize(("node", "expected"), [("node-3", PermitWait(10, allow_after=3)), ("node-x", None)])
def test_the_patient_plugin_waits_for_the_digit_in_seconds(node, expected):
    plugin = PluginHarness(PatientNodeNumber).plugin
    assert plugin.permit(None, make_pod("web").obj(), node) == expected
