"""The kinds of devices that arguments enable."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.arguments import Arguments
from mooring.batch.conf import BatchConf, read_conf
from mooring.batch.device_config import DEFAULT
from mooring.batch.device_kinds import config_map_place, device_kinds, enabled_devices
from mooring.batch.plugins import PLUGINS
from tests.batch.cases import conf


def arguments(*names: str) -> dict[str, Any]:
    return {f"deviceshare.{name}": True for name in names}


def configured(*names: str, plugin: str = "deviceshare") -> BatchConf:
    given = {plugin: "{" + ", ".join(f"deviceshare.{name}: true" for name in names) + "}"}
    text = conf(("gang",), ("predicates", plugin), **given)
    return read_conf(text, source="", actions=ACTIONS, plugins=PLUGINS, both_spellings=False)


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        ((), []),
        (("VGPUEnable",), ["hamivgpu"]),
        (("GPUSharingEnable",), ["GpuShare"]),
        (("AscendHAMiVNPUEnable", "GPUNumberEnable"), ["GpuShare", "Ascend310P"]),
        (("AscendHAMiVNPUEnable", "VGPUEnable"), ["hamivgpu", "Ascend310P"]),
        (("GPUNumberEnable", "VGPUEnable", "AscendHAMiVNPUEnable"), ["Ascend310P"]),
        (("AscendMindClusterVNPUEnable",), ["ascend310p-vNPU"]),
    ],
)
def test_kinds(names: tuple[str, ...], kinds: list[str]) -> None:
    assert [kind.name for kind in device_kinds(Arguments(arguments(*names)), DEFAULT)] == kinds


def test_memory_of_npus_is_not_counted() -> None:
    found = enabled_devices(configured("AscendHAMiVNPUEnable"), DEFAULT)
    assert found.arguments == {"AscendHAMiVNPUEnable"}
    assert found.uncounted == {"huawei.com/Ascend310P-memory"}
    assert enabled_devices(configured("VGPUEnable"), DEFAULT).uncounted == frozenset()
    assert enabled_devices(configured(plugin="drf"), DEFAULT).arguments == frozenset()


def test_the_place_of_the_config_map() -> None:
    assert config_map_place(configured("VGPUEnable")) == ("kube-system", "volcano-vgpu-device-config")
    assert config_map_place(configured(plugin="drf")) == ("", "")
