from pathlib import Path

import pytest

from mooring.framework import DeviceAllocation, NodeDevice
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_pod

PackNvlink = load_plugin("PackNvlink", Path(__file__).with_name("pack_nvlink.py"))
DEVICES = tuple(NodeDevice(driver="gpu", attributes={"nvlinkDomain": domain}) for domain in (0, 0, 0, 0, 1, 1, 1, 1))


def score(*chosen, used=()):
    before = tuple(place not in used for place in range(8))
    after = tuple(free and place not in chosen for place, free in enumerate(before))
    allocation = DeviceAllocation(devices=DEVICES, chosen=chosen, free_before=before, free_after=after)
    return PluginHarness(PackNvlink).plugin.score_allocation(make_pod("p").obj(), allocation)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (score(0, 1), score(3, 4)),  # two GPUs of one domain
        (score(4, 5, used=(6, 7)), score(0, 1, used=(6, 7))),  # the rest of a domain
        (score(0, 1, 2, 3), score(0, 1, 2, 4)),
    ],
)
def test_linked_gpus_are_preferred(better, worse):
    assert 0 <= worse < better <= 100
