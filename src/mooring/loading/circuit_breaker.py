"""Guards around users' plugins, each with a circuit breaker.

A guard counts and logs the failures of one plugin and times its calls. After several failed attempts in a row its
breaker opens: the plugin is not called until ``retry_after`` has passed. The pod-by-pod engine has a guard for each
plugin, and an attempt is one scheduling attempt. Batch sessions have one for each callback of a plugin, and an attempt
is one session. Built-in plugins are not guarded.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from time import perf_counter
from typing import Any

from mooring.framework.status import Code, Status
from mooring.loading.plugin_options import DEFAULT, PluginOptions
from mooring.observe.plugin_metrics import PluginHealth

#: Logs an event about a plugin, with details by name.
Log = Callable[..., None]
#: Returns what is wrong with the answer of a call, given the answer and the arguments; it may also raise.
Check = Callable[[object, tuple[Any, ...]], str | None]
#: Returns the answer that replaces the one of a call that failed or was not made, given the error and the arguments.
Fallback = Callable[[Exception, tuple[Any, ...]], Any]
#: The same failure is logged again only after this long.
_QUIET_SECONDS = 60.0


class SwitchedOffError(RuntimeError):
    """A plugin is not called because its breaker is open."""


class PluginSaysError(RuntimeError):
    """A plugin answered with an Error of its own, or with scores out of range."""


#: A call in progress: guard, method, arguments, start time.
Call = tuple["Guard", str, tuple[Any, ...], float]


class Guard:
    """Guards one plugin, or one callback of a session plugin."""

    def __init__(self, name: str, options: PluginOptions, guards: Guards) -> None:
        self.name = name
        self.options = options
        self._guards = guards
        #: Failed attempts in a row.
        self.failures = 0
        self.last_failure = ""
        #: When the breaker opened; None while it is closed.
        self.opened_at: float | None = None
        #: Whether a call succeeded, and whether one failed, in the current attempt.
        self._succeeded = False
        self._failed = False
        #: All calls and their total duration.
        self.calls = 0
        self.seconds = 0.0
        #: (method, cause) -> when it was last logged, and how often it has happened since.
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def state(self) -> str:
        """The plugin's state, for people."""
        if self.opened_at is not None:
            return f"switched off ({self.options.failure_policy}): {self.last_failure}"
        return f"failing: {self.last_failure}" if self.failures else "running"

    def wrap(
        self,
        call: Callable[..., Any],
        method: str,
        *,
        check: Check | None = None,
        fallback: Fallback | None = None,
    ) -> Callable[..., Any]:
        """Return the same call, guarded.

        A failed call raises, or returns ``fallback(error, args)`` if that is given. ``check`` inspects the answers.
        """
        if inspect.iscoroutinefunction(call):
            return self._wrap_async(call, method, check)
        guards, budget = self._guards, self.options.budget_of(method)
        in_progress = guards.in_progress

        @functools.wraps(call)  # keep what the method declares, such as its dependences
        def guarded(*args: Any) -> Any:
            if self.opened_at is not None and not self._may_retry():
                return self._skip(method, args, fallback)
            outer = in_progress.call
            started = perf_counter()
            in_progress.call = (self, method, args, started)
            try:
                answer = call(*args)
                wrong = check(answer, args) if check is not None else None
            except Exception as error:
                self.failed(method, error)
                if fallback is None:
                    raise
                return fallback(error, args)
            finally:
                in_progress.call = outer
                elapsed = perf_counter() - started
                self.calls += 1
                self.seconds += elapsed
                if elapsed > budget:
                    self._slow(method, elapsed, budget)
            if wrong is not None:
                self.failed(method, PluginSaysError(wrong))  # the reader of the answer fails the attempt
            self._succeeded = True
            return answer

        return guarded

    def _wrap_async(self, call: Callable[..., Any], method: str, check: Check | None) -> Callable[..., Any]:
        # An async method is expected to wait: it has a budget only if one is configured for its extension point.
        budget = self.options.own_budget_of(method)

        @functools.wraps(call)
        async def guarded(*args: Any) -> Any:
            if self.opened_at is not None and not self._may_retry():
                return self._skip(method, args, None)
            started = perf_counter()
            try:
                answer = await call(*args)
                wrong = check(answer, args) if check is not None else None
            except Exception as error:
                self.failed(method, error)
                self.end_attempt()
                raise
            finally:
                elapsed = perf_counter() - started
                self.calls += 1
                self.seconds += elapsed
                if budget is not None and elapsed > budget:
                    self._slow(method, elapsed, budget)
            if wrong is not None:
                self.failed(method, PluginSaysError(wrong))
                self.end_attempt()
            self._succeeded = True
            return answer

        return guarded

    # Failures

    def failed(self, method: str, error: Exception) -> None:
        """Record that a call raised or gave a wrong answer; this fails the current attempt."""
        self._failed = True
        self._guards.troubled.add(self)
        self.count(method, error)

    def count(self, method: str, error: Exception) -> None:
        """Count and log a failure, without effect on the breaker."""
        cause = str(error) if isinstance(error, PluginSaysError) else f"{type(error).__name__}: {error}"
        self._guards.health.failures[self.name, method] += 1
        self.last_failure = f"{method}: {cause}"
        self._log_failure(method, cause)

    def end_attempt(self) -> None:
        """End an attempt: count it, and open or close the breaker."""
        succeeded, failed = self._succeeded, self._failed
        self._succeeded = self._failed = False
        if failed:
            self.failures += 1
            if self.opened_at is not None or self.failures >= self.options.failure_threshold:
                self._open()
        elif succeeded:
            self.failures = 0
            self._guards.troubled.discard(self)
            if self.opened_at is not None:
                self.opened_at = None
                self._guards.breaker_changed(self)
                self._guards.log("plugin works again", plugin=self.name)

    def _open(self) -> None:
        first = self.opened_at is None
        self.opened_at = self._guards.clock()
        if first:
            self._guards.breaker_changed(self)
            self._guards.log(
                self._guards.describe_opening(self),
                plugin=self.name,
                error=self.last_failure,
                retry_after=f"{self.options.retry_after:g}s",
            )

    def _may_retry(self) -> bool:
        return self.opened_at is not None and self._guards.clock() - self.opened_at >= self.options.retry_after

    def _skip(self, method: str, args: tuple[Any, ...], fallback: Fallback | None) -> Any:
        """Return the answer that replaces a call while the breaker is open, or raise."""
        self._guards.health.skipped[self.name, method] += 1
        if fallback is None and self.options.failure_policy == "Ignore" and method in _NEUTRAL:
            return _NEUTRAL[method](args)
        error = SwitchedOffError(
            f"the plugin is switched off after {self.failures} failures, the last: {self.last_failure}"
        )
        if fallback is None:
            raise error
        return fallback(error, args)

    # Logging

    def _log_failure(self, method: str, cause: str) -> None:
        repeated = self._repeated(method, cause)
        if repeated is not None:
            more = {"times_since": repeated} if repeated else {}
            self._guards.log("plugin failed", plugin=self.name, method=method, error=cause, **more)

    def _slow(self, method: str, elapsed: float, budget: float) -> None:
        self._guards.health.over_budget[self.name, method] += 1
        if self._repeated(method, "over budget") is not None:
            took, limit = f"{elapsed * 1000:.1f}ms", f"{budget * 1000:g}ms"
            self._guards.log("plugin is over its budget", plugin=self.name, method=method, took=took, budget=limit)

    def _repeated(self, method: str, cause: str) -> int | None:
        """Return how often this happened since it was last logged; None if it is too early to log it again."""
        now, key = self._guards.clock(), (method, cause)
        since, again = self._logged.get(key, (-_QUIET_SECONDS, 0))
        if now - since < _QUIET_SECONDS:
            self._logged[key] = (since, again + 1)
            return None
        if len(self._logged) >= 100:
            self._logged.clear()
        self._logged[key] = (now, 0)
        return again


class InProgress:
    """The guarded call in progress, for the watchdog."""

    __slots__ = ("call",)

    def __init__(self) -> None:
        self.call: Call | None = None


class Guards:
    """The guards of all users' plugins of one engine."""

    def __init__(
        self,
        options: Mapping[str, PluginOptions] | None = None,
        *,
        clock: Callable[[], float],
        health: PluginHealth | None = None,
        in_progress: InProgress | None = None,
        log: Log | None = None,
    ) -> None:
        self.options = dict(options or {})
        self.clock = clock
        self.health = health if health is not None else PluginHealth()
        self.in_progress = in_progress if in_progress is not None else InProgress()
        self.log: Log = log if log is not None else _discard
        #: Guards of plugins that have failed recently.
        self.troubled: set[Guard] = set()
        #: Whether a breaker opened or closed, which makes cached answers invalid.
        self.stale = False
        #: By plugin and callback; the callback is empty where a guard is for the whole plugin.
        self._guards: dict[tuple[str, str], Guard] = {}

    @property
    def current(self) -> Call | None:
        """The call in progress."""
        return self.in_progress.call

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the guard of a plugin, or of one of its callbacks."""
        guard = self._guards.get((name, callback))
        if guard is None:
            guard = self._guards[name, callback] = Guard(name, self.options.get(name, DEFAULT), self)
        return guard

    def failed(self, plugin: str, method: str, error: Exception) -> None:
        """Record that a plugin raised in the queue; guarded calls have been counted already."""
        if (plugin, "") not in self._guards:
            self.log("plugin failed", plugin=plugin, method=method, error=f"{type(error).__name__}: {error}")
        elif method == "hint":
            self.of(plugin).failed(method, error)

    def end_attempt(self) -> None:
        """End an attempt for all plugins that have failed recently."""
        for guard in tuple(self.troubled):
            guard.end_attempt()

    def breaker_changed(self, guard: Guard) -> None:
        """Update what depends on whether a breaker is open."""
        if any(each.opened_at is not None for each in self._guards.values() if each.name == guard.name):
            self.health.open.add(guard.name)
        else:
            self.health.open.discard(guard.name)
        self.stale = True

    def describe_opening(self, guard: Guard) -> str:
        """Return the log event for a breaker that opens."""
        then = "attempts fail" if guard.options.failure_policy == "Fail" else "pods are decided about without it"
        return f"plugin switched off after {guard.failures} failed attempts in a row; {then} until it is tried again"

    def drop(self, names: Collection[str]) -> None:
        """Remove the guards of plugins, so that they start with no failures."""
        for key in [key for key in self._guards if key[0] in names]:
            self._dropped(self._guards.pop(key))

    def _dropped(self, guard: Guard) -> None:
        self.troubled.discard(guard)
        self.health.open.discard(guard.name)

    @contextlib.contextmanager
    def renewing(self, names: Collection[str], options: Mapping[str, PluginOptions]) -> Iterator[None]:
        """Replace the guards of plugins that change or go; if the block raises, keep the old ones."""
        before = self.options, self._guards
        gone = [guard for (name, _), guard in self._guards.items() if name in names]
        self.options = dict(options)
        self._guards = {key: guard for key, guard in self._guards.items() if key[0] not in names}
        try:
            yield
        except BaseException:
            self.options, self._guards = before
            raise
        for guard in gone:
            self._dropped(guard)

    def all(self) -> dict[str, Guard]:
        """Return the guards by plugin."""
        return {name: guard for (name, callback), guard in self._guards.items() if not callback}


def _discard(event: str, **details: object) -> None:
    """Log nothing."""


#: The answer of a plugin whose failures are ignored.
_NEUTRAL: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    **dict.fromkeys(
        ("pre_enqueue", "pre_filter", "add_pod", "remove_pod", "filter", "filter_nodes", "pre_score", "reserve",
         "unreserve", "permit", "pre_bind", "post_bind"), lambda _: None
    ),
    **dict.fromkeys(("pre_bind_pre_flight", "bind"), lambda _: Status(Code.SKIP)),
    **dict.fromkeys(("score", "score_nodes"), lambda _: 0),
    "normalize_scores": lambda args: args[2],
    "post_filter": lambda _: Status.unschedulable(),
}  # fmt: skip
