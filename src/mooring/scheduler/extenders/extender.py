"""One extender as its configuration describes it, and all of them in the order in which they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter

import structlog

from mooring.api.node import Node
from mooring.api.pod import Container, Pod
from mooring.columns.node_info import NodeInfo
from mooring.config import Extender as ExtenderConfig
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.status import SUCCESS, Status
from mooring.scheduler.extenders import replies
from mooring.scheduler.extenders.question import Question, Reply, Send, binding_body, nodes_body, victims_body
from mooring.scheduler.extenders.replies import ExtenderError

#: Told of each call: extender, verb, whether it succeeded, seconds.
Observe = Callable[[str, str, bool, float], None]

log = structlog.get_logger("mooring.scheduler")


class Extender:
    """What one extender is asked."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        #: Its URL, which identifies it.
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
        """Whether it is shown whole nodes."""
        return not self._names_only and (self.filters or self.prioritizes)

    @property
    def wants_victims(self) -> bool:
        """Whether it is shown whole pods that might have to go."""
        return not self._names_only and self.preempts

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod asks for something that this extender manages; one that manages nothing cares for all."""
        managed = self._managed
        return not managed or any(
            not managed.isdisjoint(container.resources.requests) or not managed.isdisjoint(container.resources.limits)
            for container in _containers(pod)
        )

    def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Question:
        """Ask which nodes will do."""
        return Question(self, self.config.filter_verb, self._about(pod, nodes))

    def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Question:
        """Ask how good nodes are."""
        return Question(self, self.config.prioritize_verb, self._about(pod, nodes))

    def preempt(self, pod: Pod, candidates: Sequence[tuple[str, Candidate]]) -> Question:
        """Ask which pods may go."""
        victims = {
            name: ([info.pod for info in candidate.victims], candidate.violations) for name, candidate in candidates
        }
        return Question(
            self, self.config.preempt_verb, partial(victims_body, pod, victims, names_only=self._names_only)
        )

    def bind(self, pod: Pod, node_name: str) -> Question:
        """Ask to bind a pod."""
        return Question(self, self.config.bind_verb, partial(binding_body, pod, node_name))

    def read_filtered(self, reply: Reply) -> replies.Filtered:
        """What it says to ``filter``. Raises ExtenderError."""
        return replies.read_filtered(reply, names_only=self._names_only)

    def _about(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Callable[[], bytes]:
        objects: list[Node] = [info.node for info in nodes]
        return partial(nodes_body, pod, objects, names_only=self._names_only)

    def __repr__(self) -> str:
        return f"Extender({self.name})"


def _containers(pod: Pod) -> Iterable[Container]:
    yield from pod.spec.containers
    yield from pod.spec.init_containers


class Extenders:
    """All extenders of a configuration, those that may fail last, and the way to reach them."""

    def __init__(self, configs: Iterable[ExtenderConfig], send: Send) -> None:
        self._send = send
        self._all = tuple(Extender(config) for config in configs)
        self._deciding = tuple(each for each in self._all if each.filters or each.prioritizes or each.preempts)
        self._binders = tuple(each for each in self._all if each.binds)
        self._preempting = tuple(each for each in self._all if each.preempts)
        #: Whether somebody is asked before pods have a node, and is shown whole nodes, and whole pods that run.
        self.decide = bool(self._deciding)
        self.want_nodes = any(each.wants_nodes for each in self._all)
        self.want_victims = any(each.wants_victims for each in self._all)
        #: Told of every call, if somebody wants to know.
        self.observe: Observe | None = None

    def __bool__(self) -> bool:
        return bool(self._all)

    def deciding(self, pod: Pod) -> tuple[Extender, ...]:
        """Those that have to be asked before this pod has a node, in order."""
        return tuple(each for each in self._deciding if each.is_interested(pod))

    def weigh_victims(self, pod: Pod) -> bool:
        """Whether somebody wants to be asked before room is made for this pod."""
        return any(each.is_interested(pod) for each in self._preempting)

    async def ask(self, question: Question) -> Reply:
        """Ask; what goes wrong is in the reply."""
        started = perf_counter()
        reply = await self._send(question)
        if self.observe is not None:
            self.observe(question.extender.name, question.verb, not reply.error, perf_counter() - started)
        return reply

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Let an extender bind a pod; None if none wants to."""
        for extender in self._binders:
            if not extender.is_interested(pod):
                continue
            try:
                replies.check_bound(await self.ask(extender.bind(pod, node_name)))
            except ExtenderError as error:
                if not extender.ignorable:
                    return Status.error(str(error)).by(extender.name)
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=str(error),
                )
                continue
            return SUCCESS
        return None
