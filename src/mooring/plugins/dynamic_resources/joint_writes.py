"""JointWrites: one write of a claim for all pods that share it.

Each pod that uses a claim is added to the reservations of the claim. While one pod writes the claim, others join it:
the next write reserves the claim for all of them. Pods may also join before the allocation of their claim is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.pod import Pod


class JoinedPod(NamedTuple):
    """A pod that waits until its reservation is written."""

    pod: Pod
    #: The written claim; None if the pod is to write the claim itself.
    outcome: asyncio.Future[ResourceClaim | None]
    #: Who uses the claim: the pod, or its group.
    user: ResourceClaimConsumerReference


class JointWrites:
    """The claims that are being written, the pods that joined, and reservations that are being removed.

    All profiles and sessions on a cache share it. It belongs to one event loop.
    """

    def __init__(self) -> None:
        #: The uids of the claims that a pod is writing, or is about to write.
        self._writing: set[str] = set()
        #: The uid of a claim -> the pods that joined, by uid.
        self._joined: dict[str, dict[str, JoinedPod]] = {}
        #: The uid of a pod -> the number of its reservations that are being removed.
        self.unreserving: Counter[str] = Counter()

    def is_writing(self, claim: str) -> bool:
        """Return whether a pod is writing a claim."""
        return claim in self._writing

    def join(self, claim: str, pod: Pod, user: ResourceClaimConsumerReference) -> asyncio.Future[ResourceClaim | None]:
        """Wait for the write of another pod."""
        outcome: asyncio.Future[ResourceClaim | None] = asyncio.get_running_loop().create_future()
        self._joined.setdefault(claim, {})[pod.uid] = JoinedPod(pod, outcome, user)
        return outcome

    def begin(self, claim: str) -> None:
        """Write a claim: pods join from now on."""
        self._writing.add(claim)

    def take(self, claim: str, most: int) -> list[JoinedPod]:
        """Return pods that joined, for the write that is about to be sent."""
        waiting = self._waiting(claim)
        taken = [waiting.pop(uid) for uid in list(waiting)[: max(0, most)]]
        self._joined[claim] = waiting
        return taken

    def succeed(self, claim: str, written: ResourceClaim, taken: Iterable[JoinedPod]) -> None:
        """End a write that reserved the claim for pods. The next pod that joined meanwhile writes the claim."""
        for each in taken:
            if not each.outcome.done():
                each.outcome.set_result(written)
        self.pass_on(claim)

    def pass_on(self, claim: str, taken: Iterable[JoinedPod] = ()) -> None:
        """End a write; pods that were taken join again. The next pod writes the claim."""
        waiting = {each.pod.uid: each for each in taken if not each.outcome.done()} | self._waiting(claim)
        self._joined.pop(claim, None)
        self._writing.discard(claim)
        if waiting:
            chosen = waiting.pop(next(iter(waiting)))
            self._writing.add(claim)
            self._joined[claim] = waiting
            chosen.outcome.set_result(None)

    def fail(self, claim: str, error: Exception, taken: Iterable[JoinedPod] = ()) -> None:
        """End a write because there is no allocation: the pods that joined cannot use the claim either."""
        waiting = self._waiting(claim)
        self._joined.pop(claim, None)
        self._writing.discard(claim)
        for each in (*taken, *waiting.values()):
            if not each.outcome.done():
                each.outcome.set_exception(error)

    def _waiting(self, claim: str) -> dict[str, JoinedPod]:
        """Return the pods that joined and still wait; others were cancelled."""
        return {uid: each for uid, each in self._joined.get(claim, {}).items() if not each.outcome.done()}
