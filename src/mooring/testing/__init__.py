"""Helpers for testing plugins: object builders, and harnesses that run a plugin on a small cluster."""

from typing import TYPE_CHECKING, Any

from mooring.testing.builders import (
    Builder,
    NodeBuilder,
    make_namespace,
    make_node,
    make_pdb,
    make_priority_class,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
    selector,
)
from mooring.testing.harness import (
    PluginHarness,
    PluginRun,
    check_run,
    check_what_if,
    make_victims,
    run_plugin,
    run_session,
)
from mooring.testing.pod_builder import PodBuilder, make_pod
from mooring.testing.storage_builders import (
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_pv,
    make_pvc,
    make_storage_class,
    make_volume_attachment,
)

if TYPE_CHECKING:
    from mooring.testing.plugin_cluster import PluginCluster

__all__ = [
    "Builder",
    "NodeBuilder",
    "PluginCluster",
    "PluginHarness",
    "PluginRun",
    "PodBuilder",
    "check_run",
    "check_what_if",
    "make_csi_capacity",
    "make_csi_driver",
    "make_csi_node",
    "make_namespace",
    "make_node",
    "make_pdb",
    "make_pod",
    "make_priority_class",
    "make_pv",
    "make_pvc",
    "make_replica_set",
    "make_replication_controller",
    "make_service",
    "make_stateful_set",
    "make_storage_class",
    "make_victims",
    "make_volume_attachment",
    "run_plugin",
    "run_session",
    "selector",
]


def __getattr__(name: str) -> Any:
    """Import PluginCluster on use, because it imports a web server."""
    if name == "PluginCluster":
        from mooring.testing.plugin_cluster import PluginCluster

        return PluginCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
