"""AttemptBudget: the CPU time that one scheduling attempt may use.

A tenant can create pods that are valid and expensive: the API server accepts 36,000 node affinity terms. An attempt
that takes longer than a slice pauses, so that the event loop can run other tasks. A large pod whose attempt exceeds its
limit is rejected, with a message that names the reason, and retried after a long backoff.

The limit of a pod that is not large is much higher: if its attempt takes long, the reason is not the pod itself, and to
reject it would punish the wrong tenant. The time that custom plugins use does not count; they have limits of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from mooring.api.affinity import NodeSelectorTerm, PodAffinity
from mooring.api.meta import LabelSelector
from mooring.api.pod import Pod
from mooring.checkpoints import AbortedError, PausableCall, PausableSteps, Pauses
from mooring.framework.state import CycleState
from mooring.scheduler.attempt_results import ScheduleFailure, budget_exceeded
from mooring.scheduler.extenders import Steps

Outcome = TypeVar("Outcome")

#: How long an attempt runs before other tasks of the event loop get their turn.
SLICE_SECONDS = 0.01
#: A pod with at least this many terms, constraints and other entries is large.
_LARGE = 1000
#: The CPU time of an attempt for a large pod and for other pods.
_LARGE_POD_SECONDS = 1.0
_POD_SECONDS = 30.0
#: The backoff of a pod whose attempt exceeded its limit.
BACKOFF_SECONDS = 300.0


class AttemptBudget:
    """The limits of scheduling attempts."""

    def __init__(
        self,
        *,
        slice_seconds: float = SLICE_SECONDS,
        large_pod_seconds: float = _LARGE_POD_SECONDS,
        pod_seconds: float = _POD_SECONDS,
    ) -> None:
        self._pauses = Pauses(slice_seconds)
        self._call_pauses = Pauses(slice_seconds)
        #: The last pausable call.
        self._call: PausableCall | None = None
        self._large_pod_seconds = large_pod_seconds
        self._pod_seconds = pod_seconds

    def pausable(self, attempts: Callable[[], None]) -> PausableCall:
        """Return a call that makes attempts; it pauses within those that take long."""
        self._call = PausableCall(attempts, self._call_pauses)
        return self._call

    def run(
        self, steps: Steps[Outcome], pod: Pod, state: CycleState, *, requests: bool = True
    ) -> Steps[Outcome | ScheduleFailure]:
        """Run the steps of an attempt within the budget; unless a ``pausable`` call pauses, they pause by yielding ().

        ``requests`` tells whether the steps may yield requests to extenders.
        """
        call = self._call
        if requests or call is None or not call.is_current:
            return self._run_paused(steps, pod, state)
        return self._run_within(call, steps, pod, state)

    def _run_within(
        self, call: PausableCall, steps: Steps[Outcome], pod: Pod, state: CycleState
    ) -> Steps[Outcome | ScheduleFailure]:
        call.start_decision(partial(self._refuse, pod))
        try:
            return (yield from steps)
        except AbortedError as error:
            return budget_exceeded(str(error), state, BACKOFF_SECONDS)
        finally:
            call.end_decision()

    def _run_paused(self, steps: Steps[Outcome], pod: Pod, state: CycleState) -> Steps[Outcome | ScheduleFailure]:
        paused = PausableSteps(steps, self._pauses, partial(self._refuse, pod))
        try:
            replies = None
            while not paused.advance(replies):
                replies = yield paused.yielded or ()
        except AbortedError as error:
            return budget_exceeded(str(error), state, BACKOFF_SECONDS)
        except GeneratorExit:
            paused.close()
            raise
        return paused.result

    def _refuse(self, pod: Pod, seconds: float) -> str:
        """Return why an attempt that has used some CPU seconds may not continue; empty if it may."""
        if seconds <= min(self._large_pod_seconds, self._pod_seconds):
            return ""
        count, what = largest_part(pod)
        limit = self._large_pod_seconds if count >= _LARGE else self._pod_seconds
        if seconds <= limit:
            return ""
        reason = (
            f"the pod has {count:,} {what}; reduce them"
            if count >= _LARGE
            else "the reason is not the size of the pod: it may be other pods, nodes or plugins"
        )
        return (
            f"the scheduling attempt was stopped after {seconds:.1f} s of CPU time (limit {limit:g} s): {reason}. "
            f"The next attempt is in {BACKOFF_SECONDS / 60:g} minutes"
        )


def largest_part(pod: Pod) -> tuple[int, str]:
    """Return the number of entries of the largest part of a pod that decisions depend on, and its name."""
    return max(_parts(pod), key=lambda part: part[0])


def _parts(pod: Pod) -> Iterator[tuple[int, str]]:
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    yield len(pod.labels), "labels"
    yield len(spec.node_selector or ()), "nodeSelector labels"
    yield len(spec.tolerations), "tolerations"
    yield len(spec.volumes), "volumes"
    yield len(containers), "containers"
    yield sum(len(each.ports) for each in containers), "container ports"
    yield sum(len(each.resources.requests) for each in containers), "resource requests"
    constraints = spec.topology_spread_constraints
    entries = sum(1 + _selector_size(each.label_selector) for each in constraints)
    yield entries, "topology spread constraints and selector values"
    affinity = spec.affinity
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        terms = () if required is None else required.node_selector_terms
        yield sum(map(_node_term_size, terms)), "required node affinity terms and values"
        preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
        yield sum(_node_term_size(each.preference) for each in preferred), "preferred node affinity terms and values"
    for name, pods in (("pod affinity", affinity.pod_affinity), ("pod anti-affinity", affinity.pod_anti_affinity)):
        if pods is not None:
            yield _pod_terms_size(pods), f"{name} terms and values"


def _node_term_size(term: NodeSelectorTerm) -> int:
    requirements = (*term.match_expressions, *term.match_fields)
    return max(1, len(requirements), sum(len(each.values) for each in requirements))


def _pod_terms_size(affinity: PodAffinity) -> int:
    terms = [
        *affinity.required_during_scheduling_ignored_during_execution,
        *(each.pod_affinity_term for each in affinity.preferred_during_scheduling_ignored_during_execution),
    ]
    return sum(1 + len(term.namespaces) + _selector_size(term.label_selector) for term in terms)


def _selector_size(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(max(1, len(each.values)) for each in selector.match_expressions)
