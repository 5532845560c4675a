"""The over-reserve cache: charges reservations to all zones until a report with the same fingerprint includes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.pod import Pod
from mooring.framework import Lister
from mooring.plugins.node_resource_topology.caches import Changed
from mooring.plugins.node_resource_topology.demand import effective, is_exclusive
from mooring.plugins.node_resource_topology.zones import Nanos, NodeResourceTopology, Topology, read

_PREFIX: Final = "pfp0v001"

_MASK: Final = (1 << 64) - 1

_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given by namespace and name, in any order."""
    hashes = sorted(xxhash64(name.encode(), xxhash64(namespace.encode())) for namespace, name in pods)
    total = xxhash64(b"".join(each.to_bytes(8, "little") for each in hashes))
    return f"{_PREFIX}{total.to_bytes(8, 'big').hex()}"


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 hash."""
    first, second, third, fourth, fifth = _PRIMES
    place, length = 0, len(data)
    if length >= 32:
        lanes = [(seed + first + second) & _MASK, (seed + second) & _MASK, seed, (seed - first) & _MASK]
        while place <= length - 32:
            lanes = [_round(lane, _word(data, place + 8 * number)) for number, lane in enumerate(lanes)]
            place += 32
        total = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * first + fourth) & _MASK
    else:
        total = (seed + fifth) & _MASK
    total = (total + length) & _MASK
    while place <= length - 8:
        total = (_rotated(total ^ _round(0, _word(data, place)), 27) * first + fourth) & _MASK
        place += 8
    if place <= length - 4:
        word = int.from_bytes(data[place : place + 4], "little")
        total = (_rotated(total ^ (word * first & _MASK), 23) * second + third) & _MASK
        place += 4
    for byte in data[place:]:
        total = _rotated(total ^ (byte * fifth & _MASK), 11) * first & _MASK
    for shift, prime in ((33, second), (29, third), (32, 1)):
        total = (total ^ (total >> shift)) * prime & _MASK
    return total


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"

_ATTRIBUTE: Final = "nodeTopologyPodsFingerprint"

_METHOD: Final = "nodeTopologyPodsFingerprintMethod"

_ONLY_EXCLUSIVE: Final = "OnlyExclusiveResources"


class CacheArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of the cache."""

    foreign_pods_detect: str = "All"
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str = "All"


class OverReserve:
    """Topologies minus the requests of reserved pods."""

    def __init__(
        self,
        reports: Lister[NodeResourceTopology],
        pods: Lister[Pod],
        profile: str,
        args: CacheArgs,
        changed: Changed,
    ) -> None:
        self._reports = reports
        self._profile = profile
        self._args = args
        self._changed = changed
        self._on_node = pods.index(lambda pod: pod.node_name or None)
        #: The accepted reports, and the pods that they do not include yet (by name, with their requests).
        self._believed: dict[str, Topology] = {}
        self._assumed: dict[str, dict[str, Nanos]] = {}
        #: Nodes with pods of other schedulers; nodes that rejected a pod; nodes whose kubelet settings changed.
        self._foreign: set[str] = set()
        self._doubtful: set[str] = set()
        self._reconfigured: set[str] = set()
        for report in reports.list():
            self._on_change(None, report)
        reports.listen(self._on_change)
        pods.listen(self._pod_changed)

    def get(self, node_name: str) -> tuple[Topology | None, bool]:
        """Return the last accepted report minus the requests of reserved pods."""
        if node_name in self._foreign:
            return None, False
        believed = self._believed.get(node_name)
        assumed = self._assumed.get(node_name)
        if believed is None or not assumed:
            return believed, True
        taken: Nanos = {}
        for request in assumed.values():
            for name, amount in request.items():
                taken[name] = taken.get(name, 0) + amount
        return believed.without(taken), True

    def reserve(self, node_name: str, pod: Pod) -> None:
        """Charge all zones."""
        self._assumed.setdefault(node_name, {})[pod.key] = effective(pod)
        self._doubtful.discard(node_name)
        self._changed(node_name)

    def unreserve(self, node_name: str, pod: Pod) -> None:
        """Undo the charge."""
        self._assumed.get(node_name, {}).pop(pod.key, None)
        self._changed(node_name)

    def bound(self, node_name: str, pod: Pod) -> None:
        """Keep the charge until a report includes the pod."""

    def rejected(self, node_name: str) -> None:
        """Mark the node for a resync, since zones may be charged too much."""
        self._doubtful.add(node_name)

    # Pods of other schedulers

    def _on_change(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None, /) -> None:
        """Accept the first report; of later ones note only changed kubelet settings."""
        if new is None:
            if old is not None:
                self._forget(old.name)
            return
        name, believed = new.name, self._believed.get(new.name)
        if believed is None:
            self._believed[name] = read(new)
            if any(map(self._is_foreign, self._on_node.get(name))):
                self._foreign.add(name)
            self._changed(name)
        elif self._args.resync_scope == "All" and read(new).settings != believed.settings:
            self._reconfigured.add(name)

    def _forget(self, name: str) -> None:
        self._believed.pop(name, None)
        self._assumed.pop(name, None)
        for names in (self._foreign, self._doubtful, self._reconfigured):
            names.discard(name)
        self._changed(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None, /) -> None:
        pod = new if new is not None else old
        if pod is None or pod.node_name not in self._believed or pod.node_name in self._foreign:
            return
        if self._is_foreign(pod):
            self._foreign.add(pod.node_name)
            self._changed(pod.node_name)

    def _is_foreign(self, pod: Pod) -> bool:
        mode = self._args.foreign_pods_detect
        if mode == "None" or pod.scheduler_name == self._profile:
            return False
        return mode != _ONLY_EXCLUSIVE or is_exclusive(pod)

    # Reports

    def resync(self) -> None:
        """Accept the reports that include all pods, and those with changed kubelet settings."""
        accepted = [name for name in sorted(self._foreign | self._doubtful) if self._is_complete(name)]
        for name in dict.fromkeys((*accepted, *sorted(self._reconfigured))):
            report = self._reports.get(name)
            if report is not None:
                self._forget(name)
                self._believed[name] = read(report)

    def _is_complete(self, name: str) -> bool:
        """Return whether a node's last report includes the pods in the cache."""
        report, pods = self._reports.get(name), self._counted(self._on_node.get(name))
        if report is None or not pods:
            return False
        expected, only_exclusive = self._expected(report)
        if not expected:
            return False
        return expected == fingerprint(
            (pod.namespace, pod.name) for pod in pods if not only_exclusive or is_exclusive(pod)
        )

    def _counted(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that a node's agent reports: the running ones."""
        if self._args.informer_mode == "Shared":
            return [pod for pod in pods if pod.status.phase == "Running"]
        return [pod for pod in pods if pod.status.phase != "Pending"]

    def _expected(self, report: NodeResourceTopology) -> tuple[str, bool]:
        """Return the fingerprint of a report, and whether it covers only pods with exclusive resources."""
        attributes = {attribute.name: attribute.value for attribute in reversed(report.attributes)}
        found = attributes.get(_ATTRIBUTE)
        if found is None:
            return report.metadata.annotations.get(_ANNOTATION, ""), False
        method = self._args.resync_method
        detected = method == "Autodetect" and attributes.get(_METHOD) == "with-exclusive-resources"
        return found, detected or method == _ONLY_EXCLUSIVE
