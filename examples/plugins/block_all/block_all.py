import structlog

from mooring.framework import Plugin, Status

log = structlog.get_logger("mooring.plugins.BlockAllScheduler")


class BlockAllScheduler(Plugin):
    """Turns every pod down: the smallest proof that a plugin is in force."""

    def setup(self):
        log.info("BlockAllScheduler is in force", args=self.args)

    def pre_filter(self, state, pod, nodes):
        return Status.unresolvable(f"pod {pod.key} is blocked by BlockAllScheduler")
