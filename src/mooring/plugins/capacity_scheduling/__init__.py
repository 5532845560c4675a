"""CapacityScheduling: quotas of namespaces that may lend what they do not use."""

from mooring.plugins.capacity_scheduling.plugin import CapacityScheduling

__all__ = ["CapacityScheduling"]
