"""Allocations: a solution of the allocator in the form that is written to the status of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mooring.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from mooring.plugins.dynamic_resources.allocator import Chosen, ClaimSolution
from mooring.plugins.dynamic_resources.claim_plan import ClaimPlan, RequestPlan
from mooring.plugins.dynamic_resources.pools import Pool


def allocation_result(
    claim: ClaimPlan, solution: ClaimSolution, pools: Sequence[Pool], node_name: str, share_id: Callable[[], str]
) -> AllocationResult:
    """Return the allocation of a claim on a node."""
    devices = DeviceAllocationResult(
        results=tuple(device_result(each, pools, share_id) for each in solution.devices),
        config=_configurations(claim, solution),
    )
    return AllocationResult(devices=devices, node_selector=_node_selector(solution, pools, node_name))


def device_result(chosen: Chosen, pools: Sequence[Pool], share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    """Return one device of an allocation."""
    index, place = chosen.position
    driver, pool, device = pools[index].ids[place]
    content, request, consumed = pools[index].contents[place], chosen.request, chosen.consumed
    return DeviceRequestAllocationResult(
        request=request.name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if request.admin else None,
        tolerations=request.tolerations,
        binding_conditions=content.binding_conditions,
        binding_failure_conditions=content.failure_conditions,
        share_id=None if consumed is None else share_id(),
        consumed_capacity={name: amount.canonical for name, amount in consumed.items()} if consumed else None,
        # Without the gate there is none: the allocator ignores the field, or refuses the device.
        skip_node_operations=(
            pools[index].slices[place][0].spec.skip_node_operations
            if request.release.enabled("DRAOptionalNodeOperations")
            else ()
        ),
    )


def _configurations(claim: ClaimPlan, solution: ClaimSolution) -> tuple[DeviceAllocationConfiguration, ...]:
    """Return the configurations of the classes, each once, and those of the claim."""
    found: list[DeviceAllocationConfiguration] = []
    requests = [plans[chosen] for plans, chosen in zip(claim.requests, solution.alternatives, strict=True)]
    names: dict[str, list[str]] = {}
    for request in requests:
        if request.device_class is not None:
            names.setdefault(request.device_class.name, []).append(request.name)
    for request in requests:
        if request.device_class is None:
            continue
        for_class = names.pop(request.device_class.name, None)
        if for_class is not None:
            found += [
                DeviceAllocationConfiguration(source="FromClass", requests=tuple(for_class), opaque=each.opaque)
                for each in request.device_class.spec.config
            ]
    for config in claim.spec.devices.config:
        made = DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)
        if not config.requests:
            found.append(made)
            continue
        # Release 1.36 writes it once for every request that it applies to.
        same = [made for each in requests if each.base_name in config.requests or each.name in config.requests]
        found += same[:1] if claim.release.writes_device_configs_once else same
    if claim.release.writes_device_configs_once:
        found = [_for_all(each) if _covers_all(each, requests) else each for each in found]
    return tuple(found)


def _covers_all(config: DeviceAllocationConfiguration, requests: Sequence[RequestPlan]) -> bool:
    return all(each.base_name in config.requests or each.name in config.requests for each in requests)


def _for_all(config: DeviceAllocationConfiguration) -> DeviceAllocationConfiguration:
    return DeviceAllocationConfiguration(source=config.source, opaque=config.opaque)


def _node_selector(solution: ClaimSolution, pools: Sequence[Pool], node_name: str) -> NodeSelector | None:
    """Return the nodes that can use all devices; None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for each in solution.devices:
        index, place = each.position
        devices, number = pools[index].slices[place]
        source = devices.spec.devices[number] if devices.spec.per_device_node_selection else devices.spec
        if source.node_name is not None or pools[index].contents[place].binds_to_node:
            requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))
        if source.node_selector is not None and source.node_selector.node_selector_terms:
            term = source.node_selector.node_selector_terms[0]
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(found: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for each in more:
        if not any(
            known.key == each.key and known.operator == each.operator and set(known.values) == set(each.values)
            for known in found
        ):
            found.append(each)
