"""Ascend NPUs of which pods get whole ones or parts (vNPU, with HAMi's device plugin): those of a node, and for a pod.

A part has the memory of one of the templates of the NPU's type. Several NPUs for a container are always whole.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_config import NpuKind
from mooring.batch.device_pools import MOST_DEVICES, Fit, Policy, Request, amount, integer, requests_of

_PREFIX: Final = "hami.io"
#: NPUs of these types are connected by networks; those of a container should be in one.
_WITH_NETWORKS: Final = "Ascend910"
_NETWORK: Final = "NetworkID"
_NETWORK_WEIGHT: Final = 10
_NONE: Final = Fit("no ascend device available", final=True)
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Registered(msgspec.Struct, frozen=True):
    """An NPU as the device plugin registers it."""

    id: str = ""
    index: Annotated[int, msgspec.Meta(ge=0)] = 0
    count: _Int32 = 0
    devmem: _Int32 = 0
    devcore: _Int32 = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    health: bool = False
    devicevendor: str = ""
    custominfo: dict[str, Any] | None = None


class _Npu:
    """An NPU and what is used of it: memory and cores by the uid of the pod."""

    __slots__ = ("known", "network", "used_cores", "used_memory", "users")

    def __init__(self, known: _Registered) -> None:
        self.known = known
        self.network = (known.custominfo or {}).get(_NETWORK)
        self.used_memory = self.used_cores = 0
        self.users: dict[str, tuple[int, int]] = {}

    def rank(self, policy: Policy) -> float:
        """Return the NPU's score. As in Volcano, spread prefers those with one pod."""
        if policy == "binpack":
            return 100 * (self.used_memory / self.known.devmem) if self.known.devmem else 0.0
        return 100.0 if policy == "spread" and len(self.users) == 1 else 0.0

    def has(self, memory: int) -> bool:
        """Return whether one more pod can use this much memory."""
        known = self.known
        if known.count <= len(self.users) or known.devmem - self.used_memory < memory:
            return False
        return known.devcore > self.used_cores or known.devcore == self.used_cores == 0


class _Part(NamedTuple):
    """The part of an NPU that a container gets, as in the annotation."""

    npu: str
    memory: int
    cores: int


class SharedNpus:
    """The NPUs of a node of one type."""

    def __init__(self, name: str, kind: NpuKind, npus: Iterable[_Npu]) -> None:
        self._name = name
        self._kind = kind
        self._npus = {npu.known.id: npu for npu in npus}
        self._networks = kind.common_word.startswith(_WITH_NETWORKS) and all(
            _NETWORK in (npu.known.custominfo or {}) for npu in self._npus.values()
        )

    @classmethod
    def of(cls, node: Node, kind: NpuKind) -> SharedNpus | None:
        """Return the NPUs that the device plugin registered; None if the node has none."""
        text = node.annotations.get(f"{_PREFIX}/node-register-{kind.common_word}")
        if text is None or not amount(node.status.allocatable, kind.resource_name):
            return None
        found = _registered(text)
        return cls(node.name, kind, map(_Npu, found)) if found else None

    def add(self, pod: Pod) -> None:
        """Count the parts that the pod's annotations name. Volcano does not count those of the second container on."""
        for part in _parts_of(pod.annotations.get(self._allocated, "")):
            npu = self._npus.get(part.npu)
            if npu is not None and pod.uid not in npu.users:
                npu.users[pod.uid] = part.memory, part.cores
                npu.used_memory += part.memory
                npu.used_cores += part.cores

    def remove(self, pod: Pod) -> None:
        """Free the parts of a pod."""
        for npu in self._npus.values():
            memory, cores = npu.users.pop(pod.uid, (0, 0))
            npu.used_memory -= memory
            npu.used_cores -= cores

    @property
    def _allocated(self) -> str:
        return f"{_PREFIX}/{self._kind.common_word}-devices-allocated"

    def fit(self, pod: Pod, policy: Policy) -> Fit:
        """Return the NPUs for a pod: each container gets others."""
        ranked = sorted(self._npus.values(), key=lambda npu: -npu.rank(policy))
        chosen: list[tuple[int, list[_Npu]]] = []
        taken: set[str] = set()
        for request in requests_of(pod, self._kind.resource_name, self._kind.resource_memory_name):
            memory = self._memory(request, ranked[0])
            if memory is None:
                return _NONE
            free = [npu for npu in ranked if npu.known.id not in taken and npu.has(memory)]
            npus = self._choose(free, max(request.devices, 1))
            if not npus:
                return _NONE
            taken.update(npu.known.id for npu in npus)
            chosen.append((memory, npus))
        return Fit("", self._score([npus[0] for _, npus in chosen], policy), self._annotations(chosen))

    def _memory(self, request: Request, first: _Npu) -> int | None:
        """Return the memory of each NPU for a request; None if no NPU has it, or for several parts."""
        wanted = first.known.devmem if request.percent is not None else request.memory
        memory = self._kind.part(wanted)[0] if wanted > 0 else wanted
        if wanted > 0 and not memory:
            return None
        if request.devices > 1 and self._kind.part(memory)[0] != self._kind.memory_allocatable:
            return None
        return memory

    def _choose(self, free: list[_Npu], count: int) -> list[_Npu]:
        """Return this many NPUs, from the networks with the most free ones; none if there are too few."""
        if self._networks:
            by_network: dict[int, list[_Npu]] = {}
            for npu in free:
                if isinstance(npu.network, int | float) and not isinstance(npu.network, bool):
                    by_network.setdefault(int(npu.network), []).append(npu)
            free = [npu for each in sorted(by_network.values(), key=lambda each: -len(each)) for npu in each]
        return free[:count] if len(free) >= count else []

    def _score(self, npus: list[_Npu], policy: Policy) -> float:
        score = sum(npu.rank(policy) for npu in npus)
        if self._networks and npus:
            networks = [int(npu.network or 0) for npu in npus]
            score += max(map(networks.count, networks)) / len(networks) * _NETWORK_WEIGHT
        return score

    def _annotations(self, chosen: list[tuple[int, list[_Npu]]]) -> dict[str, str]:
        word = self._kind.common_word
        encoded = "".join(
            "".join(f"{npu.known.id},{word},{memory},0:" for npu in npus) + ";" for memory, npus in chosen
        )
        parts = [(npu.known.id, self._kind.part(memory)[1]) for memory, npus in chosen for npu in npus]
        shown = [{"UUID": npu} | ({"temp": name} if name else {}) for npu, name in parts]
        return {
            f"{_PREFIX}/{word}-devices-to-allocate": encoded,
            self._allocated: encoded,
            f"huawei.com/{word}": _go_json(shown),
        }

    def bind_annotations(self, assigned: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the annotations with which a pod is bound, so that the device plugin gives it the assigned NPUs."""
        seconds = str(int(now))
        return {
            **assigned,
            "predicate-time": seconds,
            f"{_PREFIX}/vgpu-node": self._name,
            f"{_PREFIX}/vgpu-time": seconds,
            f"{_PREFIX}/bind-phase": "allocating",
            f"{_PREFIX}/bind-time": seconds,
        }


def _go_json(value: object) -> str:
    """Return JSON as Go writes it: some characters are escaped."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@functools.lru_cache(maxsize=4096)
def _registered(text: str) -> tuple[_Registered, ...]:
    """Return the NPUs of an annotation of a node; none if it cannot be parsed. Of equal ids the last one counts."""
    try:
        found = msgspec.json.decode(text, type=list[_Registered])
    except (ValueError, RecursionError):
        return ()
    return tuple({each.id: each for each in found[:MOST_DEVICES]}.values())


@functools.lru_cache(maxsize=4096)
def _parts_of(text: str) -> tuple[_Part, ...]:
    """Return the parts that an annotation of a pod names, of all containers; none if it cannot be parsed."""
    found = []
    for entry in text.replace(";", ":").split(":", MOST_DEVICES)[:MOST_DEVICES]:
        items = entry.split(",", 4)
        if len(items) == 1:
            continue
        if len(items) < 4:
            return ()
        found.append(_Part(items[0], integer(items[2]), integer(items[3])))
    return tuple(found)
