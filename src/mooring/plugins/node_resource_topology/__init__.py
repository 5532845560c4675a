"""NodeResourceTopologyMatch: places pods on nodes where they fit into a NUMA zone."""

from mooring.plugins.node_resource_topology.plugin import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch"]
