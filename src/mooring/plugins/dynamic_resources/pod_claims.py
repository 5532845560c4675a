"""The claims of a pod, by name or from templates, and who uses them: the pod, or its group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus
from mooring.api.scheduling import GROUP, NativePodGroup, PodGroupResourceClaim, PodGroupResourceClaimStatus
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker

_NO_FIELD: Final = "none of the supported fields are set"


class ClaimsNotReadyError(ValueError):
    """A claim of a pod is missing or cannot be used. The text is kube-scheduler's."""


def claims_of(pod: Pod, tracker: ClaimTracker, *, of_groups: bool = False) -> list[ResourceClaim]:
    """Return the claims of a pod, in order; with ``of_groups``, its group may own them. Raises ClaimsNotReadyError."""
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
        if entry.resource_claim_name is None:
            _check_owner(claim, pod, group_name(pod) if of_groups else None)
        found.append(claim)
    return found


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim of an entry; None if no claim is needed. Raises ClaimsNotReadyError."""
    return _claim_name(entry, pod.status.resource_claim_statuses, f'pod "{pod.key}"', f'"{entry.name}"')


def group_name(pod: Pod) -> str | None:
    """Return the name of the group of a pod; None without a group."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None


def _check_owner(claim: ResourceClaim, pod: Pod, group: str | None) -> None:
    controller = next((each for each in claim.metadata.owner_references if each.controller), None)
    if controller is not None and controller.uid == pod.uid:
        return
    owner = "Pod is not owner"
    if group is not None:
        is_group = controller is not None and (controller.name, controller.kind) == (group, "PodGroup")
        if is_group and controller is not None and controller.api_version.startswith(f"{GROUP}/"):
            return
        owner = f"neither Pod nor PodGroup {group} is the owner"
    raise ClaimsNotReadyError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({owner})")


def pod_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """Return a pod as the user of a claim."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def users_of(pod: Pod, group: NativePodGroup | None) -> tuple[ResourceClaimConsumerReference, ...]:
    """Return for each entry of the pod's claims who uses it: the group, if it has the same entry, or the pod.

    Raises ClaimsNotReadyError.
    """
    if group is None:
        return tuple(pod_reference(pod) for _ in pod.spec.resource_claims)
    shared = ResourceClaimConsumerReference(api_group=GROUP, resource="podgroups", name=group.name, uid=group.uid)
    return tuple(shared if _is_of_group(entry, group) else pod_reference(pod) for entry in pod.spec.resource_claims)


def _is_of_group(entry: PodResourceClaim, group: NativePodGroup) -> bool:
    wanted = entry.name, entry.resource_claim_name, entry.resource_claim_template_name
    for each in group.spec.resource_claims:
        if each.resource_claim_name is None and each.resource_claim_template_name is None:
            raise ClaimsNotReadyError(f"PodGroup {group.key} claim {each.name}: {_NO_FIELD}")
        if (each.name, each.resource_claim_name, each.resource_claim_template_name) == wanted:
            return True
    return False


def group_claim_name(group: NativePodGroup, entry: PodGroupResourceClaim) -> str | None:
    """Return the name of the claim of a group's entry; None if no claim is needed. Raises ClaimsNotReadyError."""
    return _claim_name(entry, group.status.resource_claim_statuses, f"PodGroup {group.key}", entry.name)


def _claim_name(
    entry: PodResourceClaim | PodGroupResourceClaim,
    statuses: Iterable[PodResourceClaimStatus | PodGroupResourceClaimStatus],
    owner: str,
    shown: str,
) -> str | None:
    """Return the name of the claim of an entry; messages name the owner, and the entry as ``shown``."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimsNotReadyError(f"{owner}, spec.resourceClaim {shown}: {_NO_FIELD}")
    for status in statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimsNotReadyError(f"{owner}: ResourceClaim not created yet")


def owns(group: NativePodGroup, claim: ResourceClaim) -> bool:
    """Return whether a claim was created for a group."""
    return any(each.controller and each.uid == group.uid for each in claim.metadata.owner_references)
