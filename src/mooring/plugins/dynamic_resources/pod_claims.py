"""The claims of a pod, by name or from templates."""

from __future__ import annotations

from mooring.api.devices import ResourceClaim
from mooring.api.pod import Pod, PodResourceClaim
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker


class ClaimsNotReadyError(ValueError):
    """A claim of a pod is missing or cannot be used. The text is kube-scheduler's."""


def claims_of(pod: Pod, tracker: ClaimTracker) -> list[ResourceClaim]:
    """Return the claims of a pod, in order. Raises ClaimsNotReadyError."""
    found = []
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        claim = tracker.get(name, pod.namespace)
        if claim is None:
            raise ClaimsNotReadyError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimsNotReadyError(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None and not _is_controlled(claim, pod):
            problem = f"was not created for Pod {pod.key} (Pod is not owner)"
            raise ClaimsNotReadyError(f"ResourceClaim {claim.key} {problem}")
        found.append(claim)
    return found


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim of an entry; None if no claim is needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        problem = "none of the supported fields are set"
        raise ClaimsNotReadyError(f'pod "{pod.key}", spec.resourceClaim "{entry.name}": {problem}')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimsNotReadyError(f'pod "{pod.key}": ResourceClaim not created yet')


def _is_controlled(claim: ResourceClaim, pod: Pod) -> bool:
    return any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references)
