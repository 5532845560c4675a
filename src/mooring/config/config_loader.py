"""Loads a configuration from the text of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.config.config_validation import validate
from mooring.config.defaults import Draft, with_defaults
from mooring.config.document import Document, read_document
from mooring.config.model import ClientConnection, LeaderElection, PluginSpec, SchedulerConfiguration
from mooring.config.schema import GROUP, KIND, VERSIONS
from mooring.config.startup_checks import Started, start
from mooring.releases import NEWEST, Release

_EMPTY: Final = f"apiVersion: {GROUP}/{VERSIONS[0]}\nkind: {KIND}\n"


def load_config(
    text: str, *, source: str, plugins: Mapping[str, PluginSpec] | None = None, release: Release = NEWEST
) -> SchedulerConfiguration:
    """Read a KubeSchedulerConfiguration of version v1, v1beta3 or v1beta2, in YAML or JSON, as a release reads it.

    `source` is the file name for messages; `plugins` are those that are not built in. Raises ConfigError with all
    errors of the first stage that fails: decode, validate or start.
    """
    return load_document(read_document(text, source=source, release=release), plugins=plugins)


def load_document(document: Document, *, plugins: Mapping[str, PluginSpec] | None = None) -> SchedulerConfiguration:
    """Return the configuration of a decoded file. Raises ConfigError."""
    draft = with_defaults(document)
    broken = validate(draft)
    if broken:
        raise document.fail(broken, "validate")
    started = start(draft, plugins or {})
    if started.errors:
        raise document.fail(started.errors, "start")
    return _configuration(draft, started)


def default_config(release: Release = NEWEST) -> SchedulerConfiguration:
    """Return the default configuration of a release."""
    return load_config(_EMPTY, source="defaults", release=release)


def _configuration(draft: Draft, started: Started) -> SchedulerConfiguration:
    values = draft.values
    leader: dict[str, Any] = values["leaderElection"]
    client: dict[str, Any] = values["clientConnection"]
    return SchedulerConfiguration(
        version=draft.version,
        release=draft.release,
        parallelism=values["parallelism"],
        leader_election=LeaderElection(
            leader_elect=leader["leaderElect"],
            lease_duration=leader["leaseDuration"],
            renew_deadline=leader["renewDeadline"],
            retry_period=leader["retryPeriod"],
            resource_lock=leader["resourceLock"],
            resource_name=leader["resourceName"],
            resource_namespace=leader["resourceNamespace"],
        ),
        client_connection=ClientConnection(
            kubeconfig=client["kubeconfig"],
            accept_content_types=client["acceptContentTypes"],
            content_type=client["contentType"],
            qps=client["qps"],
            burst=client["burst"],
        ),
        enable_profiling=values["enableProfiling"],
        enable_contention_profiling=values["enableContentionProfiling"],
        percentage_of_nodes_to_score=values["percentageOfNodesToScore"],
        pod_initial_backoff_seconds=values["podInitialBackoffSeconds"],
        pod_max_backoff_seconds=values["podMaxBackoffSeconds"],
        profiles=tuple(started.profiles),
        extenders=tuple(sorted(started.extenders, key=lambda extender: extender.ignorable)),
        written_extenders=tuple(started.extenders),
        delay_cache_until_active=values.get("delayCacheUntilActive", False),
        healthz_bind_address=values.get("healthzBindAddress", ""),
        metrics_bind_address=values.get("metricsBindAddress", ""),
    )
