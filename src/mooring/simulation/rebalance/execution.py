"""Execution: carries out a plan on a running cluster, within limits.

A move is an eviction through the Eviction API, which respects disruption budgets. The controller creates the pod again
and the scheduler chooses its node. So each step is checked before the next one, and a plan that no longer describes the
cluster ends. Pending pods are nominated to their nodes first, so that the scheduler keeps the room for them.

Every eviction writes an event with the reason Rebalanced. Events last an hour on a cluster, and the evictions of the
last hour are counted by them. So the limit also holds for several runs and several people.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from mooring.api.events import Event
from mooring.api.meta import ObjectMeta, format_time, parse_time
from mooring.api.pod import Pod
from mooring.kube import Client, KubeError, NotFound
from mooring.kube.event_recorder import reference
from mooring.simulation.rebalance.planner import Move, Plan

REASON: Final = "Rebalanced"
_COMPONENT: Final = "mooring-rebalance"
_HOUR: Final = 3600.0
_POLL: Final = 0.2


class ExecutionError(Exception):
    """A plan that was not carried out, or not completely. The message says why, and what was done."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A move that was carried out."""

    pod: str
    source: str
    #: The node of the plan.
    target: str
    #: The pod that replaces the evicted one, and its node; empty if it has none yet.
    replacement: str
    node: str


class Execution:
    """The execution of plans on one cluster."""

    def __init__(
        self,
        client: Client,
        *,
        moves_per_hour: int,
        seconds_per_step: float = 120.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._limit = moves_per_hour
        self._patience = seconds_per_step
        self._clock = clock
        self._pods: dict[str, Pod] = {}

    async def allowance(self) -> int:
        """Return how many more pods may be evicted now. Raises ExecutionError."""
        try:
            page = await self._client.list(Event, fields=f"reason={REASON}")
        except KubeError as error:
            raise ExecutionError(
                f"nothing was evicted: the events of earlier moves cannot be read, so that the limit of "
                f"{self._limit} moves per hour cannot be kept: {error}"
            ) from None
        since = self._clock() - _HOUR
        recent = [each for each in page.items if each.reason == REASON and _time_of(each) > since]
        return max(self._limit - len(recent), 0)

    async def carry_out(self, plan: Plan, *, report: Callable[[Done], None]) -> list[Done]:
        """Carry out a plan, step by step. Returns early if a pod is replaced on another node than planned.

        Raises ExecutionError.
        """
        allowed = await self.allowance()
        if len(plan.moves) > allowed:
            raise ExecutionError(
                f"nothing was evicted: the plan has {len(plan.moves)} moves, and only {allowed} more are allowed this "
                "hour; raise --moves-per-hour, or try again later"
            )
        await self._read()
        await self._try_all(plan.moves)
        done: list[Done] = []
        for _, moves in itertools.groupby(plan.moves, key=lambda move: move.step):
            await self._nominate(plan)
            finished = await self._step(list(moves), done)
            for each in finished:
                report(each)
            done += finished
            if any(each.node != each.target for each in finished):
                break
        return done

    async def _read(self) -> None:
        page = await self._client.list(Pod)
        self._pods = {pod.key: pod for pod in page.items}

    async def _try_all(self, moves: Iterable[Move]) -> None:
        """Ask the API server whether it would evict every pod."""
        for move in moves:
            pod = self._pods.get(move.pod)
            if pod is None or pod.node_name != move.source:
                raise ExecutionError(f"nothing was evicted: pod {move.pod} is no longer on {move.source}")
            try:
                await self._client.evict(pod, dry_run=True)
            except KubeError as error:
                raise ExecutionError(f"nothing was evicted: pod {move.pod} cannot be evicted: {error}") from None

    async def _nominate(self, plan: Plan) -> None:
        """Reserve the room of pending pods. A scheduler without nominations may use it for others."""
        for placement in plan.placements:
            pod = self._pods.get(placement.pod)
            if pod is None or pod.node_name:
                continue
            patch = msgspec.json.encode({"status": {"nominatedNodeName": placement.node}})
            try:
                await self._client.patch_status(Pod, pod.name, patch, namespace=pod.namespace)
            except KubeError as error:
                if not isinstance(error, NotFound):
                    raise ExecutionError(f"pod {pod.key} cannot be nominated to {placement.node}: {error}") from None

    async def _step(self, moves: list[Move], done: list[Done]) -> list[Done]:
        before = set(self._pods)
        for move in moves:
            pod = self._pods[move.pod]
            try:
                await self._client.evict(pod)
                await self._record(pod, move)
            except KubeError as error:
                raise ExecutionError(f"stopped after {len(done)} moves: pod {move.pod}: {error}") from None
        end = self._clock() + self._patience
        while True:
            await asyncio.sleep(_POLL)
            old = self._pods
            await self._read()
            replaced = _replacements(moves, old, self._pods, before)
            if all(each.node for each in replaced):
                return replaced
            if self._clock() > end:
                return replaced
            self._pods = {**old, **self._pods}  # evicted pods have to be known until they are replaced

    async def _record(self, pod: Pod, move: Move) -> None:
        now = self._clock()
        event = Event(
            metadata=ObjectMeta(name=f"{pod.name}.{int(now * 1e9):x}"[-253:], namespace=pod.namespace),
            event_time=format_time(now, micros=True),
            reporting_controller=_COMPONENT,
            reporting_instance=_COMPONENT,
            action="Evicting",
            reason=REASON,
            regarding=reference(pod),
            note=f"Evicted from {move.source} to make room; the plan places it on {move.target}",
            type="Normal",
        )
        await self._client.create_event(event)


def _replacements(moves: Iterable[Move], old: dict[str, Pod], now: dict[str, Pod], before: set[str]) -> list[Done]:
    """Return the moves with the pods that replace the evicted ones."""
    found: list[Done] = []
    taken: set[str] = set()
    for move in moves:
        gone = old[move.pod]
        same = now.get(move.pod)
        # A StatefulSet keeps the name; the other controllers choose a new one.
        candidates = [same] if same is not None and same.uid != gone.uid else []
        candidates += [pod for key, pod in now.items() if key not in before and _owner(pod) == _owner(gone)]
        left = [pod for pod in candidates if pod.key not in taken]
        left.sort(key=lambda pod: (pod.node_name != move.target, not pod.node_name))
        new = left[0] if left else None
        if new is not None:
            taken.add(new.key)
        found.append(
            Done(
                pod=move.pod,
                source=move.source,
                target=move.target,
                replacement=new.key if new is not None else "",
                node=new.node_name if new is not None else "",
            )
        )
    return found


def _owner(pod: Pod) -> tuple[str, str]:
    owners = [each for each in pod.metadata.owner_references if each.controller]
    return (pod.namespace, owners[0].uid) if owners else (pod.namespace, pod.uid)


def _time_of(event: Event) -> float:
    text = event.event_time or event.metadata.creation_timestamp
    return parse_time(text) if text else 0.0
