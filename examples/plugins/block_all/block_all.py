import structlog

from mooring.framework import Plugin, Status

log = structlog.get_logger("mooring.plugins.BlockAllScheduler")


class BlockAllScheduler(Plugin):
    """Rejects every pod, which shows that the plugin is in effect."""

    def setup(self):
        log.info("BlockAllScheduler is in effect", args=self.args)

    def pre_filter(self, state, pod, nodes):
        return Status.unresolvable(f"pod {pod.key} is blocked by BlockAllScheduler")
