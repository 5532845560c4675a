from mooring.framework import DeviceAllocation, Plugin, Pod


class SpareLargeGpusArgs:
    attribute: str = "gibibytes"
    #: The size that scores 0.
    largest: int = 100


class SpareLargeGpus(Plugin[SpareLargeGpusArgs]):
    """Gives pods the smallest GPUs that satisfy their claims, unless their priority is high."""

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> float:
        if pod.priority >= 1000:
            return 0
        sizes = [device.attribute(self.args.attribute) for device in allocation.chosen_devices]
        known = [size for size in sizes if isinstance(size, int)]
        return max(100 - 100 * max(known) / self.args.largest, 0) if known else 0
