"""CapacityScheduling: namespace quotas that lend unused capacity."""

from mooring.plugins.capacity_scheduling.plugin import CapacityScheduling

__all__ = ["CapacityScheduling"]
