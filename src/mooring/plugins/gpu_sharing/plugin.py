"""GpuSharing: the plugin."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.nodes import WhatIfNodes
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    Status,
    Verdicts,
)
from mooring.framework.api_clients import ObjectPatch
from mooring.plugins.gpu_sharing.annotations import (
    COUNT,
    INDEX,
    NVIDIA,
    InvalidRequest,
    gpu_index,
    gpu_request,
    gpus_of,
)
from mooring.plugins.gpu_sharing.candidates import CandidateCache
from mooring.plugins.gpu_sharing.devices import WHOLE, GpuColumns, GpuRequest, kind_bit, tightest_gpus
from mooring.plugins.gpu_sharing.fragmentation import Fragmentation, StateCache, TypicalPod, typical_pods
from mooring.plugins.gpu_sharing.policies import POLICIES, Policy, Random, Setting

Ints = npt.NDArray[np.int64]

_NO_MODEL: Final = Status.unresolvable("node(s) didn't have a requested GPU model")
_NO_ROOM: Final = Status.unschedulable("node(s) didn't have enough room on their GPUs")
#: Expected before any pod was seen.
_WHOLE_GPU: Final = GpuRequest(cpu=1000, count=1, milli=WHOLE)
#: Expected pods are derived again after this many pods, or a tenth of those seen, have arrived.
_RENEW_AFTER: Final = 100
#: At this number of pods, those seen so far count half, so that the expected pods follow the workload.
_HALVE_AT: Final = 50_000
#: The most kinds of pods that are counted. Users may create pods of any kind.
_MOST_KINDS: Final = 4096


class ExpectedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A kind of pod of the expected workload."""

    cpu_milli: int
    gpu_count: int = 0
    gpu_milli: int = WHOLE
    #: Separated by ``|``; empty for any.
    gpu_models: str = ""
    weight: int = 1

    @property
    def typical(self) -> TypicalPod:
        """The kind, as policies expect it."""
        milli = self.gpu_milli if self.gpu_count else 0
        return TypicalPod(
            cpu=self.cpu_milli, count=self.gpu_count, milli=milli, models=self.gpu_models, weight=self.weight
        )


class GpuSharingArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The policy, and the expected workload for FGD and mooring; by default, the pods seen so far."""

    policy: str = "mooring"
    typical_pods: tuple[ExpectedPod, ...] = ()


class GpuSharing(Plugin[GpuSharingArgs]):
    """Places pods on GPUs, whole or shared, packs them by a policy, and writes the chosen GPUs to the pod.

    Requests and GPUs are read from the labels, annotations and resources of GPU-sharing device plugins
    (``annotations.py``). Use it with ``tieBreak: stable``.
    """

    def setup(self) -> None:
        """Count the present pods."""
        table = self.handle.table
        self._cursor = table.cursor()
        self._columns = _empty(0, 0, [""])
        self._candidates: CandidateCache | None = None
        self._policy: Policy | None = None
        #: Pod -> the GPUs that this scheduler chose. These count, because users can change annotations.
        self._chosen: dict[str, list[int]] = {}
        self._seen = Counter([_WHOLE_GPU])
        self._arrived = self._renew_at = 0
        self.handle.listen(self)

    #: As a listener, the plugin reads all pods.
    volumes_only = False

    def pod_added(self, info: PodInfo, row: int) -> None:
        """Count a pod for the expected workload."""
        request = self._request(info.pod, info)
        if request in self._seen or len(self._seen) < _MOST_KINDS:
            self._seen[request] += 1
        self._arrived += 1
        if self._seen.total() >= _HALVE_AT:
            self._seen = Counter({kind: half for kind, number in self._seen.items() if (half := number // 2)})

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """Do nothing: pods that ended are a part of the expected workload."""

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for deleted pods and changed nodes."""
        return [
            ClusterEvent("Pod", ActionType.DELETE),
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL),
        ]

    def _request(self, pod: Pod, info: PodInfo | None = None) -> GpuRequest:
        """Return a pod's request; without GPUs if it cannot be read."""
        template = info.template if info is not None else self.handle.template(pod)
        try:
            return gpu_request(pod, template.requests)
        except InvalidRequest:
            return GpuRequest(cpu=template.requests.get("cpu", 0))

    # Columns

    def _refresh(self) -> GpuColumns:
        """Update the columns and return them."""
        table = self.handle.table
        changed = self._cursor.changed(len(table))
        if changed is None or len(self._columns) != len(table):
            self._read_all()
        else:
            for row in changed:
                if not self._read(self._columns, row, table.nodes[row]):
                    self._read_all()  # more GPUs than columns, or a new model
                    break
                if self._candidates is not None:
                    self._candidates.changed(row)
        self._cursor.advance()
        if len(self._chosen) > 2 * len(table.pods) + 1000:
            self._chosen = {uid: gpus for uid, gpus in self._chosen.items() if uid in table.pods}
        return self._columns

    def _read_all(self) -> None:
        nodes = self.handle.table.nodes
        gpus = [gpus_of(info.node, _allocatable(info)) for info in nodes]
        width = max((each.count for each in gpus), default=0)
        self._columns = _empty(len(nodes), width, sorted({"", *(each.model for each in gpus)}))
        self._policy = self._candidates = None
        for row, info in enumerate(nodes):
            self._read(self._columns, row, info)

    def _read(self, columns: GpuColumns, row: int, info: NodeInfo) -> bool:
        """Read a node into a row; return False if it does not fit into the columns."""
        gpus = gpus_of(info.node, _allocatable(info))
        if gpus.count > columns.left.shape[1] or gpus.model not in columns.models:
            return False
        columns.cpu[row] = info.allocatable("cpu") - info.requested("cpu")
        columns.gpus[row] = gpus.count
        columns.model[row] = columns.models.index(gpus.model)
        columns.left[row], columns.tags[row] = self._room(info, gpus.count, columns.left.shape[1])
        return True

    def _room(self, info: NodeInfo, count: int, width: int, without: str = "") -> tuple[Ints, int]:
        """Return the room of a node's GPUs, and the kinds of pods on it; without one pod, given by uid."""
        left: Ints = np.where(np.arange(width) < count, WHOLE, 0)
        tags = 0
        for each in info.pods:
            if each.pod.uid == without:
                continue
            request = self._request(each.pod, each)
            if not request.count:
                continue
            tags |= kind_bit(request)
            named = self._chosen.get(each.pod.uid) or gpu_index(each.pod) or []
            named = [gpu for gpu in dict.fromkeys(named) if gpu < count]
            if len(named) != request.count:  # placed by another scheduler
                named = tightest_gpus(left[None, :count], request)[0].tolist() if count else []
            left[named] = np.maximum(left[named] - request.milli, 0)
        return left, tags

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject a pod whose request cannot be read."""
        try:
            gpu_request(pod, self.handle.template(pod).requests)
        except InvalidRequest as error:
            return Status.unresolvable(str(error))
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject nodes without a requested GPU model, or without room on enough GPUs."""
        request = self._request(pod)
        if not request.count:
            return None
        columns = self._refresh()
        if isinstance(nodes, WhatIfNodes):
            columns = columns.take(nodes.rows if nodes.rows is not None else np.arange(len(nodes)))
            self._read(columns, 0, nodes[0])
        elif nodes.rows is not None:
            columns = columns.take(nodes.rows)
        return Verdicts.first([(~columns.allowed(request), _NO_MODEL), (~columns.has_gpus(request), _NO_ROOM)])

    # Score

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Score nodes by the policy."""
        request = self._request(pod)
        policy = self._current_policy()
        columns = self._columns
        if isinstance(policy, Random):  # scores must not be cached
            return policy(columns if nodes.rows is None else columns.take(nodes.rows), request)[0]
        if self._candidates is None:
            self._candidates = CandidateCache(columns, policy)
        scores = np.maximum(self._candidates.of(request).scores, 0)
        return scores if nodes.rows is None else scores[nodes.rows]

    def _current_policy(self) -> Policy:
        """Return the policy for the current columns, with recent expectations."""
        columns = self._refresh()
        if self._policy is None or (self._arrived >= self._renew_at and not self.args.typical_pods):
            typical = [pod.typical for pod in self.args.typical_pods] or typical_pods(self._seen.elements())
            fragmentation = StateCache(Fragmentation(typical, columns.models))
            rng = np.random.default_rng(self.handle.random.getrandbits(64))
            self._policy = POLICIES[self.args.policy](Setting(columns, typical, fragmentation, rng))
            self._candidates = None
            self._renew_at = self._arrived + max(_RENEW_AFTER, self._arrived // 10)
        return self._policy

    # GPUs of the pod

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Choose the pod's GPUs."""
        request = self._request(pod)
        row = self.handle.table.row_of.get(node_name)
        if not request.count or row is None:
            return
        policy = self._current_policy()
        info = self.handle.table.nodes[row]
        one = self._columns.take(np.array([row]))
        one.cpu += request.cpu  # the pod counts as placed already
        one.left[0], one.tags[0] = self._room(info, int(one.gpus[0]), one.left.shape[1], without=pod.uid)
        if not one.has_gpus(request)[0]:
            return  # the node changed since Filter; the device plugin rejects the pod
        chosen = policy(one, request)[1] if request.shares else None
        gpus = tightest_gpus(one.left, request)[0].tolist() if chosen is None else [int(chosen[0])]
        self._chosen[pod.uid] = gpus
        self._cursor.mark(node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget the pod's GPUs."""
        if self._chosen.pop(pod.uid, None) is not None:
            self._cursor.mark(node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Write the GPUs to the pod, where the device plugin reads them."""
        gpus, writer = self._chosen.get(pod.uid), self.handle.volumes
        if gpus is None or writer is None:
            return
        text = "-".join(map(str, gpus))
        body = {"metadata": {"uid": pod.uid, "annotations": {INDEX: text}}}
        await writer.patch(ObjectPatch(Pod, pod.name, pod.namespace, body))


def _empty(rows: int, width: int, models: list[str]) -> GpuColumns:
    cpu, memory, gpus, model = np.zeros((4, rows), dtype=np.int64)
    left: Ints = np.zeros((rows, width), dtype=np.int64)
    return GpuColumns(cpu=cpu, memory=memory, left=left, gpus=gpus, model=model, models=models)


def _allocatable(info: NodeInfo) -> dict[str, int]:
    return {name: info.allocatable(name) for name in (COUNT, NVIDIA)}
