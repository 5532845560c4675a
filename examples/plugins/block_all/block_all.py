import logging

from mooring.framework import CycleState, Nodes, Plugin, Pod, Status

log = logging.getLogger("mooring.plugins.BlockAllScheduler")


class BlockAllScheduler(Plugin):
    """Rejects every pod, which shows that the plugin is in effect."""

    def setup(self) -> None:
        log.info("BlockAllScheduler is in effect: %s", self.args)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        return Status.unresolvable(f"pod {pod.key} is blocked by BlockAllScheduler")
