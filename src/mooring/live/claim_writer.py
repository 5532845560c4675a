"""ApiClaimWriter: writes resource claims to the API server.

A change is a merge patch with the version that it is based on, so a lost race is a conflict, and fields that the
structs do not have are kept. If a response is lost, the claim is read until the outcome is certain: the devices must
not be given to another pod before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.devices import CLAIM_FINALIZER, EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from mooring.api.pod import Pod
from mooring.framework.api_clients import ClaimConflictError, ClaimWriteError
from mooring.kube import Backoff, Client, Conflict, ConnectionFailed, KubeError, NotFound, PatchType, TooManyRequests
from mooring.logs import get_logger
from mooring.observe.claim_metrics import ClaimMetrics

log = get_logger("mooring.live")
T = TypeVar("T")

#: The number of rejected reads after which a rejection is final: about twenty seconds.
_REFUSALS: Final = 8


class ApiClaimWriter:
    """A claim writer that uses the API server."""

    shares_allocations = True
    patient = False

    def __init__(
        self,
        client: Client,
        start: Callable[[Coroutine[Any, Any, None]], None],
        metrics: ClaimMetrics | None = None,
    ) -> None:
        """``start`` runs a coroutine in the background."""
        self._client = client
        self._start = start
        self._metrics = metrics if metrics is not None else ClaimMetrics()
        #: How many requests the server has not answered yet.
        self.in_flight = 0

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        """Wait for the write of another pod."""
        return await outcome

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Read the newest version of a claim."""
        return await _checked(self._client.get(ResourceClaim, claim.name, namespace=claim.namespace))

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim, with the finalizer that it needs anyway. If the response is lost, look for the claim."""
        metadata = msgspec.structs.replace(claim.metadata, finalizers=(CLAIM_FINALIZER,))
        claim = msgspec.structs.replace(claim, metadata=metadata)
        try:
            created = await self._answered(self._client.create(claim))
        except KubeError as error:
            found = await self._find_created(claim) if error.outcome_unknown else None
            if found is None:
                self._metrics.created("failure")
                raise _converted(error) from None
            created = found
        self._metrics.created("success")
        return created

    async def _find_created(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Return the claim that was created for the same pod although the request failed."""
        owners = {owner.uid for owner in claim.metadata.owner_references}
        page = await self._until_answered(lambda: self._client.list(ResourceClaim, namespace=claim.namespace))
        for each in page.items if page is not None else ():
            is_special = each.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
            if is_special and owners & {owner.uid for owner in each.metadata.owner_references if owner.controller}:
                return each
        return None

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers. A request that was carried out twice is a conflict, after which the claim is read."""
        body = {"metadata": {**_version(claim), "finalizers": list(claim.metadata.finalizers)}}
        work = self._client.patch(ResourceClaim, claim.name, body, namespace=claim.namespace)
        return await _checked(self._answered(work))

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        """Write the allocation and the reservations."""
        body = {"metadata": _version(before), "status": _status_patch(claim, before)}
        work = self._client.patch(
            ResourceClaim, claim.name, body, namespace=claim.namespace, subresource="status", idempotent=False
        )
        try:
            return await self._answered(work)
        except KubeError as error:
            if error.outcome_unknown or isinstance(error, Conflict):
                written = await self._find_written(claim)
                if written is not None:
                    log.info("the claim is written although the request failed", claim=claim.key, error=str(error))
                    return written
            raise _converted(error) from None

    async def _find_written(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Return the stored claim if it has the status that was to be written."""
        stored = await self._until_answered(
            lambda: self._client.get(ResourceClaim, claim.name, namespace=claim.namespace)
        )
        if stored is None or stored.uid != claim.uid:
            return None
        wanted, found = claim.status, stored.status
        if wanted.allocation is None or found.allocation is None:
            return stored if wanted.allocation is None and found.allocation is None else None
        same_devices = wanted.allocation.devices.results == found.allocation.devices.results
        users = {each.uid for each in found.reserved_for}
        return stored if same_devices and users >= {each.uid for each in wanted.reserved_for} else None

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        """Remove a pod from the reservations, whatever the version of the claim is."""
        patch = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
        work = self._client.patch(
            ResourceClaim,
            claim.name,
            patch,
            namespace=claim.namespace,
            subresource="status",
            type=PatchType.STRATEGIC,
        )
        return await _checked(work)

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, unless it does not exist any more."""
        try:
            await self._client.delete(ResourceClaim, claim.name, namespace=claim.namespace, uid=claim.uid)
        except NotFound:
            return
        except KubeError as error:
            raise _converted(error) from None

    async def patch_pod_status(self, pod: Pod, patch: dict[str, Any], *, merge: bool = False) -> None:
        """Patch the status of a pod."""
        body = {"metadata": {"uid": pod.uid}, **patch}
        client, where = self._client, pod.namespace
        if merge:
            work = client.patch(Pod, pod.name, body, namespace=where, subresource="status", type=PatchType.MERGE)
            await _checked(self._answered(work))
            return
        encoded = msgspec.json.encode(body)
        await _checked(self._answered(client.patch_status(Pod, pod.name, encoded, namespace=where)))

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run a write in the background."""
        self._start(_logged(work, what))

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        """Record a wait for binding conditions."""
        self._metrics.waited(profile, claims, status, seconds)

    async def _answered(self, work: Awaitable[T]) -> T:
        """Count a request until the server answers."""
        self.in_flight += 1
        try:
            return await work
        finally:
            self.in_flight -= 1

    async def _until_answered(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """Read until the server answers. Return None if the object does not exist, or if reading is forbidden."""
        backoff = Backoff(first=0.2, cap=5.0, random=self._client.random)
        while True:
            try:
                return await read()
            except NotFound:
                return None
            except KubeError as error:
                passing = error.outcome_unknown or isinstance(error, ConnectionFailed | TooManyRequests)
                if not passing and backoff.tries >= _REFUSALS:
                    return None
                await asyncio.sleep(backoff.next())


def _version(claim: ResourceClaim) -> dict[str, Any]:
    return {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}


def _status_patch(claim: ResourceClaim, before: ResourceClaim) -> dict[str, Any]:
    """Return the changed fields of the status; only the fields that this scheduler owns."""
    status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(claim.status.reserved_for) or None}
    now, then = claim.status.allocation, before.status.allocation
    if now is None:
        status |= {"allocation": None, "devices": None}
    elif then is None:
        status["allocation"] = msgspec.to_builtins(now)
    elif now.allocation_timestamp != then.allocation_timestamp:
        status["allocation"] = {"allocationTimestamp": now.allocation_timestamp}
    return status


async def _checked(work: Awaitable[T]) -> T:
    try:
        return await work
    except KubeError as error:
        raise _converted(error) from None


def _converted(error: KubeError) -> ClaimWriteError:
    return ClaimConflictError(str(error)) if isinstance(error, Conflict) else ClaimWriteError(str(error))


async def _logged(work: Coroutine[Any, Any, None], what: str) -> None:
    try:
        await work
    except ClaimWriteError as error:
        log.warning("a claim cannot be written", action=what, error=str(error))
