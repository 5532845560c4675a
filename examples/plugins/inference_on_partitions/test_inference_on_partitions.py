from pathlib import Path

import pytest

from mooring.framework import DeviceAllocation, NodeDevice
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_pod

InferenceOnPartitions = load_plugin("InferenceOnPartitions", Path(__file__).with_name("inference_on_partitions.py"))
#: A GPU without partitions, and two GPUs with a profile for the whole GPU and two halves each.
DEVICES = (NodeDevice(), *(NodeDevice(counter_sets=(gpu,)) for gpu in ("a", "a", "a", "b", "b", "b")))


def score(labels, before, after):
    """``f`` stands for a free device, ``c`` for a chosen one."""
    allocation = DeviceAllocation(
        devices=DEVICES,
        chosen=(after.index("c"),),
        free_before=tuple(each == "f" for each in before),
        free_after=tuple(each == "f" for each in after),
    )
    return PluginHarness(InferenceOnPartitions).plugin.score_allocation(make_pod("p").label(labels).obj(), allocation)


@pytest.mark.parametrize(
    ("labels", "scores"),
    [({"workload": "inference"}, [50, 75, 100]), ({"workload": "training"}, [100, 0, 0]), ({}, [100, 0, 0])],
)
def test_pods_get_their_kind_of_device(labels, scores):
    cases = [("ffff--f", "cfff--f"), ("ffff--f", "f-cf--f"), ("ffff--f", "ffff--c")]
    assert [score(labels, before, after) for before, after in cases] == scores
