"""All controllers of the cluster, in one loop."""

from mooring.cluster.controllers.base import ControllerLoop, Tools
from mooring.cluster.controllers.budgets import Budgets
from mooring.cluster.controllers.daemonsets import DaemonSets
from mooring.cluster.controllers.deployments import Deployments
from mooring.cluster.controllers.ephemeral import EphemeralClaims
from mooring.cluster.controllers.events import OldEvents
from mooring.cluster.controllers.garbage import GarbageCollector
from mooring.cluster.controllers.jobs import Jobs
from mooring.cluster.controllers.namespaces import Namespaces
from mooring.cluster.controllers.nodes import NodeTaints, OrphanedPods, TaintEviction
from mooring.cluster.controllers.replicasets import ReplicaSets, ReplicationControllers
from mooring.cluster.controllers.statefulsets import StatefulSets
from mooring.cluster.controllers.volumes import Volumes


def all_controllers(tools: Tools) -> ControllerLoop:
    """The loop that runs every controller."""
    kinds = (
        Namespaces,
        GarbageCollector,
        Deployments,
        ReplicaSets,
        ReplicationControllers,
        StatefulSets,
        DaemonSets,
        Jobs,
        Budgets,
        NodeTaints,
        TaintEviction,
        OrphanedPods,
        Volumes,
        EphemeralClaims,
        OldEvents,
    )
    return ControllerLoop(tools.store, [kind(tools) for kind in kinds])
