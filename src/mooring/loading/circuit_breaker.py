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

from mooring.checkpoints import exclude
from mooring.framework.plugin_errors import HangsError, PluginSaysError, contain, failure_text
from mooring.framework.plugin_frames import author_frames, format_frames, method_frames, place, set_author_frames
from mooring.framework.status import Code, Status
from mooring.loading.leaks import Leaks
from mooring.loading.module_importer import root_of
from mooring.loading.plugin_options import DEFAULT, PluginOptions
from mooring.observe.plugin_metrics import PluginHealth

#: Logs an event about a plugin, with details by name.
Log = Callable[..., None]
#: Returns the error in the result of a call, given the result and the arguments; it may also raise.
Check = Callable[[object, tuple[Any, ...]], str | None]
#: Returns the result that replaces that of a failed or skipped call, given the error and the arguments.
Fallback = Callable[[BaseException, tuple[Any, ...]], Any]
#: The same failure is logged again only after this long.
_QUIET_SECONDS = 60.0


class SwitchedOffError(RuntimeError):
    """An error for a plugin that is not called because its breaker is open."""


class Guard:
    """The guard of one plugin, or of one callback of a session plugin."""

    def __init__(self, name: str, options: PluginOptions, guards: Guards) -> None:
        self.name = name
        self.options = options
        self._guards = guards
        #: Failed attempts in a row.
        self.failures = 0
        self.last_failure = ""
        #: The author's frames of the last failure, as in a traceback.
        self.last_traceback = ""
        #: When the breaker opened; None while it is closed.
        self.opened_at: float | None = None
        #: Whether a call succeeded, and whether one failed, in the current attempt.
        self._succeeded = False
        self._failed = False
        #: All calls and their total duration.
        self.calls = 0
        self.seconds = 0.0
        #: Method -> the method itself, and a warning about its results, which is logged once.
        self._methods: dict[str, Callable[..., Any]] = {}
        self.warnings: dict[str, str] = {}
        #: (method, cause) -> when it was last logged, and how often it has happened since.
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def state(self) -> str:
        """The plugin's state, as text."""
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
        """Return a guarded version of a call.

        A failed call raises, or returns ``fallback(error, args)`` if that is given. ``check`` validates the results.
        """
        self._methods[method] = call
        self._guards.health.add(self.name, method)
        if inspect.iscoroutinefunction(call):
            return self._wrap_async(call, method, check)
        budget = self.options.budget_of(method)

        @functools.wraps(call)  # keep what the method declares, such as its dependences
        def guarded(*args: Any) -> Any:
            if self.opened_at is not None and not self._may_retry():
                return self._skip(method, args, fallback)
            started = perf_counter()
            try:
                answer = call(*args)
                wrong = check(answer, args) if check is not None else None
            except BaseException as error:
                contain(error)
                self.failed(method, error)
                if fallback is None:
                    raise
                return fallback(error, args)
            finally:
                elapsed = perf_counter() - started
                self.calls += 1
                self.seconds += elapsed
                exclude(elapsed)
                if elapsed > budget:
                    self._slow(method, elapsed, budget)
            if wrong is not None:
                problem = PluginSaysError(wrong)
                self.failed(method, problem)
                if fallback is not None:
                    return fallback(problem, args)
                # Otherwise the reader of the answer fails the attempt.
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
            except BaseException as error:
                contain(error)
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

    def release(self) -> None:
        """Drop the references to the calls, and to the objects that the calls use."""
        self._methods.clear()

    # Failures

    def failed(self, method: str, error: BaseException) -> None:
        """Record that a call raised or returned an invalid result. This fails the current attempt."""
        self._failed = True
        self._guards.troubled.add(self)
        self.count(method, error)
        if isinstance(error, HangsError):
            self._open("plugin switched off after a call that hung")

    def count(self, method: str, error: BaseException) -> None:
        """Count and log a failure, without effect on the breaker."""
        frames = author_frames(error)
        if not frames and method in self._methods:  # the error is about the method's result
            frames = method_frames(self._methods[method])
            set_author_frames(error, frames)
        cause = failure_text(error)
        self._guards.health.failures[self.name, method] += 1
        self.last_failure = cause if frames else f"{method}: {cause}"
        self.last_traceback = format_frames(frames)
        self._log_failure(method, cause)

    def found_fractions(self, method: str) -> None:
        """Warn that all scores of a method are between 0 and 1."""
        if method in self.warnings:
            return
        remedy = "return 0 to 100" if method == "normalize_scores" else "declare score_range = (0.0, 1.0) in the class"
        text = f"all scores are between 0 and 1, and only their whole part counts; {remedy}"
        self.warnings[method] = text
        self._guards.log(f"{self._place_of(method)}: {text}", plugin=self.name)

    def placed_warnings(self) -> list[str]:
        """Return the warnings, each with the location of the method."""
        return [f"{self._place_of(method)}: {text}" for method, text in self.warnings.items()]

    def _place_of(self, method: str) -> str:
        return place(method_frames(self._methods[method])) or method

    def end_attempt(self) -> None:
        """End an attempt: count it, and open or close the breaker."""
        succeeded, failed = self._succeeded, self._failed
        self._succeeded = self._failed = False
        if failed:
            self.failures += 1
            if self.opened_at is not None or self.failures >= self.options.failure_threshold:
                self._open(f"plugin switched off after {self.failures} failed {self._guards.attempts} in a row")
        elif succeeded:
            self.failures = 0
            self._guards.troubled.discard(self)
            if self.opened_at is not None:
                self.opened_at = None
                self._guards.breaker_changed(self)
                self._guards.log("plugin works again", plugin=self.name)

    def _open(self, cause: str) -> None:
        first = self.opened_at is None
        self.opened_at = self._guards.clock()
        if first:
            self._guards.breaker_changed(self)
            self._guards.log(
                f"{cause}; {self._guards.while_open(self)} until it is tried again",
                plugin=self.name,
                error=self.last_failure,
                retry_after=f"{self.options.retry_after:g}s",
            )

    def _may_retry(self) -> bool:
        return self.opened_at is not None and self._guards.clock() - self.opened_at >= self.options.retry_after

    def _skip(self, method: str, args: tuple[Any, ...], fallback: Fallback | None) -> Any:
        """Return the result that replaces a call while the breaker is open, or raise."""
        self._guards.health.skipped[self.name, method] += 1
        if fallback is None and self.options.failure_policy == "Ignore" and method in _NEUTRAL:
            return _NEUTRAL[method](args)
        times = "a failure" if self.failures <= 1 else f"{self.failures} failures, the last"
        error = SwitchedOffError(f"the plugin is switched off after {times}: {self.last_failure}")
        if fallback is None:
            raise error
        return fallback(error, args)

    # Logging

    def _log_failure(self, method: str, cause: str) -> None:
        repeated = self._repeated(method, cause)
        if repeated is not None:
            more: dict[str, Any] = {"times_since": repeated} if repeated else {}
            if self.last_traceback:
                more["traceback"] = self.last_traceback
            self._guards.log("plugin failed", plugin=self.name, method=method, error=cause, **more)

    def _slow(self, method: str, elapsed: float, budget: float) -> None:
        self._guards.health.over_budget[self.name, method] += 1
        if self._repeated(method, "over budget") is not None:
            took, limit = f"{elapsed * 1000:.1f}ms", f"{budget * 1000:g}ms"
            self._guards.log("plugin is over its budget", plugin=self.name, method=method, took=took, budget=limit)

    def _repeated(self, method: str, cause: str) -> int | None:
        """Return the number of occurrences since the last log message; None if it is too early to log again."""
        now, key = self._guards.clock(), (method, cause)
        since, again = self._logged.get(key, (-_QUIET_SECONDS, 0))
        if now - since < _QUIET_SECONDS:
            self._logged[key] = (since, again + 1)
            return None
        if len(self._logged) >= 100:
            self._logged.clear()
        self._logged[key] = (now, 0)
        return again


class Guards:
    """The guards of all users' plugins of one engine."""

    def __init__(
        self,
        options: Mapping[str, PluginOptions] | None = None,
        *,
        clock: Callable[[], float],
        health: PluginHealth | None = None,
        modules: dict[str, str] | None = None,
        log: Log | None = None,
    ) -> None:
        self.options = dict(options or {})
        self.clock = clock
        self.health = health if health is not None else PluginHealth()
        #: The threads and file descriptors that replaced plugins left behind.
        self.leaks = Leaks()
        #: Modules of plugins -> a plugin in it, for the watchdog.
        self.modules = modules if modules is not None else {}
        self.log: Log = log if log is not None else _discard
        #: Guards of plugins that have failed recently.
        self.troubled: set[Guard] = set()
        #: Whether a breaker opened or closed, which invalidates cached results.
        self.stale = False
        #: By plugin and callback; the callback is empty where a guard is for the whole plugin.
        self._guards: dict[tuple[str, str], Guard] = {}

    def add_code(self, cls: type, name: str) -> None:
        """Register the module of a plugin."""
        if not cls.__module__.startswith("mooring."):  # such as the proxy of an isolated plugin
            self.modules[root_of(cls.__module__)] = name

    def plugin_in(self, module: str) -> str:
        """Return the name of a plugin in a module, or the module's name."""
        return self.modules.get(root_of(module), module)

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the guard of a plugin, or of one of its callbacks."""
        guard = self._guards.get((name, callback))
        if guard is None:
            guard = self._guards[name, callback] = Guard(name, self.options.get(name, DEFAULT), self)
        return guard

    def failed(self, plugin: str, method: str, error: BaseException) -> None:
        """Record that a plugin raised in the queue. Failures of guarded calls are already counted."""
        if (plugin, "") not in self._guards:
            self.log("plugin failed", plugin=plugin, method=method, error=failure_text(error))

    def end_attempt(self) -> None:
        """End an attempt for all plugins that have failed recently."""
        for guard in tuple(self.troubled):
            guard.end_attempt()

    def breaker_changed(self, guard: Guard) -> None:
        """Update the state that depends on whether a breaker is open."""
        if any(each.opened_at is not None for each in self._guards.values() if each.name == guard.name):
            self.health.open.add(guard.name)
        else:
            self.health.open.discard(guard.name)
        self.stale = True

    #: The name of attempts in log messages.
    attempts = "attempts"

    def while_open(self, guard: Guard) -> str:
        """Describe the effect of an open breaker."""
        return "attempts fail" if guard.options.failure_policy == "Fail" else "pods are decided about without it"

    def drop(self, names: Collection[str]) -> None:
        """Remove the guards of plugins, so that they start with no failures."""
        for key in [key for key in self._guards if key[0] in names]:
            self._dropped(self._guards.pop(key))

    def _dropped(self, guard: Guard) -> None:
        self.troubled.discard(guard)
        self.health.open.discard(guard.name)

    @contextlib.contextmanager
    def renewing(self, names: Collection[str], options: Mapping[str, PluginOptions]) -> Iterator[None]:
        """Replace the guards of changed and removed plugins. If the block raises, keep the old guards."""
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

    def by_plugin(self) -> dict[str, list[Guard]]:
        """Return the guards of each plugin: one, or one for each callback."""
        found: dict[str, list[Guard]] = {}
        for (name, _), guard in self._guards.items():
            found.setdefault(name, []).append(guard)
        return found

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return the state, calls, failures and cost of each plugin, for `plugin list` and `/plugins`."""
        found = {}
        for name, guards in self.by_plugin().items():
            worst = max(guards, key=lambda guard: (guard.opened_at is not None, guard.failures, guard.last_failure))
            calls, seconds = sum(each.calls for each in guards), sum(each.seconds for each in guards)
            found[name] = {
                "state": worst.state,
                "calls": calls,
                "failures": sum(count for (plugin, _), count in self.health.failures.items() if plugin == name),
                "over_budget": sum(count for (plugin, _), count in self.health.over_budget.items() if plugin == name),
                "last_failure": worst.last_failure,
                "traceback": worst.last_traceback,
                "warnings": tuple(text for each in guards for text in each.placed_warnings()),
                "mean_micros": seconds / calls * 1e6 if calls else None,
            }
        return found


def _discard(event: str, **details: object) -> None:
    """Log nothing."""


#: The result of a plugin whose failures are ignored.
_NEUTRAL: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    **dict.fromkeys(
        ("pre_enqueue", "pre_filter", "add_pod", "remove_pod", "filter", "filter_nodes", "pre_score", "reserve",
         "unreserve", "permit", "pre_bind", "post_bind", "generate_placements", "placement_feasible"), lambda _: None
    ),
    **dict.fromkeys(("pre_bind_pre_flight", "bind"), lambda _: Status(Code.SKIP)),
    **dict.fromkeys(("score", "score_allocation", "score_nodes", "score_placements"), lambda _: 0),
    "normalize_scores": lambda args: args[2],
    "signature": lambda args: args[0],
    "post_filter": lambda _: Status.unschedulable(),
}  # fmt: skip
