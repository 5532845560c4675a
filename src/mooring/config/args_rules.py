"""Validation of the arguments of built-in plugins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.label_validation import label_key_errors, label_value_errors
from mooring.config.config_errors import FieldError, choice
from mooring.config.durations import SECOND, format_duration
from mooring.config.schema import Version
from mooring.releases import Release

Args = dict[str, Any]
Errors = Iterator[FieldError]

STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_args(plugin: str, args: Args, path: str, release: Release) -> Errors:
    """Return the errors in the declared arguments of a plugin."""
    if plugin == "VolumeBinding":
        return _volume_binding(args, path, scores=release.enabled("StorageCapacityScoring"))
    rule = _RULES.get(plugin)
    return rule(args, path) if rule is not None else iter(())


def _range(path: str, value: int, low: int, high: int) -> Errors:
    if not low <= value <= high:
        yield FieldError(path, f"{value} is out of range", remedy=f"Write {low} to {high}.")


def _default_preemption(args: Args, path: str) -> Errors:
    share, least = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    share_path, least_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    yield from _range(share_path, share, 0, 100)
    if least < 0:
        yield FieldError(least_path, f"{least} is negative", remedy="Write 0 or more.")
    if share == 0 and least == 0:
        remedy = "Set one of minCandidateNodesPercentage and minCandidateNodesAbsolute above 0."
        yield FieldError(share_path, "must not be 0 if minCandidateNodesAbsolute is 0", remedy=remedy)
        yield FieldError(least_path, "must not be 0 if minCandidateNodesPercentage is 0", remedy=remedy)


def _inter_pod_affinity(args: Args, path: str) -> Errors:
    yield from _range(f"{path}.hardPodAffinityWeight", args["hardPodAffinityWeight"], 0, 100)


def _balanced_allocation(args: Args, path: str) -> Errors:
    seen: set[str] = set()
    for i, resource in enumerate(args["resources"]):
        place, name = f"{path}.resources[{i}]", resource.get("name", "")
        if name in seen:
            yield FieldError(f"{place}.name", f'"{name}" is listed twice', remedy="Remove one of them.")
        seen.add(name)
        if resource["weight"] != 1:
            message = f"{resource['weight']} is not 1, the only supported weight"
            yield FieldError(f"{place}.weight", message, remedy="Remove the weight.")


def _volume_binding(args: Args, path: str, *, scores: bool) -> Errors:
    seconds = args["bindTimeoutSeconds"]
    if seconds < 0:
        yield FieldError(f"{path}.bindTimeoutSeconds", f"{seconds} is negative", remedy="Write 0 or more.")
    if scores:
        yield from _shape(args["shape"], f"{path}.shape")
    elif "shape" in args:
        message = "scoring by storage capacity is switched off (the feature gate StorageCapacityScoring)"
        yield FieldError(f"{path}.shape", message, remedy="Remove the field.")


def _dynamic_resources(args: Args, path: str) -> Errors:
    if args["filterTimeout"] < 0:
        message = f"{format_duration(args['filterTimeout'])} is negative"
        yield FieldError(f"{path}.filterTimeout", message, remedy="Write 0s or more; 0s means no limit.")
    if args["bindingTimeout"] < SECOND:
        message = f"{format_duration(args['bindingTimeout'])} is less than a second"
        yield FieldError(f"{path}.bindingTimeout", message, remedy="Write 1s or more.")


# Topology spread


def _topology_spread(args: Args, path: str) -> Errors:
    constraints = args.get("defaultConstraints", [])
    kind = args["defaultingType"]
    if kind not in ("System", "List"):
        yield _unsupported(f"{path}.defaultingType", kind, ("System", "List"))
    elif kind == "System" and constraints:
        message = 'defaultConstraints are not allowed with "System"'
        yield FieldError(f"{path}.defaultingType", message, remedy="Write  defaultingType: List.")
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        place = f"{path}.defaultConstraints[{i}]"
        yield from _constraint(constraint, place)
        identity = (constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", ""))
        if identity in seen:
            message = f"there is already a constraint for {identity[0]} and {identity[1]}"
            yield FieldError(place, message, remedy="Remove one of them.")
        seen.add(identity)


def _constraint(constraint: Args, path: str) -> Errors:
    if constraint.get("maxSkew", 0) <= 0:
        message = f"{constraint.get('maxSkew', 0)} is not above 0"
        yield FieldError(f"{path}.maxSkew", message, remedy="Write 1 or more.")
    key = constraint.get("topologyKey", "")
    if key:
        yield from _label_name(f"{path}.topologyKey", key)
    else:
        remedy = "Write a node label such as kubernetes.io/hostname."
        yield FieldError(f"{path}.topologyKey", "is required", remedy=remedy)
    action, actions = constraint.get("whenUnsatisfiable", ""), ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        yield FieldError(f"{path}.whenUnsatisfiable", "is required", remedy=f"Write {choice(actions)}.")
    elif action not in actions:
        yield _unsupported(f"{path}.whenUnsatisfiable", action, actions)
    if "labelSelector" in constraint:
        message = "is not allowed here, since it follows from each pod's service or controller"
        yield FieldError(f"{path}.labelSelector", message, remedy="Remove the field.")


def _unsupported(path: str, value: str, known: tuple[str, ...]) -> FieldError:
    return FieldError(path, f'"{value}" is not supported here', remedy=f"Write {choice(known)}.")


def _label_name(path: str, name: str) -> Errors:
    for problem in label_key_errors(name):
        yield FieldError(path, f'"{name}" is not a valid name: {problem}')


# Node affinity


def _node_affinity(args: Args, path: str) -> Errors:
    affinity = args.get("addedAffinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for i, term in enumerate(affinity.get(required, {}).get("nodeSelectorTerms", [])):
        yield from _node_term(term, f"{path}.addedAffinity.{required}.nodeSelectorTerms[{i}]")
    for i, weighted in enumerate(affinity.get(preferred, [])):
        if weighted.get("weight", 0) != 0:
            yield from _node_term(weighted.get("preference", {}), f"{path}.addedAffinity.{preferred}[{i}]")


def _node_term(term: Args, path: str) -> Errors:
    for i, expression in enumerate(term.get("matchExpressions", [])):
        yield from _expression(expression, f"{path}.matchExpressions[{i}]")
    for i, field in enumerate(term.get("matchFields", [])):
        place, operator = f"{path}.matchFields[{i}]", field.get("operator", "")
        if operator not in ("In", "NotIn"):
            yield _unsupported(f"{place}.operator", operator, ("In", "NotIn"))
        elif len(field.get("values", [])) != 1:
            yield FieldError(f"{place}.values", "must have exactly one value")


def _expression(expression: Args, path: str) -> Errors:
    key, operator, values = (expression.get(field) for field in ("key", "operator", "values"))
    key, values = key or "", values or []
    if operator not in _NODE_OPERATORS:
        yield _unsupported(f"{path}.operator", operator or "", _NODE_OPERATORS)
        return
    problems = label_key_errors(key)
    if problems:
        yield FieldError(f"{path}.key", f'"{key}" is not a valid label key: {"; ".join(problems)}')
    if operator in ("In", "NotIn") and not values:
        yield FieldError(f"{path}.values", f"{operator} needs values")
    if operator in ("Exists", "DoesNotExist") and values:
        yield FieldError(f"{path}.values", f"{operator} takes no values", remedy="Remove them.")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield FieldError(f"{path}.values", f"{operator} needs exactly one value")
        for i, value in enumerate(values):
            if not _is_int64(value):
                yield FieldError(f"{path}.values[{i}]", f'{operator} needs a whole number, not "{value}"')
    for i, value in enumerate(values):
        problems = label_value_errors(value)
        if problems:
            yield FieldError(
                f"{path}.values[{i}][{key}]", f'"{value}" is not a valid label value: {"; ".join(problems)}'
            )


def _is_int64(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and len(text) < 4000 and -(2**63) <= int(text) < 2**63


# Node resources


def check_enabled(plugin: str, args: Args, path: str, version: Version) -> Errors:
    """Return the errors in arguments that are validated only if their plugin is enabled."""
    if plugin == "NodeResourcesFit":
        return _fit(args, path, version)
    rule = _COMMUNITY.get(plugin)
    return rule(args, path) if rule is not None else iter(())


def _fit(args: Args, path: str, version: Version) -> Errors:
    for i, name in enumerate(args.get("ignoredResources", [])):
        yield from _label_name(f"{path}.ignoredResources[{i}]", name)
    for i, group in enumerate(args.get("ignoredResourceGroups", [])):
        if "/" in group:
            yield FieldError(
                f"{path}.ignoredResourceGroups[{i}]", f'"{group}" is not a valid group: it must not contain "/"'
            )
        yield from _label_name(f"{path}.ignoredResourceGroups[{i}]", group)
    strategy, place = args["scoringStrategy"], f"{path}.scoringStrategy"
    kind, ratio = strategy.get("type", ""), strategy.get("requestedToCapacityRatio")
    if kind not in STRATEGIES:
        yield _unsupported(f"{place}.type", kind, STRATEGIES)
    for i, resource in enumerate(strategy["resources"]):
        yield from _range(f"{place}.resources[{i}].weight", resource["weight"], 1, 100)
    ratio_path = f"{place}.requestedToCapacityRatio"
    if kind == "RequestedToCapacityRatio" and ratio is None:
        yield FieldError(ratio_path, "is required with this type", remedy="Add a shape of at least one point.")
    elif kind != "RequestedToCapacityRatio" and ratio is not None and version == "v1":
        yield FieldError(ratio_path, f'is not allowed with the type "{kind}"', remedy="Remove it or change the type.")
    elif ratio is not None:
        yield from _shape(ratio.get("shape", []), f"{ratio_path}.shape")


def _shape(shape: list[Args], path: str) -> Errors:
    if not shape:
        yield FieldError(path, "needs at least one point", remedy="Write points of utilization and score.")
    for i, (before, point) in enumerate(itertools.pairwise(shape), start=1):
        if before.get("utilization", 0) >= point.get("utilization", 0):
            message = "must be greater than that of the previous point"
            yield FieldError(f"{path}[{i}].utilization", message, remedy="Sort the points by utilization.")
            break
    for i, point in enumerate(shape):
        yield from _range(f"{path}[{i}].utilization", point.get("utilization", 0), 0, 100)
        yield from _range(f"{path}[{i}].score", point.get("score", 0), 0, 10)


# Plugins of scheduler-plugins


def _coscheduling(args: Args, path: str) -> Errors:
    for field in ("permitWaitingTimeSeconds", "podGroupBackoffSeconds"):
        if args[field] < 0:
            yield FieldError(f"{path}.{field}", f"{args[field]} is negative", remedy="Write 0 or more.")
    yield from _range(f"{path}.podGroupRejectPercentage", args["podGroupRejectPercentage"], 0, 100)


def _allocatable(args: Args, path: str) -> Errors:
    for i, resource in enumerate(args["resources"]):
        weight = resource.get("weight", 0)
        if weight <= 0:
            remedy = "Write a weight of 1 or more."
            yield FieldError(f"{path}.resources[{i}].weight", f"{weight} is not above 0", remedy=remedy)
    if args["mode"] not in ("Least", "Most"):
        yield _unsupported(f"{path}.mode", args["mode"], ("Least", "Most"))


_TOPOLOGY_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
_TOPOLOGY_CHOICES: Final = {
    "foreignPodsDetect": ("All", "OnlyExclusiveResources", "None"),
    "resyncMethod": ("Autodetect", "All", "OnlyExclusiveResources"),
    "informerMode": ("Dedicated", "Shared"),
    "resyncScope": ("All", "OnlyResources"),
}


def _topology_match(args: Args, path: str) -> Errors:
    strategy = args["scoringStrategy"].get("type", "")
    if strategy not in _TOPOLOGY_STRATEGIES:
        yield _unsupported(f"{path}.scoringStrategy.type", strategy, _TOPOLOGY_STRATEGIES)
    for field, known in _TOPOLOGY_CHOICES.items():
        if args["cache"][field] not in known:
            yield _unsupported(f"{path}.cache.{field}", args["cache"][field], known)
    mode, place = args["preemptionMode"], f"{path}.preemptionMode"
    if mode == "Enabled":
        yield FieldError(place, "zones are not simulated in preemption yet", remedy="Remove it, or write Disabled.")
    elif mode != "Disabled":
        yield _unsupported(place, mode, ("Disabled",))


_GPU_POLICIES: Final = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD", "mooring")


def _gpu_sharing(args: Args, path: str) -> Errors:
    policy = args.get("policy", "mooring")
    if policy not in _GPU_POLICIES:
        yield _unsupported(f"{path}.policy", policy, _GPU_POLICIES)
    for i, pod in enumerate(args.get("typicalPods") or []):
        place = f"{path}.typicalPods[{i}]"
        if "cpuMilli" not in pod:
            yield FieldError(f"{place}.cpuMilli", "is required", remedy="Write the pod's request in millicores.")
        yield from _range(f"{place}.cpuMilli", pod.get("cpuMilli", 0), 0, 10**6)
        yield from _range(f"{place}.gpuCount", pod.get("gpuCount", 0), 0, 64)
        yield from _range(f"{place}.gpuMilli", pod.get("gpuMilli", 1000), 1, 1000)
        yield from _range(f"{place}.weight", pod.get("weight", 1), 1, 10**6)


_DEVICE_STRATEGIES: Final = ("MostAllocated", "LeastAllocated", "Fragmentation", "Attribute")


def _device_scoring(args: Args, path: str) -> Errors:
    strategy = args.get("strategy", "Fragmentation")
    if strategy not in _DEVICE_STRATEGIES:
        yield _unsupported(f"{path}.strategy", strategy, _DEVICE_STRATEGIES)
    if strategy == "Attribute":
        for field, remedy in (("attribute", "Name the attribute."), ("scores", "Write a score for each value.")):
            if not args.get(field):
                yield FieldError(f"{path}.{field}", "is required", remedy=remedy)
    for value, score in (args.get("scores") or {}).items():
        yield from _range(f"{path}.scores[{value}]", score, 0, 100)


_COMMUNITY: Final[dict[str, Callable[[Args, str], Errors]]] = {
    "Coscheduling": _coscheduling,
    "DeviceScoring": _device_scoring,
    "GpuSharing": _gpu_sharing,
    "NodeResourceTopologyMatch": _topology_match,
    "NodeResourcesAllocatable": _allocatable,
}
_RULES: Final[dict[str, Callable[[Args, str], Errors]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "PodTopologySpread": _topology_spread,
}
