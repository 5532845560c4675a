from math import ceil
from typing import Annotated

from mooring.framework import CustomResource, CycleState, Lister, Meta, NodeInfo, Plugin, Pod


class ClusterScopedResource(
    CustomResource,
    group="scheduling.sigs.k8s.io",
    version="v1alpha1",
    scope="Cluster",
    columns={"Filter": "spec.resources_filter", "Score": "spec.resources_score"},
):
    """The resources that a node offers. Its name is that of the node."""

    class Spec:
        resources_filter: Annotated[
            dict[str, bool],
            Meta(description="Resources that pods may request on this node.", examples=[{"company.net/memory": True}]),
        ] = {}
        resources_score: Annotated[
            dict[str, int],
            Meta(description="The node's score for each resource, 0 to 100.", examples=[{"company.net/memory": 70}]),
        ] = {}

    spec: Spec


class NodeCRDResourceFit(Plugin):
    """Filters and scores nodes by their ClusterScopedResources."""

    resources = Lister(ClusterScopedResource)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        offered = self.resources.get(node.name)
        if offered is None:
            return "the node has no ClusterScopedResource"
        for name in wanted(pod):
            if not offered.spec.resources_filter.get(name):
                return f"resource {name} is not enabled on the node"
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        offered, names = self.resources.get(node.name), wanted(pod)
        if offered is None or not names:
            return 0
        return ceil(sum(min(max(offered.spec.resources_score.get(name, 0), 0), 100) for name in names) / len(names))


def wanted(pod: Pod) -> list[str]:
    """Return the names of the resources that a pod requests."""
    return sorted({name for container in pod.spec.containers for name in container.resources.requests})
