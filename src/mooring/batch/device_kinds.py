"""The kinds of shared devices that the arguments of the plugin deviceshare enable."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from mooring.batch.arguments import Arguments
from mooring.batch.conf import BatchConf
from mooring.batch.device_config import CONFIG_MAP, CONFIG_MAP_NAMESPACE, DeviceConfig
from mooring.batch.device_pools import DeviceKind
from mooring.batch.mindcluster_npus import NPU_CORES, NPU_LABEL, MindClusterNpus
from mooring.batch.shared_gpus import SharedCards, exclusive_rules
from mooring.batch.shared_npus import SharedNpus
from mooring.batch.whole_gpus import GPU_MEMORY, GPU_NUMBER, WholeCards

DEVICE_PLUGIN: Final = "deviceshare"
VGPU: Final = "VGPUEnable"
GPU_SHARING: Final = "GPUSharingEnable"
GPU_NUMBERS: Final = "GPUNumberEnable"
NPU: Final = "AscendHAMiVNPUEnable"
MINDCLUSTER: Final = "AscendMindClusterVNPUEnable"
#: The ways to share GPUs, which exclude each other.
_GPUS: Final = (VGPU, GPU_SHARING, GPU_NUMBERS)


class EnabledDevices(NamedTuple):
    """What sessions can assign.

    Attributes:
        arguments: The arguments of the plugin deviceshare that are true and supported.
        config: The ConfigMap of the device plugins.
        requested: The resources that request a device.
        uncounted: The resources that nodes do not offer as amounts, so that sessions must not compare them.
    """

    arguments: frozenset[str]
    config: DeviceConfig
    requested: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()


def enabled_devices(conf: BatchConf, config: DeviceConfig) -> EnabledDevices:
    """Return what sessions with this configuration can assign; nothing without the plugin."""
    option = next((option for option in conf.options() if option.name == DEVICE_PLUGIN), None)
    if option is None:
        return EnabledDevices(frozenset(), config)
    arguments = Arguments(option.arguments)
    kinds = device_kinds(arguments, config)
    requested = frozenset(name for kind in kinds for name in kind.requested)
    uncounted = frozenset(name for kind in kinds for name in kind.uncounted)
    return EnabledDevices(_enabled(arguments), config, requested, uncounted)


def config_map_place(conf: BatchConf) -> tuple[str, str]:
    """Return the namespace and the name of the ConfigMap of the device plugins; empty without the plugin."""
    arguments = _arguments(conf)
    if arguments is None:
        return "", ""
    return (
        arguments.text("deviceshare.KnownGeometriesCMNamespace", CONFIG_MAP_NAMESPACE),
        arguments.text("deviceshare.KnownGeometriesCMName", CONFIG_MAP),
    )


def reads_reports(conf: BatchConf) -> bool:
    """Return whether the plugin is configured to assign NPUs of MindCluster."""
    arguments = _arguments(conf)
    return arguments is not None and MINDCLUSTER in _enabled(arguments)


def locks_nodes(conf: BatchConf) -> bool:
    """Return whether the plugin is configured to lock nodes."""
    arguments = _arguments(conf)
    return arguments is not None and arguments.boolean("deviceshare.NodeLockEnable", False)


def _arguments(conf: BatchConf) -> Arguments | None:
    """Return the arguments of the plugin; None if it is not configured."""
    option = next((option for option in conf.options() if option.name == DEVICE_PLUGIN), None)
    return None if option is None else Arguments(option.arguments)


def _enabled(arguments: Arguments) -> frozenset[str]:
    """Return the arguments that are true and supported. Of the ways to share GPUs, several count as none."""
    given = {name for name in (*_GPUS, NPU, MINDCLUSTER) if arguments.boolean(f"deviceshare.{name}", False)}
    return frozenset(given if len(given.intersection(_GPUS)) <= 1 else given.difference(_GPUS))


def device_kinds(arguments: Arguments, config: DeviceConfig) -> tuple[DeviceKind, ...]:
    """Return the kinds of devices, in the order in which Volcano assigns them."""
    chosen = _enabled(arguments)
    found: list[DeviceKind] = []
    if GPU_SHARING in chosen:
        whole = functools.partial(WholeCards.of, by_number=False)
        wanted = frozenset((GPU_MEMORY,))
        found.append(DeviceKind("GpuShare", wanted, whole, lock="gpu", keeps_lock=True, for_init=True))
    if GPU_NUMBERS in chosen:
        whole = functools.partial(WholeCards.of, by_number=True)
        found.append(DeviceKind("GpuShare", frozenset((GPU_NUMBER,)), whole, for_init=True))
    if VGPU in chosen:
        rules = exclusive_rules(arguments.get("deviceshare.GPUExclusiveRules"))
        shared = functools.partial(SharedCards.of, config=config.gpu, rules=rules)
        found.append(DeviceKind("hamivgpu", config.gpu.requested, shared, lock="hamivgpu", keeps_lock=True))
    if MINDCLUSTER in chosen:
        cores = functools.partial(MindClusterNpus.of, reports=config.reports)
        wanted = frozenset((NPU_CORES,))
        found.append(DeviceKind("ascend310p-vNPU", wanted, cores, label=NPU_LABEL, idle=NPU_CORES))
    if NPU in chosen:
        known: dict[str, DeviceKind] = {}
        for kind in config.npus:
            word, memory = kind.common_word, frozenset((kind.resource_memory_name,)) - {""}
            npus = functools.partial(SharedNpus.of, kind=kind)
            known[word] = DeviceKind(word, kind.requested, npus, uncounted=memory, lock=word)
        found += known.values()
    return tuple(found)
