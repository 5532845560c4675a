"""NodeResourcesFit, NodeResourcesBalancedAllocation and NodeResourcesAllocatable."""

from mooring.plugins.node_resources.allocatable import NodeResourcesAllocatable
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.fit import NodeResourcesFit

__all__ = ["NodeResourcesAllocatable", "NodeResourcesBalancedAllocation", "NodeResourcesFit"]
