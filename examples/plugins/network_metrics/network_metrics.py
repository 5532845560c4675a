from collections import Counter, defaultdict
from typing import Annotated

import numpy as np
import numpy.typing as npt

from mooring.framework import (
    CustomResource,
    CycleState,
    Lister,
    Meta,
    Nodes,
    Plugin,
    Pod,
    PodInfo,
    Status,
    Verdicts,
)

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]

TOO_FAR = Status.unschedulable("node(s) were too far from the pods that this pod talks to")
Matrix = Annotated[dict[str, dict[str, float]], Meta(examples=[{"node-1": {"node-2": 5}}])]


class NetworkMetrics(
    CustomResource, group="network.example.com", version="v1", plural="networkmetrics", short_names=("nm",)
):
    """Measurements between nodes: source, target, value."""

    class Spec:
        class Metrics:
            bandwidth: Annotated[Matrix, Meta(description="Mbit/s from a node to another.")] = {}
            latency: Annotated[Matrix, Meta(description="Milliseconds from a node to another.")] = {}

        metrics: Metrics

    spec: Spec


class NetworkAwareArgs:
    #: Pods with the same value of this label communicate with each other.
    label: str = "network.example.com/group"
    namespace: str = "kube-system"
    name: str = "cluster-metrics"
    max_latency_ms: float | None = None
    min_bandwidth_mbps: float | None = None


class NetworkAware(Plugin[NetworkAwareArgs]):
    """Places pods that communicate with each other on nodes with a low latency. Evaluates all nodes at once."""

    metrics = Lister(NetworkMetrics)
    volumes_only = False  # subscribe to all pods, not only to those with volumes

    def setup(self) -> None:
        #: Group -> node name -> number of pods.
        self.peers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.made_of: tuple[int, int] | None = None
        self.handle.listen(self)  # calls pod_added for all pods on nodes, then for each change

    # An index that pod events maintain

    def pod_added(self, info: PodInfo, row: int) -> None:
        self._count(info, row, 1)

    def pod_removed(self, info: PodInfo, row: int) -> None:
        self._count(info, row, -1)

    def _count(self, info: PodInfo, row: int, change: int) -> None:
        group = info.pod.labels.get(self.args.label)
        if group is not None:
            nodes = self.peers[group]
            name = self.handle.table.nodes[row].name
            nodes[name] += change
            if not nodes[name]:
                del nodes[name]

    # Extension points

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        peers = self._peers(pod)
        if not len(peers):
            return None
        places, far = nodes.take(self.places), np.zeros(len(nodes), dtype=bool)
        if self.args.max_latency_ms is not None:
            far |= (self.latency[peers][:, places] > self.args.max_latency_ms).any(axis=0)
        if self.args.min_bandwidth_mbps is not None:
            far |= (self.bandwidth[peers][:, places] < self.args.min_bandwidth_mbps).any(axis=0)
        return Verdicts.reject(far, TOO_FAR)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        peers = self._peers(pod)
        if not len(peers):
            return 0
        worst = np.nanmax(self.latency, initial=0.0, where=np.isfinite(self.latency))
        latency: Floats = np.minimum(self.latency[peers][:, nodes.take(self.places)], worst).mean(axis=0)
        return (1000 * latency).astype(np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        lowest, highest = int(scores.min()), int(scores.max())
        return 100 * (highest - scores) // max(highest - lowest, 1)

    def _peers(self, pod: Pod) -> Places:
        """Return the matrix indexes of the nodes with pods of the same group."""
        group = pod.labels.get(self.args.label)
        names = self.peers.get(group) if group is not None else None
        if not names or not self._read():
            return np.zeros(0, dtype=np.intp)
        return np.array([self.place_of[name] for name in names if name in self.place_of], dtype=np.intp)

    def _read(self) -> bool:
        """Read the measurements into matrices if they or the nodes changed. Return False if there are none."""
        found = self.metrics.get(self.args.name, self.args.namespace)
        if found is None:
            return False
        table = self.handle.table
        made_of = (self.metrics.version, table.structure)
        if made_of != self.made_of:
            measured = found.spec.metrics
            names = sorted({*measured.latency, *measured.bandwidth})
            self.place_of = {name: place for place, name in enumerate(names)}
            # Matrix index by table row; the last index is for nodes without measurements.
            self.places = np.array([self.place_of.get(node.name, len(names)) for node in table.nodes], dtype=np.intp)
            self.latency = self._matrix(measured.latency, unknown=np.inf, same=0.0)
            self.bandwidth = self._matrix(measured.bandwidth, unknown=0.0, same=np.inf)
            self.made_of = made_of
        return True

    def _matrix(self, measured: dict[str, dict[str, float]], *, unknown: float, same: float) -> Floats:
        """Return measurements as a matrix."""
        size = len(self.place_of)
        made = np.full((size + 1, size + 1), unknown)
        np.fill_diagonal(made[:size, :size], same)
        for source, targets in measured.items():
            for target, value in targets.items():
                if target in self.place_of:
                    made[self.place_of[source], self.place_of[target]] = value
        return made
