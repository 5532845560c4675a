"""Gates: PreEnqueue plugins decide whether a pod may be tried at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from mooring.api.pod import Pod
from mooring.framework.status import Status
from mooring.scheduler.answers import as_status
from mooring.scheduler.queue.counters import QueueCounters
from mooring.scheduler.queue.interests import ErrorReport
from mooring.scheduler.queue.queued_pod import QueuedPod

#: A PreEnqueue plugin's method: None lets the pod in, a reason or a Status that is no success holds it back.
PreEnqueue: TypeAlias = Callable[[Pod], Status | str | None]
#: Profile -> plugin -> its method.
PreEnqueueMap: TypeAlias = Mapping[str, Mapping[str, PreEnqueue]]


class Gates:
    """Asks the PreEnqueue plugins and notes on the pod which of them holds it back."""

    def __init__(self, plugins: PreEnqueueMap, counters: QueueCounters, on_error: ErrorReport | None = None) -> None:
        self._plugins = plugins
        self._counters = counters
        self._on_error = on_error

    def check(self, queued: QueuedPod) -> bool:
        """Whether no PreEnqueue plugin gates the pod. The plugin that gated it last time runs first."""
        plugins = self._plugins.get(queued.profile, {})
        last = queued.gating_plugin
        order = [last, *(name for name in plugins if name != last)] if last in plugins else plugins
        for name in order:
            status = self._ask(name, plugins[name], queued.pod)
            if not status.is_success:
                self._hold(queued, name, status)
                return False
        queued.gating_plugin = ""
        queued.gating_reasons = ()
        return True

    def _ask(self, plugin: str, pre_enqueue: PreEnqueue, pod: Pod) -> Status:
        try:
            return as_status(pre_enqueue(pod))
        except Exception as error:
            if self._on_error is not None:
                self._on_error(plugin, "pre_enqueue", pod, error)
            return Status.error(f"{type(error).__name__}: {error}")

    def _hold(self, queued: QueuedPod, plugin: str, status: Status) -> None:
        if plugin not in queued.rejectors:
            self._counters.rejected[plugin, queued.profile] += 1
        # The plugin counts as one that turned the pod down, so that its events and hints apply.
        queued.unschedulable_plugins |= {plugin}
        queued.gating_plugin = plugin
        queued.gating_reasons = status.reasons
