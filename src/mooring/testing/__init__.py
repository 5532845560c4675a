"""For tests of plugins: builders of Kubernetes objects, and a harness that runs a plugin on a small cluster."""

from typing import TYPE_CHECKING, Any

from mooring.testing.builder import Builder, selector
from mooring.testing.expect import check_run
from mooring.testing.harness import PluginHarness, PluginRun, run_plugin
from mooring.testing.nodes import NodeBuilder, make_node
from mooring.testing.objects import (
    make_namespace,
    make_pdb,
    make_priority_class,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
)
from mooring.testing.pods import PodBuilder, make_pod
from mooring.testing.sessions import run_session
from mooring.testing.storage import (
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_pv,
    make_pvc,
    make_storage_class,
    make_volume_attachment,
)
from mooring.testing.what_if import check_what_if, make_victims

if TYPE_CHECKING:
    from mooring.testing.cluster import PluginCluster

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
    """A cluster brings a web server with it: those who only call a plugin need not wait for that."""
    if name == "PluginCluster":
        from mooring.testing.cluster import PluginCluster

        return PluginCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
