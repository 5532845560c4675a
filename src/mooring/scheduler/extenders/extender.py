"""Extender: an extender of the configuration, its requests and its replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Container, Pod
from mooring.columns.node_info import NodeInfo
from mooring.columns.table import NodeTable
from mooring.config import Extender as ExtenderConfig
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.status import Status
from mooring.scheduler.extenders import replies
from mooring.scheduler.extenders.replies import ExtenderError
from mooring.scheduler.extenders.request import Reply, Request, Send, Steps, binding_body, nodes_body, victims_body
from mooring.scheduler.scoring import MAX_NODE_SCORE

T = TypeVar("T")
#: The highest score of an extender. It is scaled to the highest score of a plugin.
_MAX_EXTENDER_PRIORITY = 10

#: Called with extender, verb, whether the call succeeded, and seconds.
Observe = Callable[[str, str, bool, float], None]


class Extender:
    """One extender of the configuration."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        #: The URL, which identifies the extender.
        self.name = config.url_prefix
        self.ignorable = config.ignorable
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.preempts = bool(config.preempt_verb)
        self.binds = bool(config.bind_verb)
        self.weight = config.weight
        self._names_only = config.node_cache_capable
        self._managed = frozenset(each.name for each in config.managed_resources)

    @property
    def wants_nodes(self) -> bool:
        """Whether requests contain complete nodes."""
        return not self._names_only and (self.filters or self.prioritizes)

    @property
    def wants_victims(self) -> bool:
        """Whether requests contain complete victim pods."""
        return not self._names_only and self.preempts

    def is_interested(self, pod: Pod) -> bool:
        """Return whether the pod requests a resource that the extender manages; always true if it manages none."""
        managed = self._managed
        return not managed or any(
            not managed.isdisjoint(container.resources.requests) or not managed.isdisjoint(container.resources.limits)
            for container in _containers(pod)
        )

    def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Steps[tuple[list[int], dict[str, Status]]]:
        """Return the rows of the nodes that pass, and the status of each rejected node. Raises ExtenderError."""
        (reply,) = yield (Request(self, self.config.filter_verb, self._body(pod, nodes)),)
        answer = replies.read_filtered(reply, names_only=self._names_only)
        row_of = {node.name: node.row for node in nodes}
        passed = dict.fromkeys(answer.names or ())
        for name in passed:
            if name not in row_of:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        rejected = {name: Status.unschedulable(why).by(self.name) for name, why in answer.failed.items()}
        for name, why in answer.unresolvable.items():
            rejected[name] = Status.unresolvable(why).by(self.name)
        return [row_of[name] for name in passed], rejected

    def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Request:
        """Build the request for scores; ``scores`` decodes the reply."""
        return Request(self, self.config.prioritize_verb, self._body(pod, nodes))

    def scores(self, reply: Reply, nodes: Sequence[NodeInfo]) -> npt.NDArray[np.int64]:
        """Return the weighted score of each node. Raises ExtenderError."""
        place_of = {node.name: place for place, node in enumerate(nodes)}
        scores = np.zeros(len(place_of), dtype=np.int64)
        for name, score in replies.read_priorities(reply):
            place = place_of.get(name)
            if place is not None:
                weighted = score * self.weight * (MAX_NODE_SCORE // _MAX_EXTENDER_PRIORITY)
                scores[place] = _int64(int(scores[place]) + weighted)
        return scores

    def preempt(self, pod: Pod, candidates: Mapping[str, Candidate], table: NodeTable) -> Steps[dict[str, Candidate]]:
        """Return the candidates that the extender keeps, by node name, with its victims. Raises ExtenderError."""
        victims = {
            name: ([info.pod for info in candidate.victims], candidate.violations)
            for name, candidate in candidates.items()
        }
        body = partial(victims_body, pod, victims, names_only=self._names_only)
        (reply,) = yield (Request(self, self.config.preempt_verb, body),)
        left = {}
        for name, chosen in replies.read_victims(reply).items():
            row = table.row_of.get(name)
            if row is None:
                raise ExtenderError(f'nodeinfo not found for node name "{name}"')
            pods = {info.pod.uid: info for info in table.nodes[row].pods}
            missing = next((uid for uid in chosen.uids if uid not in pods), None)
            if missing is not None:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{missing}}}) on node: {name}, "
                    "but the pod is not found on that node"
                )
            if not chosen.uids:
                if not self.ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{name}"')
                continue
            left[name] = Candidate(row, tuple(pods[uid] for uid in chosen.uids), chosen.violations)
        return left

    def bind(self, pod: Pod, node_name: str) -> Steps[None]:
        """Bind a pod. Raises ExtenderError."""
        (reply,) = yield (Request(self, self.config.bind_verb, partial(binding_body, pod, node_name)),)
        replies.check_bound(reply)

    def _body(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Callable[[], bytes]:
        objects: list[Node] = [info.node for info in nodes]
        return partial(nodes_body, pod, objects, names_only=self._names_only)

    def __repr__(self) -> str:
        return f"Extender({self.name})"


def _containers(pod: Pod) -> Iterable[Container]:
    yield from pod.spec.containers
    yield from pod.spec.init_containers


class Extenders:
    """All extenders of a configuration, ignorable ones last, and the function that sends requests to them."""

    def __init__(self, configs: Iterable[ExtenderConfig], send: Send) -> None:
        self._send = send
        self._all = tuple(Extender(config) for config in configs)
        self._deciding = tuple(each for each in self._all if each.filters or each.prioritizes or each.preempts)
        self._binders = tuple(each for each in self._all if each.binds)
        self._preempting = tuple(each for each in self._all if each.preempts)
        #: Whether any extender is called in the scheduling cycle, gets complete nodes, or gets complete victims.
        self.decide = bool(self._deciding)
        self.want_nodes = any(each.wants_nodes for each in self._all)
        self.want_victims = any(each.wants_victims for each in self._all)
        #: Called after each call, for metrics.
        self.observe: Observe | None = None

    def __bool__(self) -> bool:
        return bool(self._all)

    def deciding(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders to call in the pod's scheduling cycle, in order."""
        return tuple(each for each in self._deciding if each.is_interested(pod))

    def binding(self, pod: Pod) -> tuple[Extender, ...]:
        """Return the extenders that may bind the pod, in order."""
        return tuple(each for each in self._binders if each.is_interested(pod))

    def weigh_victims(self, pod: Pod) -> bool:
        """Return whether any extender takes part in preemption for this pod."""
        return any(each.is_interested(pod) for each in self._preempting)

    async def send(self, request: Request) -> Reply:
        """Send a request. The reply reports failures."""
        started = perf_counter()
        reply = await self._send(request)
        if self.observe is not None:
            self.observe(request.extender.name, request.verb, not reply.error, perf_counter() - started)
        return reply

    async def run(self, steps: Steps[T], requests: tuple[Request, ...] | None = None) -> T:
        """Run a computation to its end, and send its requests; ``requests`` are those that it has already yielded."""
        return await run_steps(steps, requests, self.send)


async def run_steps(steps: Steps[T], requests: tuple[Request, ...] | None, send: Send | None) -> T:
    """Run a computation to its end. Send its requests; without requests it pauses, so that other tasks can run."""
    try:
        if requests is None:
            requests = next(steps)
        while True:
            replies: tuple[Reply, ...] = ()
            try:
                if requests and send is not None:
                    replies = tuple(await asyncio.gather(*map(send, requests)))
                else:
                    await asyncio.sleep(0)
            except Exception as error:
                requests = steps.throw(error)  # the computation undoes what it has done so far
                continue
            requests = steps.send(replies)
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    finally:
        steps.close()


def _int64(value: int) -> int:
    """Wrap a number around to 64 bits, as Go does."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
