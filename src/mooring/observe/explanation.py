"""Explanations: a decision record and the pod's place in the queue, as served by the API and printed by the CLI."""

from __future__ import annotations

import msgspec

from mooring.api.meta import format_time
from mooring.observe.decision_records import Decision, Hold, Phases, Preempted


class _View(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of the views: camelCase names, defaults omitted."""


class CandidateView(_View):
    """A feasible node with its scores."""

    node: str
    total: int | float
    #: Plugin -> weighted score.
    scores: dict[str, int | float] = {}


class VerdictView(_View):
    """The nodes that a plugin rejected for the same reasons."""

    plugin: str = ""
    code: str = ""
    reasons: list[str] = []
    nodes: int = 0
    examples: list[str] = []


class PreemptionView(_View):
    """The result of preemption."""

    plugin: str = ""
    code: str = ""
    message: str = ""
    nominated_node: str = ""
    victims: list[str] = []


class DeviceRejectionView(_View):
    """Devices of a node that a request of a claim cannot get for the same reason."""

    node: str
    claim: str
    request: str
    reason: str
    count: int
    examples: list[str] = []


class HoldView(_View):
    """A plugin that makes a pod wait at Permit."""

    plugin: str
    timeout_seconds: float
    #: When the timeout ends and the pod is rejected, unless the plugin allows it before.
    until: str
    #: When the plugin allows the pod automatically, if it does.
    allowed_at: str = ""


class PreemptedView(_View):
    """The preemption of a pod."""

    #: namespace/name of the preemptor.
    by: str
    plugin: str
    node: str
    time: str


class DecisionView(_View):
    """A scheduling attempt."""

    pod: str
    time: str
    profile: str
    outcome: str
    #: The number of the attempt; 0 if it was simulated for an explanation.
    attempt: int = 0
    node: str = ""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    was_nominated: bool = False
    candidates: list[CandidateView] = []
    message: str = ""
    verdicts: list[VerdictView] = []
    preemption: PreemptionView | None = None
    #: Why devices of a few nodes were not allocated.
    devices: list[DeviceRejectionView] = []
    #: The plugins that made the pod wait at Permit in this attempt.
    permit: list[HoldView] = []
    #: namespace/name of the pods that were evicted for this pod, in all its attempts.
    victims: list[str] = []
    preempted: PreemptedView | None = None
    #: Phase -> duration.
    seconds: dict[str, float] = {}


class WakeView(_View):
    """A plugin that rejected the pod, and the events that trigger another attempt."""

    plugin: str
    events: list[str] = []


class WaitingView(_View):
    """The place of a pod in the queue, and what it is waiting for."""

    #: active, backoff, unschedulable, gated or in-flight.
    queue: str
    attempts: int = 0
    #: The plugin that gates the pod, and its reasons.
    gated_by: str = ""
    gate_reasons: list[str] = []
    #: The remaining spec.schedulingGates.
    gates: list[str] = []
    woken_by: list[WakeView] = []
    #: The end of the backoff; the pod can be retried earlier if the queue is empty.
    backoff_ends: str = ""
    #: The latest time of the next attempt.
    retried_by: str = ""
    nominated_node: str = ""


class SuggestionView(_View):
    """A change that would make a pending pod, or its gang, schedulable. It was verified by deciding again."""

    #: reduce-request, tolerate, uncordon, label-node, relax, volume, evict, wait, add-node or remove-gate; for gangs
    #: also reduce-minimum, create-group, create-pods, create-queue, open-queue, use-queue, raise-capability,
    #: raise-weight or free-queue. Combined with a comma if it takes two changes.
    kind: str
    text: str
    #: The node that would be selected; for a gang, the first one.
    node: str
    #: For a gang: the number of its pods that would be placed, and of their nodes.
    pods: int = 0
    nodes: int = 0


class Explanation(_View):
    """The reasons why a pod was placed on its node, or is pending."""

    pod: str
    #: bound, binding, held (at Permit), pending, gated (by a PreEnqueue plugin), or gone.
    state: str
    node: str = ""
    #: The source, if it is not the record of a running scheduler.
    note: str = ""
    decision: DecisionView | None = None
    waiting: WaitingView | None = None
    #: The plugins that hold the pod at Permit now.
    held_by: list[HoldView] = []
    #: namespace/name of the PodGroup, if a batch session decides about the pod together with others.
    gang: str = ""
    #: Changes that would make a pending pod schedulable, or let its gang start, the smallest first.
    suggestions: list[SuggestionView] = []


def view(decision: Decision) -> DecisionView:
    """Return the view of a decision record."""
    preemption = decision.preemption
    return DecisionView(
        pod=decision.pod,
        time=format_time(decision.time, micros=True),
        profile=decision.profile,
        attempt=decision.attempt,
        outcome=decision.outcome,
        node=decision.node,
        evaluated_nodes=decision.evaluated,
        feasible_nodes=decision.feasible,
        was_nominated=decision.was_nominated,
        candidates=[
            CandidateView(
                node=each.node, total=each.total, scores=dict(zip(decision.scorers, each.scores, strict=True))
            )
            for each in decision.candidates
        ],
        message=decision.message,
        verdicts=[
            VerdictView(
                plugin=each.plugin,
                code=each.code,
                reasons=list(each.reasons),
                nodes=each.count,
                examples=list(each.nodes),
            )
            for each in decision.verdicts
        ],
        preemption=None
        if preemption is None
        else PreemptionView(
            plugin=preemption.plugin,
            code=preemption.code,
            message=preemption.message,
            nominated_node=preemption.nominated_node,
            victims=list(preemption.victims),
        ),
        devices=[
            DeviceRejectionView(
                node=each.node,
                claim=each.claim,
                request=each.request,
                reason=each.reason,
                count=each.count,
                examples=list(each.devices),
            )
            for each in decision.devices
        ],
        permit=[hold_view(each) for each in decision.permit],
        victims=list(decision.victims),
        preempted=None if decision.preempted is None else _preempted(decision.preempted),
        seconds=_seconds(decision.phases),
    )


def hold_view(hold: Hold) -> HoldView:
    """Return the view of a plugin that makes a pod wait at Permit."""
    return HoldView(
        plugin=hold.plugin,
        timeout_seconds=hold.seconds,
        until=format_time(hold.until),
        allowed_at="" if hold.allowed_at is None else format_time(hold.allowed_at),
    )


def _preempted(preempted: Preempted) -> PreemptedView:
    time = format_time(preempted.time)
    return PreemptedView(by=preempted.by, plugin=preempted.plugin, node=preempted.node, time=time)


def _seconds(phases: Phases) -> dict[str, float]:
    named = msgspec.structs.asdict(phases)
    return {_camel(name): round(seconds, 7) for name, seconds in named.items() if seconds is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
