"""ClaimBinder: writes allocations and reservations to the API server, and waits for binding conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mooring.api.devices import (
    CLAIM_FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from mooring.api.meta import format_time
from mooring.api.pod import (
    ContainerExtendedResourceRequest,
    ExtendedResourceClaimStatus,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from mooring.api.scheduling import NativePodGroup
from mooring.framework import Handle
from mooring.framework.api_clients import ClaimConflictError, ClaimWriteError, ClaimWriter
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.binding_conditions import (
    DeviceBindingError,
    has_binding_conditions,
    is_ready,
    is_timed_out,
)
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.extended_resources import SPECIAL_NAME
from mooring.plugins.dynamic_resources.joint_writes import JoinedPod
from mooring.plugins.dynamic_resources.pod_claims import pod_reference

#: How often a write is tried, and the pause after a conflict.
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.01
#: The pause before a pod is tried again whose claim could not be freed.
_RETRY_SECONDS: Final = 1.0
#: The maximum number of reservations that the API server accepts.
_MOST_USERS: Final = 256
#: How often binding conditions are checked.
_POLL_SECONDS: Final = 5.0

#: The field of a pod's status with the amounts that devices take from the resources of its node.
_STATUSES: Final = "nodeAllocatableResourceClaimStatuses"

_replace = msgspec.structs.replace


class ClaimBindingError(Exception):
    """A claim cannot be bound. The text is kube-scheduler's."""

    def __init__(self, text: str, status: str = "error") -> None:
        """``status`` is the one of kube-scheduler's metrics of binding conditions: failure, timeout or error."""
        super().__init__(text)
        self.status = status


class PodBinding:
    """The claims of a pod that is being bound to a node."""

    __slots__ = (
        "allocations",
        "claims",
        "clears_statuses",
        "group",
        "mappings",
        "node_claim",
        "special",
        "special_uid",
        "statuses",
        "users",
    )

    def __init__(
        self,
        claims: list[ResourceClaim],
        special: int | None,
        users: tuple[ResourceClaimConsumerReference, ...] = (),
        group: str | None = None,
    ) -> None:
        self.claims = claims
        #: Who uses each claim; for further claims it is the pod.
        self.users = users
        #: The name of the group whose claims the pod may use.
        self.group = group
        #: The place of the claim for extended resources.
        self.special = special
        #: Its uid before it was created.
        self.special_uid = claims[special].uid if special is not None else ""
        #: Place of a claim -> the allocation to write.
        self.allocations: dict[int, AllocationResult] = {}
        #: The claim for extended resources with its requests on the chosen node, and the mappings.
        self.node_claim: ResourceClaim | None = None
        self.mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
        #: What the devices take from the resources of the node, for the status of the pod.
        self.statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
        #: Whether the status of the pod may have such amounts, so that Unreserve has to remove them.
        self.clears_statuses = False


class ClaimBinder:
    """Writes claims."""

    def __init__(self, handle: Handle, tracker: ClaimTracker) -> None:
        self._handle = handle
        self._tracker = tracker
        self._has_binding_conditions = allocator_features(handle.release).binding_conditions
        #: The uid of a claim that is being deleted -> the pod that waits for that.
        self._left_over: dict[str, str] = {}
        handle.lister(ResourceClaim).listen(self._claim_changed)

    async def bind(
        self, writer: ClaimWriter, pod: Pod, node_name: str, binding: PodBinding, binding_timeout: float
    ) -> None:
        """Write what Reserve decided. Raises ClaimBindingError."""
        if self._tracker.writes.unreserving[pod.uid]:
            await self._await_unreserved(writer, pod, binding)
        for place, claim in enumerate(binding.claims):
            if not claim.is_reserved_for(pod.uid, binding.group):
                binding.claims[place] = await self._bind_claim(writer, pod, binding, place)
        if binding.statuses:
            await self._report_statuses(writer, pod, binding)
        if self._has_binding_conditions and any(map(has_binding_conditions, binding.claims)):
            await self._wait_until_ready(writer, pod, node_name, binding, binding_timeout)

    async def _await_unreserved(self, writer: ClaimWriter, pod: Pod, binding: PodBinding) -> None:
        """Wait until the reservations of an earlier attempt are removed; otherwise they would seem to be in place."""
        while self._tracker.writes.unreserving[pod.uid]:
            await writer.pause(_PAUSE_SECONDS)
        for place, claim in enumerate(binding.claims):
            if place != binding.special:
                binding.claims[place] = await self._read(writer, claim)

    async def _bind_claim(self, writer: ClaimWriter, pod: Pod, binding: PodBinding, place: int) -> ResourceClaim:
        claim, allocation = binding.claims[place], binding.allocations.get(place)
        special = place == binding.special
        if special and allocation is None and not claim.spec.devices.requests:
            return claim  # a device plugin provides the resources
        in_flight = binding.special_uid if special else claim.uid
        written: ResourceClaim | None = None
        try:
            if special and claim.name == SPECIAL_NAME:
                claim = written = binding.claims[place] = await self._create(writer, binding)
            user = binding.users[place] if place < len(binding.users) else pod_reference(pod)
            claim = written = await self._write(writer, pod, user, claim, allocation)
            if special:
                await self._report_special(writer, pod, claim, binding)
        except ClaimWriteError as error:
            raise ClaimBindingError(str(error)) from None
        finally:
            if written is not None:
                binding.claims[place] = written
            self._settle(in_flight if allocation is not None else "", written)
        return claim

    def _settle(self, in_flight: str, written: ResourceClaim | None) -> None:
        """Use the written version, and stop counting the allocation separately as soon as that is possible."""
        if written is not None:
            self._tracker.settle(in_flight, written, self._handle.clock())
        elif in_flight:
            self._tracker.finish(in_flight)

    async def _create(self, writer: ClaimWriter, binding: PodBinding) -> ResourceClaim:
        made = binding.node_claim
        assert made is not None
        metadata = _replace(made.metadata, name="", uid="")
        try:
            return await writer.create(_replace(made, metadata=metadata))
        except ClaimWriteError as error:
            raise ClaimBindingError(f"create claim for extended resources {made.namespace}/: {error}") from None

    async def _write(
        self,
        writer: ClaimWriter,
        pod: Pod,
        user: ResourceClaimConsumerReference,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
    ) -> ResourceClaim:
        """Write a claim for a pod and for those that join, or join the write of another pod."""
        if allocation is None:
            if (written := await self._join(writer, pod, user, claim)) is not None:
                return written
            known = self._tracker.get(claim.name, claim.namespace)
            if known is not None and known.uid == claim.uid:
                try:
                    claim = _with_same_allocation(known, claim)
                except ClaimBindingError:
                    self._tracker.writes.pass_on(claim.uid)  # pods that joined this one try for themselves
                    raise
                if user.uid != pod.uid and claim.is_reserved_for(user.uid):
                    self._tracker.writes.pass_on(claim.uid)
                    return claim  # another pod of the group has reserved it
        writes, taken, written = self._tracker.writes, list[JoinedPod](), None
        writes.begin(claim.uid)
        try:
            written = await self._write_repeatedly(writer, user, claim, allocation, taken)
        finally:
            if written is not None:
                writes.succeed(claim.uid, written, taken)
                self._unreserve_cancelled(writer, written, taken)
            elif allocation is None:
                writes.pass_on(claim.uid, taken)
            else:
                writes.fail(claim.uid, _deallocated(claim), taken)
        return written

    async def _join(
        self, writer: ClaimWriter, pod: Pod, user: ResourceClaimConsumerReference, claim: ResourceClaim
    ) -> ResourceClaim | None:
        """Wait until another pod has written the claim for both; None if this pod is to write it."""
        writes = self._tracker.writes
        if not writes.is_writing(claim.uid) and not self._tracker.is_in_flight(claim.uid):
            return None
        outcome = writes.join(claim.uid, pod, user)
        try:
            return await writer.until_written(claim, outcome)
        except asyncio.CancelledError:
            if outcome.done() and not outcome.cancelled() and outcome.exception() is None and outcome.result() is None:
                writes.pass_on(claim.uid)
            outcome.cancel()
            raise

    def _unreserve_cancelled(self, writer: ClaimWriter, claim: ResourceClaim, taken: list[JoinedPod]) -> None:
        """Remove the reservations of pods whose binding was cancelled during the write."""
        for each in taken:
            if each.outcome.cancelled() and each.user.uid == each.pod.uid:
                self._start_unreserve(writer, claim, each.pod)

    async def _write_repeatedly(
        self,
        writer: ClaimWriter,
        user: ResourceClaimConsumerReference,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        taken: list[JoinedPod],
    ) -> ResourceClaim:
        decided = claim
        for attempt in range(_TRIES):
            try:
                if attempt:
                    await writer.pause(_PAUSE_SECONDS)
                    claim = await self._read(writer, claim)
                    if allocation is None:
                        claim = _with_same_allocation(claim, decided)
                return await self._write_once(writer, user, claim, allocation, taken)
            except ClaimConflictError as error:
                conflict = error
        raise ClaimBindingError(str(conflict))

    @staticmethod
    async def _read(writer: ClaimWriter, claim: ResourceClaim) -> ResourceClaim:
        try:
            return await writer.get(claim)
        except ClaimWriteError as error:
            raise ClaimBindingError(f"get updated claim {claim.key} after conflict: {error}") from None

    async def _write_once(
        self,
        writer: ClaimWriter,
        user: ResourceClaimConsumerReference,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        taken: list[JoinedPod],
    ) -> ResourceClaim:
        key = claim.key
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        current = claim.status.allocation
        if allocation is not None:
            if current is not None:
                raise ClaimBindingError(f"claim {key} got allocated elsewhere in the meantime")
            if CLAIM_FINALIZER not in claim.metadata.finalizers:
                claim = await self._add_finalizer(writer, claim)
            current = allocation
        if current is None:
            raise _deallocated(claim)
        if current.allocation_timestamp is None and self._has_binding_conditions:
            current = _replace(current, allocation_timestamp=format_time(self._handle.clock()))
        users = claim.status.reserved_for
        taken += self._tracker.writes.take(claim.uid, _MOST_USERS - len(users) - len(taken) - 1)
        known = {each.uid for each in users}
        added = {each.uid: each for each in (user, *(joined.user for joined in taken)) if each.uid not in known}
        status = _replace(claim.status, allocation=current, reserved_for=(*users, *added.values()))
        try:
            return await writer.update_status(_replace(claim, status=status), claim)
        except ClaimWriteError as error:
            what = "add allocation and reservation" if allocation is not None else "add reservation"
            raise type(error)(f"{what} to claim {key}: {error}") from None

    @staticmethod
    async def _add_finalizer(writer: ClaimWriter, claim: ResourceClaim) -> ResourceClaim:
        metadata = _replace(claim.metadata, finalizers=(*claim.metadata.finalizers, CLAIM_FINALIZER))
        try:
            return await writer.update(_replace(claim, metadata=metadata))
        except ClaimWriteError as error:
            raise type(error)(f"add finalizer to claim {claim.key}: {error}") from None

    @staticmethod
    async def _report_special(writer: ClaimWriter, pod: Pod, claim: ResourceClaim, binding: PodBinding) -> None:
        """Write the claim for extended resources to the status of the pod, for the kubelet."""
        what = f"pod {pod.key} ExtendedResourceClaimStatus"
        if not binding.mappings:
            raise ClaimBindingError(f"nil or empty request mappings, no update of {what}")
        status = ExtendedResourceClaimStatus(request_mappings=binding.mappings, resource_claim_name=claim.name)
        patch: dict[str, Any] = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
        try:
            await writer.patch_pod_status(pod, patch)
        except ClaimWriteError as error:
            raise ClaimBindingError(f"update {what}: {error}") from None

    @staticmethod
    async def _report_statuses(writer: ClaimWriter, pod: Pod, binding: PodBinding) -> None:
        """Write what the devices take from the resources of the node to the status of the pod, for the kubelet."""
        binding.clears_statuses = True
        patch = {"status": {_STATUSES: msgspec.to_builtins(binding.statuses)}}
        try:
            await writer.patch_pod_status(pod, patch)
        except ClaimWriteError as error:
            text = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error}"
            raise ClaimBindingError(text) from None

    async def _wait_until_ready(
        self, writer: ClaimWriter, pod: Pod, node_name: str, binding: PodBinding, timeout: float
    ) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.events.record(
            pod, type="Normal", reason="BindingConditionsPending", action="Scheduling", note=note
        )
        start, status = self._handle.clock(), "error"
        try:
            await self._poll_until_ready(writer, binding, timeout, start + timeout)
            status = "success"
        except ClaimBindingError as error:
            status = error.status
            raise
        finally:
            writer.waited(self._handle.profile_name, binding.claims, status, self._handle.clock() - start)

    async def _poll_until_ready(
        self, writer: ClaimWriter, binding: PodBinding, timeout: float, deadline: float
    ) -> None:
        watched: set[str] = set()
        while True:
            try:
                if self._all_ready(binding, timeout, watched):
                    return
            except DeviceBindingError as error:
                raise ClaimBindingError(str(error), "failure") from None
            if self._handle.clock() >= deadline:
                raise ClaimBindingError("device binding timeout: context deadline exceeded", "timeout")
            await writer.pause(_POLL_SECONDS)

    def _all_ready(self, binding: PodBinding, timeout: float, watched: set[str]) -> bool:
        """Return whether all claims are ready; `watched` has those that the watch has shown."""
        for place, known in enumerate(binding.claims):
            claim = self._tracker.get(known.name, known.namespace)
            if claim is not None:
                watched.add(claim.name)
            elif place == binding.special and known.name not in watched:
                claim = known  # the watch has not shown yet what this pod's binding created
            else:
                raise ClaimBindingError(f'could not find ResourceClaim "{known.key}"')
            binding.claims[place] = claim
            if not is_ready(claim):
                if is_timed_out(claim, self._handle.clock(), timeout):
                    raise ClaimBindingError(f"device binding timeout: claim={claim.name}", "timeout")
                return False
        return True

    # Releasing

    def unreserve(self, writer: ClaimWriter | None, pod: Pod, binding: PodBinding) -> None:
        """Give up what Reserve decided, and remove the pod's reservations. Failures are reported by the writer."""
        for place, claim in enumerate(binding.claims):
            if place == binding.special:
                continue
            # Another pod may have put the allocation of a shared claim in flight.
            if place in binding.allocations and self._tracker.finish(claim.uid):
                self._tracker.restore(claim.name, claim.namespace)
                self._tracker.writes.fail(claim.uid, _deallocated(claim))
            if claim.status.allocation is not None and claim.is_reserved_for(pod.uid) and writer is not None:
                self._start_unreserve(writer, claim, pod)
        if binding.special is not None:
            special = binding.claims[binding.special]
            if self._tracker.finish(binding.special_uid):
                self._tracker.restore(special.name, special.namespace)
            if special.name != SPECIAL_NAME and writer is not None:
                writer.start(self.delete(writer, special), f"delete claim {special.key}")
        if binding.clears_statuses and writer is not None:
            binding.clears_statuses = False
            # Only an empty list in a merge patch removes the entries of a list.
            work = writer.patch_pod_status(pod, {"status": {_STATUSES: []}}, merge=True)
            writer.start(work, f"clear NodeAllocatableResourceClaimStatuses of pod {pod.key}")

    def _start_unreserve(self, writer: ClaimWriter, claim: ResourceClaim, pod: Pod) -> None:
        self._tracker.writes.unreserving[pod.uid] += 1
        writer.start(self._unreserve(writer, claim, pod), f"unreserve claim {claim.key}")

    async def _unreserve(self, writer: ClaimWriter, claim: ResourceClaim, pod: Pod) -> None:
        try:
            self._tracker.assume(await writer.unreserve(claim, pod.uid))
        finally:
            self._tracker.writes.unreserving[pod.uid] -= 1
            if not self._tracker.writes.unreserving[pod.uid]:
                del self._tracker.writes.unreserving[pod.uid]

    def deallocate(self, writer: ClaimWriter, claim: ResourceClaim, pod: Pod) -> None:
        """Remove the allocation of a claim, so that a pod can be scheduled."""
        empty = _replace(claim, status=ResourceClaimStatus())
        work = self._free(writer, lambda: writer.update_status(empty, claim), pod)
        writer.start(work, f"deallocate claim {claim.key}")

    def unreserve_group(self, writer: ClaimWriter, claim: ResourceClaim, group: NativePodGroup) -> None:
        """Remove the reservation of a group of pods that cannot be scheduled."""
        writer.start(self._unreserve_group(writer, claim, group), f"unreserve claim {claim.key}")

    async def _unreserve_group(self, writer: ClaimWriter, claim: ResourceClaim, group: NativePodGroup) -> None:
        self._tracker.assume(await writer.unreserve(claim, group.uid))

    async def _free(self, writer: ClaimWriter, work: Callable[[], Awaitable[object]], pod: Pod) -> None:
        """Carry out a write that frees devices for a pod. If it fails, no event follows: try the pod again."""
        try:
            await work()
        except ClaimWriteError:
            await writer.pause(_RETRY_SECONDS)
            self._handle.activate((pod.key,))
            raise

    def delete_left_over(self, writer: ClaimWriter, claim: ResourceClaim, pod: Pod) -> None:
        """Delete a claim that an earlier attempt left, and try the pod again when it is gone.

        No queueing hint reports this: in kube-scheduler, the pod waits for another event or for five minutes.
        """
        self._left_over[claim.uid] = pod.key
        writer.start(self._free(writer, lambda: self.delete(writer, claim), pod), f"delete claim {claim.key}")

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is None and old is not None:
            pod = self._left_over.pop(old.uid, None)
            if pod is not None:
                self._handle.activate((pod,))

    async def delete(self, writer: ClaimWriter, claim: ResourceClaim) -> None:
        """Delete a claim that this scheduler created; its finalizer is removed first."""
        for attempt in range(_TRIES):
            try:
                if attempt:
                    await writer.pause(_PAUSE_SECONDS)
                    claim = await writer.get(claim)
                finalizers = tuple(each for each in claim.metadata.finalizers if each != CLAIM_FINALIZER)
                await writer.update(_replace(claim, metadata=_replace(claim.metadata, finalizers=finalizers)))
                break
            except ClaimConflictError:
                if attempt == _TRIES - 1:
                    raise
        await writer.delete(claim)


def _deallocated(claim: ResourceClaim) -> ClaimBindingError:
    return ClaimBindingError(f"claim {claim.key} got deallocated elsewhere in the meantime")


def _with_same_allocation(newest: ResourceClaim, decided: ResourceClaim) -> ResourceClaim:
    """Return the newest version of a claim, which must still have the allocation that the decision is based on."""
    now, then = newest.status.allocation, decided.status.allocation
    if now is not None and then is not None and now.devices.results != then.devices.results:
        raise ClaimBindingError(f"claim {newest.key} got allocated elsewhere in the meantime")
    return newest
