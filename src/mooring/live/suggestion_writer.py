"""SuggestionWriter: writes suggestions for pending pods, and decisions, as events and annotations of pods.

It is optional. Pods are handled one after another in the background, a few per second, so that neither the scheduling
loop nor the API server notices it. A search pauses after each change that it tries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from mooring.api.pod import Pod
from mooring.kube import Client, EventRecorder, KubeError, NotFound
from mooring.live.reporter import Reporter
from mooring.logs import get_logger
from mooring.observe.explanation import SuggestionView
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.pod_explanation import Gangs, explain_with_pauses
from mooring.scheduler.simulator_annotations import SELECTED, simulator_annotations
from mooring.unexpected_errors import report_unexpected, shortened

log = get_logger("mooring.live")

#: What can be written.
EVENT, ANNOTATION, SIMULATOR = "event", "annotation", "simulator-annotations"
KINDS: Final = (EVENT, ANNOTATION, SIMULATOR)
#: The annotation with the suggestions, one per line.
SUGGESTIONS: Final = "mooring.dev/suggestions"
#: Pods that wait for their turn; more are dropped. The pause after each, and how long a pod is not written again.
_WAITING: Final = 1000
_PAUSE_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 300.0
#: The pause if a decision is in progress.
_BUSY_SECONDS: Final = 0.01
_MAX_NOTE: Final = 1000
_MAX_ANNOTATION: Final = 4000


class SuggestionWriter:
    """A reporter that also writes suggestions and decisions."""

    def __init__(
        self,
        kinds: Collection[str],
        *,
        reporter: Reporter,
        client: Client,
        events: EventRecorder,
        engine: Engine,
        gangs: Callable[[], Gangs | None] = lambda: None,
        latest: Callable[[str], Pod | None],
    ) -> None:
        """``latest`` returns the newest version of a pod by namespace/name."""
        self._kinds = frozenset(kinds)
        self._reporter = reporter
        self._client = client
        self._events = events
        self._engine = engine
        self._gangs = gangs
        self._latest = latest
        #: Pods by key, with their node; empty if they have none.
        self._waiting: dict[str, str] = {}
        #: Pod uid -> when suggestions were written, and which.
        self._written: dict[str, tuple[float, str]] = {}
        self._wake = asyncio.Event()
        #: The longest time in seconds that a pod has kept the scheduler's loop without a pause.
        self.longest_step = 0.0

    def flushed(self, uid: str) -> Awaitable[None] | None:
        """Return what ends when all reports about a pod are written; suggestions are written later."""
        return self._reporter.flushed(uid)

    def bound(self, assumed: AssumedPod) -> None:
        """Report a bound pod, and write the decision later."""
        self._reporter.bound(assumed)
        self._written.pop(assumed.pod.uid, None)
        if SIMULATOR in self._kinds:
            self._add(assumed.pod.key, assumed.node_name)

    async def failed(self, failed: FailedAttempt, pod: Pod) -> None:
        """Report a failed attempt, and write suggestions later."""
        self._add(pod.key, "")
        await self._reporter.failed(failed, pod)

    def waits(self, pod: Pod) -> None:
        """Write suggestions for a pod whose gang waits for a session."""
        self._add(pod.key, "")

    def _add(self, key: str, node: str) -> None:
        if key in self._waiting or len(self._waiting) < _WAITING:
            self._waiting[key] = node
            self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._waiting))
            node = self._waiting.pop(key)
            try:
                await self._write(key, node)
            except Exception as error:
                report_unexpected("suggestions cannot be written", error, pod=key)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _write(self, key: str, node: str) -> None:
        while self._engine.lock.held:
            await asyncio.sleep(_BUSY_SECONDS)
        pod = self._latest(key)
        if pod is None or (pod.node_name and not node):
            return
        annotations: dict[str, str] = {}
        if SIMULATOR in self._kinds:
            annotations |= self._decision(pod, node)
        if not node and self._kinds & {EVENT, ANNOTATION}:
            annotations |= await self._suggest(pod)
        if annotations:
            await self._annotate(pod, annotations)

    def _decision(self, pod: Pod, node: str) -> dict[str, str]:
        runner = self._engine.profiles.runners.get(pod.scheduler_name)
        if runner is None or (not node and SELECTED in pod.annotations and self._is_recent(pod)):
            return {}
        started = time.perf_counter()
        found = simulator_annotations(runner, pod, node)
        self.longest_step = max(self.longest_step, time.perf_counter() - started)
        return found

    def _is_recent(self, pod: Pod) -> bool:
        known = self._written.get(pod.uid)
        return known is not None and time.monotonic() - known[0] < _AGAIN_SECONDS

    async def _suggest(self, pod: Pod) -> dict[str, str]:
        """Search for suggestions, record the event, and return the annotation. Equal ones are not written again."""
        if self._is_recent(pod):
            return {}
        found = await explain_with_pauses(self._engine, pod.key, self._gangs())
        views: Sequence[SuggestionView] = () if found is None else found.suggestions
        text = "\n".join(each.text for each in views)
        before = self._written.get(pod.uid, (0.0, ""))[1]
        if len(self._written) > 10 * _WAITING:
            self._written.clear()
        self._written[pod.uid] = (time.monotonic(), text)
        if not text or text == before:
            return {}
        if EVENT in self._kinds:
            note = shortened("To make it schedulable: " + "; or ".join(each.text for each in views), _MAX_NOTE)
            self._events.record(
                pod, type="Normal", reason="Suggestion", action="Scheduling", note=note, component=pod.scheduler_name
            )
        return {SUGGESTIONS: shortened(text, _MAX_ANNOTATION)} if ANNOTATION in self._kinds else {}

    async def _annotate(self, pod: Pod, annotations: dict[str, str]) -> None:
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        try:
            await self._client.patch(Pod, pod.name, patch, namespace=pod.namespace)
        except NotFound:
            pass
        except KubeError as error:
            log.warning("could not annotate a pod", pod=pod.key, error=str(error))
