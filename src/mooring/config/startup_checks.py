"""Builds profiles and extenders, with the checks that kube-scheduler makes at startup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.yaml_nodes import compact_json
from mooring.config.args_rules import check_enabled
from mooring.config.builtin_plugins import RETIRED, served
from mooring.config.config_errors import FieldError, nearest
from mooring.config.config_validation import same_args
from mooring.config.defaults import Draft, ProfileDraft, plain_args
from mooring.config.document import PluginArgs
from mooring.config.durations import SECOND, Nanoseconds, format_duration
from mooring.config.extender_tls import TLSProblem, check_tls
from mooring.config.model import Extender, ExtenderTLS, ManagedResource, PluginSet, PluginSpec, Profile
from mooring.config.plugin_merge import Conflict, Plan, Served, running, score_weights
from mooring.config.schema import (
    ARGS,
    GROUP_POST_FILTER,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    POINTS,
    Version,
    shown_points,
)

FIT: Final = "NodeResourcesFit"
_EXTENDER_TIMEOUT: Final = 5 * SECOND
#: The jitter of retryPeriod.
_JITTER: Final = 1.2


class Started(msgspec.Struct):
    """The profiles and extenders of a scheduler, and the errors that prevent a start."""

    profiles: list[Profile]
    extenders: list[Extender]
    errors: list[FieldError]


def start(draft: Draft, plugins: Mapping[str, PluginSpec]) -> Started:
    """Build the profiles and extenders."""
    errors = [*_clashes(draft, plugins), *_election(draft.values["leaderElection"])]
    extenders = [_extender(each, i, errors) for i, each in enumerate(draft.values["extenders"])]
    errors += _ignored_resources(draft, extenders)
    known: Served = {**served(draft.version, draft.release)}
    known.update({name: spec.points for name, spec in plugins.items() if name not in known or spec.replaces_builtin})
    profiles = [_profile(profile, i, draft, known, plugins, errors) for i, profile in enumerate(draft.profiles)]
    errors += _one_queue(draft, profiles)
    return Started(profiles, extenders, errors)


def _clashes(draft: Draft, plugins: Mapping[str, PluginSpec]) -> Iterator[FieldError]:
    builtin = served(draft.version, draft.release)
    for name in sorted(plugins):
        if name in builtin and not plugins[name].replaces_builtin:
            remedy = "Give your plugin another name."
            yield FieldError("", f'a plugin "{name}" is built in and cannot be registered again', remedy=remedy)


def _election(values: dict[str, Any]) -> Iterator[FieldError]:
    renew, retry = values["renewDeadline"], values["retryPeriod"]
    latest = int(_JITTER * retry)
    # A period of centuries overflows in kube-scheduler and is accepted, so it is accepted here.
    if values["leaderElect"] and renew <= latest < 2**63:
        message = f"{format_duration(renew)} is not longer than 1.2 times retryPeriod ({format_duration(retry)})"
        yield FieldError("leaderElection.renewDeadline", message, remedy="Make it longer, or retryPeriod shorter.")


# Extenders


def _extender(values: dict[str, Any], index: int, errors: list[FieldError]) -> Extender:
    tls = values.get("tlsConfig")
    settings = ExtenderTLS(**{_TLS_FIELDS[field]: value for field, value in (tls or {}).items()})
    try:
        check_tls(settings, https=values.get("enableHTTPS", False))
    except TLSProblem as problem:
        path = f"extenders[{index}].tlsConfig.{problem.field}"
        errors.append(FieldError(path, str(problem), remedy="Correct it or remove the field."))
    resources = tuple(
        ManagedResource(each.get("name", ""), each.get("ignoredByScheduler", False))
        for each in values.get("managedResources", [])
    )
    plain = {_EXTENDER_FIELDS[field]: value for field, value in values.items() if field in _EXTENDER_FIELDS}
    return Extender(
        **plain,
        tls_config=settings if tls is not None else None,
        http_timeout=Nanoseconds(values.get("httpTimeout") or _EXTENDER_TIMEOUT),
        managed_resources=resources,
    )


_TLS_FIELDS: Final = {
    "insecure": "insecure",
    "serverName": "server_name",
    "certFile": "cert_file",
    "keyFile": "key_file",
    "caFile": "ca_file",
    "certData": "cert_data",
    "keyData": "key_data",
    "caData": "ca_data",
}
_EXTENDER_FIELDS: Final = {
    "urlPrefix": "url_prefix",
    "filterVerb": "filter_verb",
    "preemptVerb": "preempt_verb",
    "prioritizeVerb": "prioritize_verb",
    "weight": "weight",
    "bindVerb": "bind_verb",
    "enableHTTPS": "enable_https",
    "nodeCacheCapable": "node_cache_capable",
    "ignorable": "ignorable",
}


def _ignored_resources(draft: Draft, extenders: list[Extender]) -> Iterator[FieldError]:
    """Make NodeResourcesFit ignore the resources that extenders manage."""
    ignored = [each.name for extender in extenders for each in extender.managed_resources if each.ignored_by_scheduler]
    if not ignored:
        return
    for i, profile in enumerate(draft.profiles):
        fit = next((args for args in profile.args if args.name == FIT), None)
        if fit is not None:
            fit.value = {**fit.value, "ignoredResources": ignored}
            continue
        message = f"an extender excludes resources from {FIT}, which is not enabled here"
        remedy = f"Add an entry for {FIT} to pluginConfig, with  args: {{}}."
        yield FieldError(f"profiles[{i}].pluginConfig", message, remedy=remedy)


# Profiles


def _profile(
    draft: ProfileDraft,
    index: int,
    whole: Draft,
    served: Served,
    plugins: Mapping[str, PluginSpec],
    errors: list[FieldError],
) -> Profile:
    path, version = f"profiles[{index}]", whole.version
    plan, conflicts = running(draft.sets, served)
    errors += [_conflict_error(conflict, draft.requested, path, served) for conflict in conflicts]
    errors += _counts(plan, path)
    errors += _weights(draft, path, served)
    enabled = {plugin.name for each in draft.sets.values() for plugin in each.enabled}
    for i, args in enumerate(draft.args):
        if args.name in enabled:
            errors += _args(args, f"{path}.pluginConfig[{i}].args", version, plugins.get(args.name))
    errors += _missing_args(draft, path, version)
    return Profile(
        scheduler_name=draft.scheduler_name,
        percentage_of_nodes_to_score=draft.percentage_of_nodes_to_score,
        plugins={point: plan[point] for point in shown_points(version, whole.release)},
        plugin_config={args.name: plain_args(args, version) for args in draft.args},
        plugin_sets=draft.sets,
    )


def _conflict_error(conflict: Conflict, requested: dict[str, Any], path: str, served: Served) -> FieldError:
    """Return the error for a conflict, with its path and remedy."""
    name, point = conflict.plugin, conflict.point
    entries = requested.get(point, {}).get("enabled", [])
    indices = [index for index, entry in enumerate(entries) if entry.get("name", "") == name]
    place = f"{path}.plugins.{point}.enabled" + (f"[{indices[-1]}]" if indices else "")
    if name in served:
        points = ", ".join(each for each in POINTS if each in served[name])
        remedy = f"Its extension points: {points or 'none'}." if "serve" in conflict.problem else "Remove one."
    elif name in RETIRED:
        remedy = f"Remove it: {RETIRED[name]}."
    else:
        close = nearest(name, served)
        own = f"If it is your own plugin, load it with --plugin {name}=FILE or from a --plugins-dir."
        remedy = f'Did you mean "{close}"? {own}' if close else own
    return FieldError(place, conflict.problem, remedy=remedy)


def _counts(plan: Plan, path: str) -> Iterator[FieldError]:
    sorters = [plugin.name for plugin in plan["queueSort"]]
    if len(sorters) != 1:
        found = " and ".join(sorters) or "none"
        message = f"exactly one plugin must sort the queue, found {found}"
        yield FieldError(f"{path}.plugins.queueSort", message, remedy="Enable one, such as PrioritySort.")
    if not plan["bind"]:
        message = "no plugin binds pods to nodes"
        yield FieldError(f"{path}.plugins.bind", message, remedy="Enable one, such as DefaultBinder.")
    if len(plan.get(PLACEMENT_GENERATE, ())) > 1:
        message = "at most one plugin may generate placements"
        yield FieldError(f"{path}.plugins.{PLACEMENT_GENERATE}", message, remedy="Enable only one of them.")


def _missing_args(draft: ProfileDraft, path: str, version: Version) -> Iterator[FieldError]:
    """Check that plugins at podGroupPostFilter have arguments, because defaulting does not look at this point."""
    configured = {args.name for args in draft.args}
    for i, plugin in enumerate(draft.sets.get(GROUP_POST_FILTER, PluginSet()).enabled):
        if plugin.name in ARGS[version] and plugin.name not in configured:
            message = f'the plugin "{plugin.name}" has no arguments, because it is enabled only here'
            remedy = f"Add an entry for {plugin.name} to pluginConfig, with  args: {{}}, or enable it at multiPoint."
            yield FieldError(f"{path}.plugins.{GROUP_POST_FILTER}.enabled[{i}]", message, remedy=remedy)


def _weights(draft: ProfileDraft, path: str, served: Served) -> Iterator[FieldError]:
    """Check the sum of weights. Negative weights are allowed, but no negative partial sum."""
    for point in ("score", PLACEMENT_SCORE):
        total = 0
        for weight in score_weights(draft.sets, served, point=point).values():
            if total < 0:
                message = "negative weights make the total score overflow"
                yield FieldError(f"{path}.plugins.{point}", message, remedy="Give every plugin a weight of 1 or more.")
                break
            total += weight


def _args(args: PluginArgs, path: str, version: Version, spec: PluginSpec | None) -> Iterator[FieldError]:
    if args.declared:
        yield from check_enabled(args.name, args.value, path, version)
    elif spec is not None and spec.check_args is not None:
        for error in spec.check_args(args.value):
            yield msgspec.structs.replace(error, path=f"{path}.{error.path}" if error.path else path)


def _one_queue(draft: Draft, profiles: list[Profile]) -> Iterator[FieldError]:
    """Check that all profiles sort the shared queue with the same plugin and arguments."""
    sorters = [profile.plugins["queueSort"][:1] for profile in profiles]
    args = [
        next((each for each in profile.args if sorter and each.name == sorter[0].name), None)
        for profile, sorter in zip(draft.profiles, sorters, strict=True)
    ]
    for i in range(1, len(profiles)):
        if sorters[i] != sorters[0]:
            message = "sorts the queue with a different plugin from profiles[0]"
            yield FieldError(f"profiles[{i}].plugins.queueSort", message, remedy="Use one plugin in all profiles.")
        elif not same_args(_compacted(args[0], draft.version), _compacted(args[i], draft.version)):
            message = "sorts the queue with different arguments from profiles[0]"
            yield FieldError(f"profiles[{i}].pluginConfig", message, remedy="Give the same arguments in all profiles.")


def _compacted(args: PluginArgs | None, version: Version) -> PluginArgs | None:
    """Return arguments as compact JSON, because v1 ignores white space."""
    if args is None or args.raw is None or version != "v1":
        return args
    return msgspec.structs.replace(args, raw=compact_json(args.raw))
