"""A valid scheduler configuration with all defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from mooring.config.config_errors import FieldError
from mooring.config.durations import Nanoseconds
from mooring.config.schema import Version
from mooring.releases import Release

#: Which of several nodes with the highest score is chosen.
TieBreak = Literal["random", "stable"]


class PluginSpec(msgspec.Struct, frozen=True):
    """The properties of a plugin that is not built in, as far as a configuration depends on them."""

    name: str
    #: Its extension points by their names in the configuration: preFilter, filter, ...
    points: frozenset[str]
    #: Validates its arguments; None if it accepts any arguments.
    check_args: Callable[[object], list[FieldError]] | None = None
    #: Whether it replaces the built-in plugin of the same name.
    replaces_builtin: bool = False


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin at one extension point. Only `score` uses the weight."""

    name: str
    weight: int = 0


class PluginSet(msgspec.Struct, frozen=True):
    """The plugins of one extension point, after merging with the defaults."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduling profile for pods of one scheduler name."""

    scheduler_name: str
    #: None means the percentage of the configuration.
    percentage_of_nodes_to_score: int | None = None
    #: The plugins of each extension point, in order, after expanding multiPoint.
    plugins: dict[str, tuple[EnabledPlugin, ...]]
    #: The arguments in effect of each plugin that has any, as plain data.
    plugin_config: dict[str, Any]
    #: The plugin sets of each point and of multiPoint, from which `plugins` is computed.
    plugin_sets: dict[str, PluginSet]


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of leader election."""

    leader_elect: bool
    lease_duration: Nanoseconds
    renew_deadline: Nanoseconds
    retry_period: Nanoseconds
    resource_lock: str
    resource_name: str
    resource_namespace: str


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the connection to the API server."""

    kubeconfig: str
    accept_content_types: str
    content_type: str
    qps: float
    burst: int


class ManagedResource(msgspec.Struct, frozen=True):
    """A resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLS(msgspec.Struct, frozen=True, kw_only=True):
    """TLS settings of the connection to an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls_config: ExtenderTLS | None = None
    http_timeout: Nanoseconds
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler configuration, independent of the version of the file."""

    version: Version
    #: The release of kube-scheduler whose behaviour is configured.
    release: Release
    parallelism: int
    leader_election: LeaderElection
    client_connection: ClientConnection
    enable_profiling: bool
    enable_contention_profiling: bool
    percentage_of_nodes_to_score: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    profiles: tuple[Profile, ...]
    #: In call order: ignorable extenders last.
    extenders: tuple[Extender, ...] = ()
    #: In the order of the file.
    written_extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    #: Which of several nodes with the highest score is chosen. Not a field of kube-scheduler's file: kube-scheduler
    #: always chooses at random.
    tie_break: TieBreak = "random"
    #: Only in v1beta2, where it must be empty or have port 0.
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
