"""Resource claims in simulations: claims from templates, and a writer that applies writes to the simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from mooring.api.codec import fit, to_dict
from mooring.api.devices import (
    AllocatedDeviceStatus,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from mooring.api.meta import Condition, KubeObject
from mooring.api.pod import Pod, PodResourceClaimStatus
from mooring.apiserver.resource_claims import claims_from_templates, set_claim_defaults
from mooring.scheduler.engine import Engine
from mooring.simulation.device_cases import run_at_once
from mooring.simulation.workloads import uid_of

_replace = msgspec.structs.replace


def completed_claim(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim with the defaults and the uid that an API server sets."""
    document = to_dict(claim)
    set_claim_defaults(document.get("spec") or {})
    made = fit(document, ResourceClaim)
    uid = made.uid or uid_of("ResourceClaim", made.namespace, made.name)
    return _replace(made, metadata=_replace(made.metadata, uid=uid, namespace=claim.namespace))


def with_claims(pods: Iterable[Pod], objects: Sequence[KubeObject]) -> tuple[dict[str, Pod], list[ResourceClaim]]:
    """Return the pods, by uid, with the claims that a controller creates for them from templates, and these claims."""
    templates = {(item.namespace, item.name): item for item in objects if isinstance(item, ResourceClaimTemplate)}
    found: dict[str, Pod] = {}
    made: list[ResourceClaim] = []
    for pod in pods:
        if not any(each.resource_claim_template_name is not None for each in pod.spec.resource_claims):
            continue

        def template(name: str, namespace: str = pod.namespace) -> dict[str, Any] | None:
            item = templates.get((namespace, name))
            return None if item is None else to_dict(item)

        statuses = list(pod.status.resource_claim_statuses)
        for entry, document in claims_from_templates({"apiVersion": "v1", "kind": "Pod", **to_dict(pod)}, template):
            if document is None:
                continue
            name = f"{pod.name}-{entry}"
            document["metadata"] |= {"name": name, "uid": uid_of("ResourceClaim", pod.namespace, name)}
            made.append(completed_claim(fit(document, ResourceClaim)))
            statuses.append(PodResourceClaimStatus(name=entry, resource_claim_name=name))
        found[pod.uid] = _replace(pod, status=_replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return found, made


def release_claims(engine: Engine, pod: Pod) -> None:
    """Delete the claims of a pod that is gone, and its reservations; a claim without reservations is deallocated."""
    for claim in list(engine.cache.objects.lister(ResourceClaim).list(pod.namespace)):
        if any(owner.uid == pod.uid and owner.controller for owner in claim.metadata.owner_references):
            engine.remove(claim)
        elif claim.is_reserved_for(pod.uid):
            users = tuple(each for each in claim.status.reserved_for if each.uid != pod.uid)
            status = _replace(claim.status, reserved_for=users) if users else ResourceClaimStatus()
            engine.put(_replace(claim, status=status))


class SimulatedClaimWriter:
    """A claim writer for simulations. Writes succeed at once, and drivers prepare devices at once."""

    shares_allocations = False
    patient = False

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._created = 0

    def _put(self, claim: ResourceClaim) -> ResourceClaim:
        assert self.engine is not None
        self.engine.put(claim)
        return claim

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        """Wait for the write of another pod; there is none."""
        return await outcome

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the stored version."""
        assert self.engine is not None
        return self.engine.cache.objects.lister(ResourceClaim).get(claim.name, claim.namespace) or claim

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Store a claim under a new name."""
        self._created += 1
        name = f"{claim.metadata.generate_name}{self._created}"
        uid = uid_of("ResourceClaim", claim.namespace, name)
        return self._put(_replace(claim, metadata=_replace(claim.metadata, name=name, uid=uid)))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        """Store a claim."""
        return self._put(claim)

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        """Store a claim with its devices prepared."""
        allocation = claim.status.allocation
        devices = tuple(
            AllocatedDeviceStatus(
                driver=each.driver,
                pool=each.pool,
                device=each.device,
                conditions=tuple(Condition(type=name, status="True") for name in each.binding_conditions),
            )
            for each in (allocation.devices.results if allocation is not None else ())
            if each.binding_conditions
        )
        return self._put(_replace(claim, status=_replace(claim.status, devices=devices)))

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        """Remove a reservation."""
        users = tuple(each for each in claim.status.reserved_for if each.uid != uid)
        return self._put(_replace(claim, status=_replace(claim.status, reserved_for=users)))

    async def delete(self, claim: ResourceClaim) -> None:
        """Remove a claim."""
        assert self.engine is not None
        self.engine.remove(claim)

    async def patch_pod_status(self, pod: Pod, patch: dict[str, Any], *, merge: bool = False) -> None:
        """Do nothing: an assumed pod already has what decisions depend on."""

    async def pause(self, seconds: float) -> None:
        """Do nothing: drivers are ready at once."""

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run a write at once."""
        run_at_once(work)

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        """Record nothing: there are no metrics."""
