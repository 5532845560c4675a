"""The ConfigMap of Volcano's device plugins: resource names of vGPUs, MIG geometries, and the types of NPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from mooring.api.yaml_nodes import ReadError
from mooring.api.yaml_reader import read_documents
from mooring.batch.mindcluster_reports import NpuReports

#: Where the ConfigMap is by default, and the key of its data.
CONFIG_MAP: Final = "volcano-vgpu-device-config"
CONFIG_MAP_NAMESPACE: Final = "kube-system"
CONFIG_MAP_KEY: Final = "device-config.yaml"

_Unsigned = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Signed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class DeviceConfigError(Exception):
    """The ConfigMap cannot be read. The message names the field."""


class _Section(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the file. Unknown keys are ignored, as in Volcano."""


class MigInstance(_Section, frozen=True):
    """Equal parts of a card: their name, the memory of each, and how many there are."""

    name: str = ""
    memory: _Unsigned = 0
    count: _Signed = 0


class MigGeometry(_Section, frozen=True):
    """A way to divide a card into instances."""

    group: str = ""
    instances: tuple[MigInstance, ...] = msgspec.field(default=(), name="geometries")


class MigModels(_Section, frozen=True):
    """The geometries of some models of cards."""

    models: tuple[str, ...] = ()
    geometries: tuple[MigGeometry, ...] = msgspec.field(default=(), name="allowedGeometries")


class GpuConfig(_Section, frozen=True):
    """The resources with which pods request vGPUs (empty: none), and the MIG geometries."""

    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_memory_percentage_name: str = ""
    resource_core_name: str = ""
    gpu_memory_factor: _Unsigned = 0
    known_mig_geometries: tuple[MigModels, ...] = ()

    def geometries(self, kind: str) -> tuple[MigGeometry, ...] | None:
        """Return the geometries of a type of card; None if the type is not known."""
        for each in self.known_mig_geometries:
            if any(model in kind for model in each.models):
                return each.geometries
        return None

    @property
    def requested(self) -> frozenset[str]:
        """The resources that request a card."""
        return frozenset((self.resource_count_name, self.resource_memory_name)) - {""}

    @property
    def names(self) -> frozenset[str]:
        """All resources of vGPUs."""
        return (self.requested | {self.resource_memory_percentage_name, self.resource_core_name}) - {""}


class NpuTemplate(_Section, frozen=True):
    """A part of an NPU that a pod can get."""

    name: str = ""
    memory: _Signed = 0


class NpuKind(_Section, frozen=True):
    """A type of NPU: the resources with which pods request it, and its parts by ascending memory."""

    common_word: str = ""
    resource_name: str = ""
    resource_memory_name: str = ""
    memory_allocatable: _Signed = 0
    memory_capacity: _Signed = 0
    templates: tuple[NpuTemplate, ...] = ()

    @property
    def requested(self) -> frozenset[str]:
        """The resources that request such an NPU."""
        return frozenset((self.resource_name, self.resource_memory_name)) - {""}

    def part(self, memory: int) -> tuple[int, str]:
        """Return the memory and the name of the smallest part with this memory; a whole NPU has no name.

        More memory than an NPU has gives 0.
        """
        for each in self.templates:
            if memory <= each.memory:
                return each.memory, each.name
        return (self.memory_allocatable, "") if memory <= self.memory_capacity else (0, "")


class DeviceConfig(msgspec.Struct, frozen=True):
    """What the ConfigMap says, and what MindCluster reports about the NPUs of nodes."""

    gpu: GpuConfig
    npus: tuple[NpuKind, ...] = ()
    reports: NpuReports = NpuReports()


#: What applies without the ConfigMap, as in Volcano.
DEFAULT: Final = DeviceConfig(
    GpuConfig(
        resource_count_name="volcano.sh/vgpu-number",
        resource_memory_name="volcano.sh/vgpu-memory",
        resource_core_name="volcano.sh/vgpu-cores",
    ),
    (
        NpuKind(
            common_word="Ascend310P",
            resource_name="huawei.com/Ascend310P",
            resource_memory_name="huawei.com/Ascend310P-memory",
            memory_allocatable=21527,
            memory_capacity=24576,
            templates=(NpuTemplate("vir01", 3072), NpuTemplate("vir02", 6144), NpuTemplate("vir04", 12288)),
        ),
    ),
)


class _Npus(_Section, frozen=True):
    configs: tuple[NpuKind, ...] = ()


class _File(_Section, frozen=True):
    nvidia: GpuConfig = GpuConfig()
    vnpus: _Npus | tuple[NpuKind, ...] = ()


def config_of(data: Mapping[str, Any]) -> DeviceConfig:
    """Read the data of the ConfigMap. Raises DeviceConfigError."""
    text = data.get(CONFIG_MAP_KEY)
    if not isinstance(text, str):
        raise DeviceConfigError(f"the key {CONFIG_MAP_KEY} is missing")
    try:
        value = next(iter(read_documents(text)), None)
        found = msgspec.convert({} if value is None else _without_nulls(value), _File)
    except (ReadError, msgspec.ValidationError, RecursionError) as error:
        raise DeviceConfigError(f"{CONFIG_MAP_KEY}: {error}") from None
    kinds = found.vnpus.configs if isinstance(found.vnpus, _Npus) else found.vnpus
    replace = msgspec.structs.replace
    return DeviceConfig(
        found.nvidia,
        tuple(replace(kind, templates=tuple(sorted(kind.templates, key=lambda each: each.memory))) for kind in kinds),
    )


def _without_nulls(value: Any) -> Any:
    """Leave out keys without a value: they have their defaults."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
