from mooring.framework import DeviceAllocation, Plugin, Pod


class InferenceOnPartitionsArgs:
    label: str = "workload"
    value: str = "inference"


class InferenceOnPartitions(Plugin[InferenceOnPartitionsArgs]):
    """Gives inference pods partitions of GPUs that are partitioned already, and all other pods whole GPUs."""

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> float:
        chosen = allocation.chosen_devices
        if not chosen:
            return 0
        partitions = sum(bool(device.counter_sets) for device in chosen) / len(chosen)
        if pod.labels.get(self.args.label) != self.args.value:
            return 100 * (1 - partitions)
        lost = sum(allocation.free_before) - sum(allocation.free_after) - len(chosen)
        return 50 * partitions + 50 / (1 + max(lost, 0))
