from pathlib import Path

import pytest

from mooring.framework import DeviceAllocation, NodeDevice
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_pod

SpareLargeGpus = load_plugin("SpareLargeGpus", Path(__file__).with_name("spare_large_gpus.py"))
DEVICES = (*(NodeDevice(driver="gpu", attributes={"gibibytes": size}) for size in (80, 40)), NodeDevice())


@pytest.mark.parametrize(
    ("chosen", "priority", "score"), [((0,), 0, 20), ((1,), 0, 60), ((0, 1), 0, 20), ((2,), 0, 0), ((1,), 1000, 0)]
)
def test_small_gpus_are_preferred(chosen, priority, score):
    after = tuple(place not in chosen for place in range(3))
    allocation = DeviceAllocation(devices=DEVICES, chosen=chosen, free_before=(True,) * 3, free_after=after)
    pod = make_pod("p").priority(priority).obj()
    assert PluginHarness(SpareLargeGpus).plugin.score_allocation(pod, allocation) == pytest.approx(score)
