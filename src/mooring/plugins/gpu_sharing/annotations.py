"""The GPU requests of pods and the GPUs of nodes, as GPU-sharing device plugins declare them.

Users write annotations, so values are checked here: a request that cannot be read is an error of the pod, and a GPU
index that does not exist is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.plugins.gpu_sharing.devices import WHOLE, GpuRequest

#: Alibaba Cloud's open GPU sharing: annotations of a pod, a resource and a label of a node.
MILLI: Final = "alibabacloud.com/gpu-milli"
COUNT: Final = "alibabacloud.com/gpu-count"
MODEL: Final = "alibabacloud.com/gpu-card-model"
#: The GPUs of a pod, such as ``0-1``; the scheduler writes it.
INDEX: Final = "alibabacloud.com/gpu-index"
#: KAI Scheduler and Run:ai: a part of one GPU, such as ``0.5``.
FRACTION: Final = "gpu-fraction"
#: NVIDIA's device plugin and GPU feature discovery.
NVIDIA: Final = "nvidia.com/gpu"
NVIDIA_COUNT: Final = "nvidia.com/gpu.count"
NVIDIA_MODEL: Final = "nvidia.com/gpu.product"

#: The largest number of GPUs of a node.
MOST_GPUS: Final = 64
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_FRACTION: Final = re.compile(r"(0(\.[0-9]{1,6})?|1(\.0{1,6})?|\.[0-9]{1,6})")
_INDEX: Final = re.compile(r"[0-9]{1,3}(-[0-9]{1,3}){0,63}")


class InvalidRequest(ValueError):
    """A GPU request that cannot be read. The message names the annotation and the remedy."""


class NodeGpus(msgspec.Struct, frozen=True):
    """The GPUs of a node."""

    count: int = 0
    model: str = ""


def gpu_request(pod: Pod, requests: Mapping[str, int]) -> GpuRequest:
    """Return what a pod requests; ``requests`` are those of its template. Raises InvalidRequest."""
    annotations = pod.annotations
    cpu = requests.get("cpu", 0)
    models = annotations.get(MODEL, "")
    if MILLI in annotations or COUNT in annotations:
        count = _number(annotations, COUNT, 1, most=MOST_GPUS)
        milli = _number(annotations, MILLI, WHOLE, most=WHOLE) if count else 0
    elif FRACTION in annotations:
        text = annotations[FRACTION]
        if not _FRACTION.fullmatch(text):
            raise InvalidRequest(
                f'annotation {FRACTION}: "{text[:20]}" is not a part of a GPU; write for example "0.5"'
            )
        count, milli = 1, max(round(float(text) * WHOLE), 1)
    else:
        count = requests.get(COUNT, 0) or requests.get(NVIDIA, 0)
        milli = requests.get(MILLI, 0) or WHOLE
        if count > MOST_GPUS or milli > WHOLE:
            raise InvalidRequest(
                f"more than {MOST_GPUS} GPUs, or more than {WHOLE} thousandths of a GPU, are requested"
            )
    if not count or not milli:
        return GpuRequest(cpu=cpu)
    return GpuRequest(cpu=cpu, count=count, milli=milli, models=models)


def _number(annotations: Mapping[str, str], name: str, default: int, *, most: int) -> int:
    text = annotations.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise InvalidRequest(f'annotation {name}: "{text[:20]}" is not a number from 0 to {most}')
    return int(text)


def gpu_index(pod: Pod) -> list[int] | None:
    """Return the GPUs that a pod's annotation names; None if there is none, or it cannot be read."""
    text = pod.annotations.get(INDEX, "")
    return [int(part) for part in text.split("-")] if _INDEX.fullmatch(text) else None


def gpus_of(node: Node, allocatable: Mapping[str, int]) -> NodeGpus:
    """Return the GPUs of a node; ``allocatable`` has the amounts of the resources COUNT and NVIDIA."""
    labels = node.metadata.labels
    count = allocatable.get(COUNT, 0)
    # A device plugin with time slicing reports a multiple of the GPUs as its resource; the label has their number.
    if not count and _NUMBER.fullmatch(labels.get(NVIDIA_COUNT, "")) and allocatable.get(NVIDIA, 0):
        count = int(labels[NVIDIA_COUNT])
    count = count or allocatable.get(NVIDIA, 0)
    return NodeGpus(max(0, min(count, MOST_GPUS)), labels.get(MODEL) or labels.get(NVIDIA_MODEL, ""))
