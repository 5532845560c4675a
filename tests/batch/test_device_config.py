"""The ConfigMap of the device plugins."""

from __future__ import annotations

import pytest

from mooring.batch.device_config import DEFAULT, DeviceConfigError, config_of

NPU = """
- commonWord: Ascend910B3
  resourceName: huawei.com/Ascend910B3
  resourceMemoryName: huawei.com/Ascend910B3-memory
  memoryAllocatable: 65536
  memoryCapacity: 65536
  templates: [{name: large, memory: 32768, aiCore: 10}, {name: small, memory: 16384}]
"""


@pytest.mark.parametrize(
    "text", ["vnpus:" + NPU, "vnpus:\n  hamiVnpuCore: false\n  configs:" + NPU.replace("\n", "\n  ")]
)
def test_both_forms_of_npus(text: str) -> None:
    (kind,) = config_of({"device-config.yaml": text}).npus
    assert kind.common_word == "Ascend910B3"
    assert [each.name for each in kind.templates] == ["small", "large"]
    assert kind.requested == {"huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory"}


def test_a_file_replaces_all_defaults() -> None:
    found = config_of({"device-config.yaml": "nvidia:\n  resourceCountName: a.b/c\n  overwriteEnv:\n"})
    assert found.gpu.names == found.gpu.requested == {"a.b/c"}
    assert found.npus == ()
    assert config_of({"device-config.yaml": ""}).gpu.names == frozenset()


def test_geometries_by_model() -> None:
    text = "nvidia: {knownMigGeometries: [{models: [A30, A100], allowedGeometries: [{group: g, geometries: []}]}]}"
    gpu = config_of({"device-config.yaml": text}).gpu
    assert [each.group for each in gpu.geometries("NVIDIA-A100-PCIE") or ()] == ["g"]
    assert gpu.geometries("NVIDIA-T4") is None


@pytest.mark.parametrize(
    ("memory", "part"),
    [(1, (3072, "vir01")), (3072, (3072, "vir01")), (3073, (6144, "vir02")), (12289, (21527, "")), (24577, (0, ""))],
)
def test_the_part_of_an_npu(memory: int, part: tuple[int, str]) -> None:
    assert DEFAULT.npus[0].part(memory) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nvidia: 3", "nvidia"),
        ("vnpus: text", "vnpus"),
        ("nvidia: {gpuMemoryFactor: -1}", "gpuMemoryFactor"),
        ("a: [", "device-config.yaml"),
        ("[" * 5000, "device-config.yaml"),
    ],
)
def test_invalid_files_name_the_field(text: str, message: str) -> None:
    with pytest.raises(DeviceConfigError, match=message):
        config_of({"device-config.yaml": text})


def test_the_key_is_required() -> None:
    with pytest.raises(DeviceConfigError, match=r"device-config\.yaml is missing"):
        config_of({})
