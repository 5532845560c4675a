"""A scheduler configuration that passed every check: what is in force, with all defaults filled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.config.config_errors import FieldError
from mooring.config.durations import Nanoseconds
from mooring.config.schema import Version


class PluginSpec(msgspec.Struct, frozen=True):
    """A plugin that is not built in, as far as the configuration needs to know it."""

    name: str
    #: The extension points it serves, as the configuration calls them: preFilter, filter, ...
    points: frozenset[str]
    #: Says what is wrong with its arguments, with paths within them; None if it takes arguments of any shape.
    check_args: Callable[[object], list[FieldError]] | None = None
    #: Whether it takes the place of the built-in plugin of its name.
    replaces_builtin: bool = False


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin at one extension point. The weight counts at `score` only."""

    name: str
    weight: int = 0


class PluginSet(msgspec.Struct, frozen=True):
    """What a configuration says about one extension point, after merging with the defaults."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How pods of one scheduler name are scheduled."""

    scheduler_name: str
    #: None where the configuration's own percentage counts.
    percentage_of_nodes_to_score: int | None = None
    #: What runs at each of the twelve points, in running order, after expanding multiPoint.
    plugins: dict[str, tuple[EnabledPlugin, ...]]
    #: The arguments in force of each plugin that has any, as plain data.
    plugin_config: dict[str, Any]
    #: What was asked for at each point and under multiPoint, from which `plugins` follows.
    plugin_sets: dict[str, PluginSet]


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how several schedulers agree on which of them works."""

    leader_elect: bool
    lease_duration: Nanoseconds
    renew_deadline: Nanoseconds
    retry_period: Nanoseconds
    resource_lock: str
    resource_name: str
    resource_namespace: str


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How to talk to the API server."""

    kubeconfig: str
    accept_content_types: str
    content_type: str
    qps: float
    burst: int


class ManagedResource(msgspec.Struct, frozen=True):
    """A resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLS(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection to an extender is secured."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(msgspec.Struct, frozen=True, kw_only=True):
    """A web hook that takes part in scheduling decisions."""

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
    """Everything a scheduler is told, of whichever version the file was."""

    version: Version
    parallelism: int
    leader_election: LeaderElection
    client_connection: ClientConnection
    enable_profiling: bool
    enable_contention_profiling: bool
    percentage_of_nodes_to_score: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    profiles: tuple[Profile, ...]
    #: In the order in which they are called: those that may fail come last.
    extenders: tuple[Extender, ...] = ()
    #: In the order in which they were written.
    written_extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    #: Only in v1beta2, where it must be empty or have port 0.
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
