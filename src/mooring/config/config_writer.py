"""Converts a configuration to plain data: as kube-scheduler's --write-config-to does, or with everything expanded."""

from __future__ import annotations

import base64
from typing import Any

from mooring.config.durations import format_duration
from mooring.config.model import EnabledPlugin, Extender, PluginSet, Profile, SchedulerConfiguration
from mooring.config.schema import ARGS, GROUP, KIND


def effective(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration in effect, with everything expanded.

    In each profile, `plugins` lists the plugins of each point in order, and `pluginConfig` maps names to arguments.
    """
    result = {"apiVersion": f"{GROUP}/{config.version}", **_settings(config)}
    result["profiles"] = [_expanded_profile(profile) for profile in config.profiles]
    if config.extenders:
        result["extenders"] = [_extender(extender) for extender in config.written_extenders]
        result["extenderOrder"] = [extender.url_prefix for extender in config.extenders]
    return result


def written(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the file that kube-scheduler writes with --write-config-to: the settings merged with all defaults."""
    result = {"apiVersion": f"{GROUP}/{config.version}", "kind": KIND, **_settings(config)}
    result["profiles"] = [_written_profile(profile, config) for profile in config.profiles]
    if config.written_extenders:
        result["extenders"] = [_extender(extender) for extender in config.written_extenders]
    return result


def _settings(config: SchedulerConfiguration) -> dict[str, Any]:
    leader, client = config.leader_election, config.client_connection
    result: dict[str, Any] = {
        "parallelism": config.parallelism,
        "leaderElection": {
            "leaderElect": leader.leader_elect,
            "leaseDuration": format_duration(leader.lease_duration),
            "renewDeadline": format_duration(leader.renew_deadline),
            "retryPeriod": format_duration(leader.retry_period),
            "resourceLock": leader.resource_lock,
            "resourceName": leader.resource_name,
            "resourceNamespace": leader.resource_namespace,
        },
        "clientConnection": {
            "kubeconfig": client.kubeconfig,
            "acceptContentTypes": client.accept_content_types,
            "contentType": client.content_type,
            "qps": int(client.qps) if client.qps == int(client.qps) else client.qps,
            "burst": client.burst,
        },
        "enableProfiling": config.enable_profiling,
        "enableContentionProfiling": config.enable_contention_profiling,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
    }
    if config.delay_cache_until_active:
        result["delayCacheUntilActive"] = True
    if config.version == "v1beta2":
        result["healthzBindAddress"] = config.healthz_bind_address
        result["metricsBindAddress"] = config.metrics_bind_address
    return result


def _profile(profile: Profile) -> dict[str, Any]:
    result: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        result["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return result


def _expanded_profile(profile: Profile) -> dict[str, Any]:
    return {
        **_profile(profile),
        "plugins": {
            point: [_plugin(each, weighted=point == "score") for each in plugins]
            for point, plugins in profile.plugins.items()
        },
        "pluginConfig": profile.plugin_config,
    }


def _written_profile(profile: Profile, config: SchedulerConfiguration) -> dict[str, Any]:
    """Return a profile with the arguments of enabled plugins only, sorted by name, as kube-scheduler does."""
    enabled = {plugin.name for each in profile.plugin_sets.values() for plugin in each.enabled}
    arguments = []
    for name in sorted(enabled & profile.plugin_config.keys()):
        args = profile.plugin_config[name]
        if name in ARGS[config.version]:
            args = {"apiVersion": f"{GROUP}/{config.version}", "kind": f"{name}Args", **args}
        if args is not None:
            arguments.append({"name": name, "args": args})
    sets = {point: _plugin_set(each) for point, each in profile.plugin_sets.items()}
    return {**_profile(profile), "plugins": sets, **({"pluginConfig": arguments} if arguments else {})}


def _plugin_set(plugins: PluginSet) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if plugins.enabled:
        result["enabled"] = [_plugin(each, weighted=True) for each in plugins.enabled]
    if plugins.disabled:
        result["disabled"] = [{"name": name} for name in plugins.disabled]
    return result


def _plugin(plugin: EnabledPlugin, *, weighted: bool) -> dict[str, Any]:
    return {"name": plugin.name, **({"weight": plugin.weight} if weighted and plugin.weight else {})}


def _extender(extender: Extender) -> dict[str, Any]:
    tls = extender.tls_config
    fields: dict[str, Any] = {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "httpTimeout": format_duration(extender.http_timeout),
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            _set_fields({"name": each.name, "ignoredByScheduler": each.ignored_by_scheduler})
            for each in extender.managed_resources
        ],
        "ignorable": extender.ignorable,
    }
    result = {"urlPrefix": extender.url_prefix, **_set_fields(fields)}
    if tls is not None:
        result["tlsConfig"] = _set_fields(
            {
                "insecure": tls.insecure,
                "serverName": tls.server_name,
                "certFile": tls.cert_file,
                "keyFile": tls.key_file,
                "caFile": tls.ca_file,
                "certData": base64.b64encode(tls.cert_data).decode(),
                "keyData": base64.b64encode(tls.key_data).decode(),
                "caData": base64.b64encode(tls.ca_data).decode(),
            }
        )
    return result


def _set_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if value}
