"""NodeVolumeLimits: limits the number of CSI volumes that are attached to a node."""

from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
