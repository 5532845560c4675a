"""Whether pod-level requests and limits cover what the devices of claims take from the node."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.api.quantity import ZERO, Quantity, parse_quantity
from mooring.api.resources import claim_amounts, container_amounts, is_hugepages, is_pod_level


def uncovered_by_pod_level(pod: Pod) -> str:
    """Return which pod-level request or limit is too small for the containers and claims of a pod; empty if none is.

    The API server compares pod-level resources with those of containers, but cannot know the devices.
    """
    given = pod.spec.resources
    if given is None:
        return ""
    of_claims = claim_amounts(pod)
    requests = _sum(container_amounts(pod), of_claims)
    for name, quantity in given.requests.items():
        if is_pod_level(name) and name in requests and requests[name].exceeds(parse_quantity(quantity)):
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container and node-allocatable "
                "DRA requests"
            )
    return _uncovered_limit(pod, {name: parse_quantity(each) for name, each in given.limits.items()}, of_claims)


def _uncovered_limit(pod: Pod, given: dict[str, Quantity], of_claims: dict[str, Quantity]) -> str:
    if not given:
        return ""
    limits = container_amounts(pod, limits=True)
    hugepages = _sum(limits, {name: amount for name, amount in of_claims.items() if is_hugepages(name)})
    for name, amount in hugepages.items():
        if is_hugepages(name) and name in given and amount.exceeds(given[name]):
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container and node-allocatable "
                "DRA limits"
            )
    for container in pod.spec.containers:
        own = container_claim_amounts(pod, container.name)
        for name, quantity in container.resources.limits.items():
            if is_hugepages(name) or name not in given:
                continue
            if parse_quantity(quantity).plus(own.get(name, ZERO)).exceeds(given[name]):
                return (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for container "
                    f"{container.name}"
                )
    return ""


def container_claim_amounts(pod: Pod, container: str) -> dict[str, Quantity]:
    """Return what the claims that a container refers to take from the node, as its limits count them."""
    total: dict[str, Quantity] = {}
    for claim in pod.status.node_allocatable_resource_claim_statuses:
        if container not in claim.containers:
            continue
        for mapped in claim.mapping:
            if mapped.quantity is not None:
                total[mapped.name] = total.get(mapped.name, ZERO).plus(parse_quantity(mapped.quantity))
        for overhead in claim.overhead:
            for amount in (overhead.per_pod, overhead.per_container):
                if amount is not None:
                    total[overhead.name] = total.get(overhead.name, ZERO).plus(parse_quantity(amount))
    return total


def _sum(one: dict[str, Quantity], other: dict[str, Quantity]) -> dict[str, Quantity]:
    total = dict(one)
    for name, amount in other.items():
        total[name] = total[name].plus(amount) if name in total else amount
    return total
