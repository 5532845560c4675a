"""PodTopologySpread: keeps pods that belong together spread over zones, hosts or other domains."""

from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
