"""Devices that pods share: what all kinds of them have in common, and amounts in annotations.

Device plugins register the devices of a node, and scheduler and device plugins exchange the devices of a pod, in
annotations. Users can write those of pods: what cannot be parsed is left out, and amounts are never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, Protocol

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import value

#: At most this many devices of a node, or of a pod, are read.
MOST_DEVICES: Final = 1024
_INT32: Final = 2**31 - 1

Policy = Literal["", "binpack", "spread"]


class Fit(NamedTuple):
    """Whether a pod fits: the annotations that assign devices to it and the score of the node, or a reason.

    ``final`` means that evictions on the node do not help, as in Volcano. ``reduced`` means that the pod gets less than
    it requested, as far as it permits.
    """

    reason: str = ""
    score: float = 0.0
    annotations: Mapping[str, str] = {}
    final: bool = False
    reduced: bool = False


class Pool(Protocol):
    """The devices of a node of one kind."""

    def add(self, pod: Pod) -> None:
        """Count the devices that the pod's annotations name."""

    def remove(self, pod: Pod) -> None:
        """Free the devices of a pod."""

    def fit(self, pod: Pod, policy: Policy) -> Fit:
        """Return the devices for a pod."""

    def bind_annotations(self, assigned: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the annotations with which a pod is bound, so that the device plugin gives it these devices."""


class DeviceKind(NamedTuple):
    """A kind of devices.

    Attributes:
        name: Its name in Volcano.
        requested: The resources that request such a device.
        pool: Returns the devices of a node; None if it has none.
        uncounted: Resources that nodes do not offer as amounts: only the pool of a node knows what is free.
        lock: The annotation of a node that locks it while a device plugin assigns devices; empty if there is none.
        keeps_lock: Whether the device plugin removes the lock. Otherwise the scheduler does, before the bind.
        for_init: Whether init containers get devices too.
        label: The label that pods must have, and its value, to get such devices.
        idle: The resource of which a node must have idle what a pod requests: evictions do not help.
    """

    name: str
    requested: frozenset[str]
    pool: Callable[[Node], Pool | None]
    uncounted: frozenset[str] = frozenset()
    lock: str = ""
    keeps_lock: bool = False
    for_init: bool = False
    label: tuple[str, str] | None = None
    idle: str = ""

    def asked_by(self, pod: Pod) -> bool:
        """Return whether a container requests such a device."""
        if self.label is not None and pod.labels.get(self.label[0]) != self.label[1]:
            return False
        containers = (*pod.spec.containers, *pod.spec.init_containers) if self.for_init else pod.spec.containers
        return any(not self.requested.isdisjoint(each.resources.limits) for each in containers)


class Request(NamedTuple):
    """What a container requests: a number of devices, and of each some memory and per cent of its cores.

    ``percent`` is a share of the memory, which then counts instead of ``memory``; None if there is none.
    """

    devices: int
    memory: int
    percent: int | None
    cores: int


#: In Volcano, this share of the memory means that none is given.
_NO_PERCENT: Final = 101


def requests_of(pod: Pod, count: str, memory: str, percent: str = "", cores: str = "") -> list[Request]:
    """Return the requests of a pod's containers, by their limits, given the names of the resources."""
    found = []
    for container in pod.spec.containers:
        limits, requests = container.resources.limits, container.resources.requests
        if count not in limits and memory not in limits:
            continue
        wanted = amount(limits, count) if count in limits else 1
        size = amount(limits if memory in limits else requests, memory)
        share = _NO_PERCENT
        if percent and (percent in limits or percent in requests):
            share = amount(limits if percent in limits else requests, percent)
        if share == _NO_PERCENT and not size:
            share = 100
        busy = amount(limits if cores in limits else requests, cores) if cores else 0
        found.append(Request(wanted, size, None if share == _NO_PERCENT else share, busy))
    return found


def amount(amounts: Mapping[str, object], resource: str) -> int:
    """Return an amount as a whole number between 0 and the greatest 32-bit integer; 0 if it is missing or invalid."""
    try:
        return min(max(value(str(amounts[resource])), 0), _INT32) if resource in amounts else 0
    except ValueError:
        return 0


def integer(text: str) -> int:
    """Parse a number of an annotation; 0 if it is none, or negative."""
    return min(int(text), _INT32) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
