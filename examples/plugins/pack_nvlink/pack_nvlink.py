from collections import Counter

from mooring.framework import DeviceAllocation, Plugin, Pod


class PackNvlinkArgs:
    attribute: str = "nvlinkDomain"


class PackNvlink(Plugin[PackNvlinkArgs]):
    """Gives a pod GPUs that are linked with each other, and keeps linked GPUs together for later pods."""

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> float:
        domains = [device.attribute(self.args.attribute) for device in allocation.devices]
        mine = Counter(domains[place] for place in allocation.chosen)
        if not mine:
            return 0
        linked = max(mine.values()) / len(allocation.chosen)
        left = Counter(domain for domain, free in zip(domains, allocation.free_after, strict=True) if free)
        wasted = sum(left[domain] for domain in mine) / len(domains)
        return 80 * linked + 20 * (1 - wasted)
