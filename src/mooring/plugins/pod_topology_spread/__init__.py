"""PodTopologySpread: spreads pods evenly over zones, hosts or other topology domains."""

from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
