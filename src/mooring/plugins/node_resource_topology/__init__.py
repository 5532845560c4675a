"""NodeResourceTopologyMatch: pods that must fit into a NUMA zone go where one has room for them."""

from mooring.plugins.node_resource_topology.plugin import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch"]
