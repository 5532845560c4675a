"""Validation of a configuration. Reports all errors, not only the first."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.api.label_validation import is_label_key, label_key_errors
from mooring.config.args_rules import check_args
from mooring.config.builtin_plugins import REFUSED, RETIRED
from mooring.config.config_errors import FieldError
from mooring.config.defaults import Draft, ProfileDraft
from mooring.config.document import PluginArgs
from mooring.config.durations import format_duration
from mooring.config.model import LeaderElection
from mooring.config.schema import shown_points

_PORT: Final = re.compile(r"[-+]?[0-9]{1,18}")
_OCTETS: Final = re.compile(r"0*([0-9]{1,3})\.0*([0-9]{1,3})\.0*([0-9]{1,3})\.0*([0-9]{1,3})")


def validate(draft: Draft) -> list[FieldError]:
    """Return all validation errors."""
    values = draft.values
    return [
        *_client_connection(values["clientConnection"]),
        *_leader_election(values["leaderElection"]),
        *_numbers(values),
        *_profiles(draft),
        *_extenders(values["extenders"]),
        *_bind_address("healthzBindAddress", values.get("healthzBindAddress", "")),
        *_bind_address("metricsBindAddress", values.get("metricsBindAddress", "")),
    ]


def percentage(path: str, value: int | None) -> Iterator[FieldError]:
    """Validate a percentage of nodes, if it is set."""
    if value is not None and not 0 <= value <= 100:
        yield FieldError(path, f"{value} is not a percentage", remedy="Write 0 to 100; with 0 the scheduler chooses.")


def _numbers(values: dict[str, Any]) -> Iterator[FieldError]:
    if values["parallelism"] <= 0:
        yield FieldError("parallelism", f"{values['parallelism']} is not above 0", remedy="Write 1 or more.")
    yield from percentage("percentageOfNodesToScore", values["percentageOfNodesToScore"])
    first, most = values["podInitialBackoffSeconds"], values["podMaxBackoffSeconds"]
    if first <= 0:
        yield FieldError("podInitialBackoffSeconds", f"{first} is not above 0", remedy="Write 1 or more.")
    if most < first:
        message = f"{most} is less than podInitialBackoffSeconds ({first})"
        yield FieldError("podMaxBackoffSeconds", message, remedy=f"Write {max(first, 1)} or more.")


def _client_connection(values: dict[str, Any]) -> Iterator[FieldError]:
    if values["burst"] < 0:
        yield FieldError("clientConnection.burst", f"{values['burst']} is negative", remedy="Write 0 or more.")


def _leader_election(values: dict[str, Any]) -> Iterator[FieldError]:
    if not values["leaderElect"]:
        return
    for field in ("leaseDuration", "renewDeadline", "retryPeriod"):
        if values[field] <= 0:
            message = f"{format_duration(values[field])} is not above zero"
            yield FieldError(f"leaderElection.{field}", message, remedy="Write a duration such as 15s.")
    lease, renew = values["leaseDuration"], values["renewDeadline"]
    if lease <= renew:
        message = f"{format_duration(lease)} is not longer than renewDeadline ({format_duration(renew)})"
        yield FieldError("leaderElection.leaseDuration", message, remedy="Make it longer, or the deadline shorter.")
    if values["resourceLock"] != "leases":
        message = f'"{values["resourceLock"]}" is not a supported kind of lock'
        yield FieldError("leaderElection.resourceLock", message, remedy='Write "leases" or remove the field.')


# Profiles


def _profiles(draft: Draft) -> Iterator[FieldError]:
    named: dict[str, int] = {}
    for i, profile in enumerate(draft.profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name
        if not name:
            yield FieldError(f"{path}.schedulerName", "a name is required", remedy="Give each profile its own name.")
        yield from percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _plugins(path, profile, draft)
        if name in named:
            message = f'"{name}" is also the name of profiles[{named[name]}]'
            yield FieldError(f"{path}.schedulerName", message, remedy="Give each profile its own name.")
        named[name] = i
    yield from _queue_sort(draft.profiles)


def _plugins(path: str, profile: ProfileDraft, draft: Draft) -> Iterator[FieldError]:
    version, release = draft.version, draft.release
    for point in shown_points(version, release):
        for i, plugin in enumerate(profile.sets[point].enabled):
            if plugin.name in REFUSED[version]:
                yield _refused(f"{path}.plugins.{point}.enabled[{i}]", plugin.name)
    seen: set[str] = set()
    for i, args in enumerate(profile.args):
        place = f"{path}.pluginConfig[{i}]"
        if args.name in seen:
            message = f'"{args.name}" already has arguments'
            yield FieldError(place, message, remedy="Put all arguments of a plugin into one entry.")
        seen.add(args.name)
        if args.name in REFUSED[version]:
            yield _refused(place, args.name)
        elif args.declared:
            yield from _without_repetition(check_args(args.name, args.value, f"{place}.args", release))


def _refused(path: str, name: str) -> FieldError:
    return FieldError(path, f'the plugin "{name}" does not exist in v1', remedy=f"Remove it: {RETIRED[name]}.")


def _without_repetition(errors: Iterator[FieldError]) -> Iterator[FieldError]:
    return iter(dict.fromkeys(errors))


def _queue_sort(profiles: list[ProfileDraft]) -> Iterator[FieldError]:
    """Check that all profiles sort the shared queue in the same way."""
    first = profiles[0].sets["queueSort"]
    name = first.enabled[0].name if first.enabled else ""
    if len(first.enabled) > 1:
        message = f"{len(first.enabled)} plugins sort the queue"
        yield FieldError("profiles[0].plugins.queueSort.Enabled", message, remedy="Enable only one of them.")
    args = next((each for each in reversed(profiles[0].args) if name and each.name == name), None)
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.sets["queueSort"] != first:
            message = "sorts the queue differently from profiles[0]"
            remedy = "Write the same under queueSort in all profiles."
            yield FieldError(f"profiles[{i}].plugins.queueSort", message, remedy=remedy)
        for each in profile.args:
            if each.name == name and not same_args(args, each):
                message = f'the arguments of "{name}", which sorts the queue, differ from those in profiles[0]'
                remedy = "Give it the same arguments in all profiles."
                yield FieldError(f"profiles[{i}].pluginConfig.args", message, remedy=remedy)


def same_args(a: PluginArgs | None, b: PluginArgs | None) -> bool:
    """Return whether two plugins have the same arguments."""
    return bool(_comparable(a) == _comparable(b))


def _comparable(args: PluginArgs | None) -> Any:
    if args is None:
        return None
    return _set_only(args.value) if args.declared else args.raw


def _set_only(value: Any) -> Any:
    """Return declared arguments without zero values."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := _set_only(each))}
    return [_set_only(each) for each in value] if isinstance(value, list) else value


# Extenders


def _extenders(extenders: list[dict[str, Any]]) -> Iterator[FieldError]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        weight = extender.get("weight", 0)
        if extender.get("prioritizeVerb") and weight <= 0:
            message = f"an extender with a prioritizeVerb needs a weight above 0, not {weight}"
            yield FieldError(f"{path}.weight", message, remedy="Write 1 or more.")
        for j, resource in enumerate(extender.get("managedResources", [])):
            place, name = f"{path}.managedResources[{j}].name", resource.get("name", "")
            yield from _resource_name(place, name)
            if name in managed:
                message = f'"{name}" is already managed by an extender'
                yield FieldError(place, message, remedy="Name each resource once.")
            managed.add(name)
    binders = sum(1 for extender in extenders if extender.get("bindVerb"))
    if binders > 1:
        message = f"{binders} extenders have a bindVerb"
        yield FieldError("extenders", message, remedy="Let only one extender bind.")


def _resource_name(path: str, name: str) -> Iterator[FieldError]:
    problems = label_key_errors(name)
    for problem in problems:
        yield FieldError(path, f'"{name}" is not a valid resource name: {problem}')
    prefix = "requests."
    own = "/" in name and "kubernetes.io/" not in name and not name.startswith(prefix)
    if not problems and not (own and is_label_key(prefix + name)):
        message = f'"{name}" is not an extended resource'
        yield FieldError(path, message, remedy="Write a name with your own domain, such as example.com/gpu.")


# Addresses of v1beta2


def _bind_address(field: str, address: str) -> Iterator[FieldError]:
    if not address:
        return
    remedy = "Remove the field: the scheduler serves metrics and health at its secure port only."
    parts = _split_address(address)
    if parts is None:
        yield FieldError(field, f'"{address}" is not an IP address and a port', remedy=remedy)
        return
    host, port = parts
    if not _is_ip(host):
        yield FieldError(field, f'"{host}" is not an IP address', remedy=remedy)
    if port != 0:
        yield FieldError(field, f"the port is {port}, not 0", remedy=remedy)


def _split_address(address: str) -> tuple[str, int] | None:
    """Split host and port; an IPv6 host is in brackets."""
    host, colon, port = address.rpartition(":")
    if host.startswith("["):
        inner, bracket, rest = host[1:].partition("]")
        if not bracket or rest or "[" in inner + port or "]" in port:
            return None
        host = inner
    elif ":" in host or any(char in address for char in "[]"):
        return None
    return (host, int(port)) if colon and _PORT.fullmatch(port) else None


def _is_ip(text: str) -> bool:
    octets = _OCTETS.fullmatch(text)
    if octets is not None:
        return all(int(octet) < 256 for octet in octets.groups())
    try:
        return "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


# Leader election, which flags can change after the file was read

#: The jitter of the retry period.
_JITTER: Final = 1.2


def check_election(election: LeaderElection) -> list[str]:
    """Return the errors, such as ``lease-duration: must be ...``; none if leader election is disabled."""
    return list(_election_problems(election)) if election.leader_elect else []


def _election_problems(election: LeaderElection) -> Iterator[str]:
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    for name, value in (("lease-duration", lease), ("renew-deadline", renew), ("retry-period", retry)):
        if value <= 0:
            yield f"{name}: {format_duration(value)} must be greater than zero"
    if renew >= lease:
        yield f"renew-deadline: {format_duration(renew)} must be shorter than lease-duration ({format_duration(lease)})"
    if renew <= _JITTER * retry:
        yield (
            f"renew-deadline: {format_duration(renew)} must be longer than 1.2 times retry-period "
            f"({format_duration(retry)})"
        )
    if election.resource_lock != "leases":
        yield f"resource-lock: {election.resource_lock!r} is not supported; use leases"
    if not election.resource_name:
        yield "resource-name: must not be empty"
    if not election.resource_namespace:
        yield "resource-namespace: must not be empty"
