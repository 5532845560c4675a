"""Pods that wait at Permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.api.pod import Pod
from mooring.framework.status import Status

#: The longest time that a plugin may keep a pod waiting.
MAX_WAIT_SECONDS = 15 * 60.0


class WaitingPod:
    """A pod that waits at Permit. It has a place on its node and is bound once all plugins have allowed it.

    Attributes:
        pod: The pod.
        node_name: The node that was chosen for it.
        verdict: The outcome, once the pod was allowed or rejected; None while it waits.
    """

    def __init__(
        self,
        pod: Pod,
        node_name: str,
        deadlines: dict[str, tuple[float, float]],
        allowed: dict[str, float] | None = None,
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        #: Plugin -> (timeout in seconds, deadline).
        self._pending = deadlines
        #: Plugin -> time at which it allows the pod automatically.
        self._allowed = allowed or {}
        self.verdict: Status | None = None
        self._done: list[Callable[[Status], None]] = []

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._pending)

    @property
    def timeouts(self) -> dict[str, tuple[float, float]]:
        """The timeout in seconds, and when it ends, of each plugin that has not allowed the pod yet."""
        return dict(self._pending)

    @property
    def automatic(self) -> dict[str, float]:
        """When each plugin that allows the pod automatically does so."""
        return dict(self._allowed)

    def allow(self, plugin: str) -> None:
        """Allow the pod in the name of a plugin, usually ``self.name``.

        The pod is bound once every plugin that let it wait has allowed it.
        """
        self._pending.pop(plugin, None)
        if not self._pending:
            self._settle(Status())

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod in the name of a plugin, with a message for users; it returns to the queue."""
        self._settle(Status.unschedulable(message).by(plugin))

    def preempt(self, plugin: str) -> bool:
        """Reject the pod because it was preempted; it is retried after a backoff. Return False if it is allowed."""
        self._settle(Status.error("waiting on permit for pod: preempted").by(plugin))
        return self.verdict is not None and not self.verdict.is_success

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's deadline has passed, after applying automatic permissions."""
        for plugin in [plugin for plugin, moment in self._allowed.items() if now >= moment]:
            del self._allowed[plugin]
            self.allow(plugin)
        for plugin, (seconds, deadline) in self._pending.items():
            if now >= deadline:
                text = f"rejected due to timeout after waiting {go_duration(seconds)} at plugin {plugin}"
                self._settle(Status.unschedulable(text).by(plugin))
                return

    @property
    def seconds(self) -> float:
        """The longest timeout of the plugins that have not allowed the pod yet."""
        return max((seconds for seconds, _ in self._pending.values()), default=0.0)

    @property
    def next_deadline(self) -> float:
        """The next time at which a plugin's timeout ends or a plugin allows the pod automatically."""
        moments = [deadline for _, deadline in self._pending.values()]
        return min((*moments, *self._allowed.values()), default=float("inf"))

    def when_settled(self, callback: Callable[[Status], None]) -> None:
        """Call back with the outcome, immediately if it is decided."""
        if self.verdict is not None:
            callback(self.verdict)
        else:
            self._done.append(callback)

    def _settle(self, verdict: Status) -> None:
        if self.verdict is not None:
            return
        self.verdict = verdict
        for callback in self._done:
            callback(verdict)


class WaitingPods:
    """The pods that wait at Permit, as ``handle.waiting_pods``. Iterate over them, or find one by uid.

    ```python
    waiting = self.handle.waiting_pods.get(pod.uid)
    if waiting is not None:
        waiting.allow(self.name)
    ```
    """

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        """Add a waiting pod (used by the scheduler)."""
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove a pod, whatever the outcome (used by the scheduler)."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with this uid, or None if it does not wait (any more)."""
        return self._pods.get(uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def next_deadline(self) -> float:
        """The next time at which ``expire`` has an effect."""
        return min((waiting.next_deadline for waiting in self._pods.values()), default=float("inf"))

    def expire(self, now: float) -> None:
        """Reject every pod whose deadline has passed."""
        for waiting in list(self._pods.values()):
            waiting.expire(now)


def go_duration(seconds: float) -> str:
    """Format a duration as Go does: ``1m30s``, ``250ms``, ``0s``."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    nanoseconds = abs(nanoseconds)
    if nanoseconds < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanoseconds >= size:
                return f"{sign}{_trim(nanoseconds / size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_trim(rest / 1e9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _trim(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")
