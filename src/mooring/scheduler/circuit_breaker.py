"""Guards: what stands between the scheduler and a user's plugin.

A call that raises or answers nonsense fails its attempt. After several failed attempts in a row the breaker opens: the
plugin is not asked for a while, and attempts fail at once or go on without it, as its user chose. Calls are timed;
what takes too long is counted and warned about. Built-in plugins are not guarded and cost nothing here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

from mooring.framework.status import Code, Status
from mooring.loading.options import DEFAULT, PluginOptions
from mooring.observe.plugin_metrics import PluginHealth
from mooring.scheduler.answer_checks import PluginSaysError, check_of

#: Told about a plugin: what happened, and details by name.
Tell = Callable[..., None]
#: The same failure is told again after so long.
_QUIET_SECONDS = 60.0


class SwitchedOffError(RuntimeError):
    """A plugin is not asked, after many failures."""


#: A call of a plugin that is under way: guard, method, arguments, when it began.
Call = tuple["Guard", str, tuple[Any, ...], float]


class Guard:
    """Looks after one plugin."""

    def __init__(self, name: str, options: PluginOptions, guards: Guards) -> None:
        self.name = name
        self.options = options
        self._guards = guards
        #: Failed attempts in a row.
        self.failures = 0
        self.last_failure = ""
        #: When the plugin was switched off; None while it is asked.
        self.opened_at: float | None = None
        #: Whether it was asked, and whether it failed, in the present attempt.
        self._asked = False
        self._failed = False
        #: All calls and how long they took together.
        self.calls = 0
        self.seconds = 0.0
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def state(self) -> str:
        """How the plugin fares, in words."""
        if self.opened_at is not None:
            return f"switched off ({self.options.failure_policy}): {self.last_failure}"
        return f"failing: {self.last_failure}" if self.failures else "running"

    def wrap(self, call: Callable[..., Any], method: str, *, ranged: bool = False) -> Callable[..., Any]:
        """The same call, guarded; ``ranged`` if its scores must be from 0 to 100."""
        if inspect.iscoroutinefunction(call):
            return self._wrap_async(call, method)
        guards, budget, check = self._guards, self.options.budget_of(method), check_of(method, ranged=ranged)

        @functools.wraps(call)  # what was declared of the method stays declared
        def guarded(*args: Any) -> Any:
            if self.opened_at is not None and not self._may_retry():
                return self._instead(method, args)
            outer = guards.current
            started = perf_counter()
            guards.current = (self, method, args, started)
            try:
                answer = call(*args)
                wrong = check(answer, args) if check is not None else None
            except Exception as error:
                self.failed(method, error)
                raise
            finally:
                guards.current = outer
                elapsed = perf_counter() - started
                self.calls += 1
                self.seconds += elapsed
                if elapsed > budget:
                    self._slow(method, elapsed, budget)
            if wrong is not None:
                self.failed(method, PluginSaysError(wrong))  # whoever reads the answer fails the attempt
            self._asked = True
            return answer

        return guarded

    def _wrap_async(self, call: Callable[..., Any], method: str) -> Callable[..., Any]:
        # To wait is what they are for: they are held to a budget only if somebody gave one to their point.
        budget, check = self.options.own_budget_of(method), check_of(method)

        @functools.wraps(call)
        async def guarded(*args: Any) -> Any:
            if self.opened_at is not None and not self._may_retry():
                return self._instead(method, args)
            started = perf_counter()
            try:
                answer = await call(*args)
                wrong = check(answer, args) if check is not None else None
            except Exception as error:
                self.failed(method, error)
                self.settle()
                raise
            finally:
                elapsed = perf_counter() - started
                self.calls += 1
                self.seconds += elapsed
                if budget is not None and elapsed > budget:
                    self._slow(method, elapsed, budget)
            if wrong is not None:
                self.failed(method, PluginSaysError(wrong))
                self.settle()
            self._asked = True
            return answer

        return guarded

    # Failures

    def failed(self, method: str, error: Exception) -> None:
        """A call raised, or answered nonsense."""
        cause = str(error) if isinstance(error, PluginSaysError) else f"{type(error).__name__}: {error}"
        self._guards.health.failures[self.name, method] += 1
        self._failed = True
        self.last_failure = f"{method}: {cause}"
        self._guards.troubled.add(self)
        self._tell_once(method, cause)

    def settle(self) -> None:
        """An attempt is over: count it, and open or close the breaker."""
        asked, failed = self._asked, self._failed
        self._asked = self._failed = False
        if failed:
            self.failures += 1
            if self.opened_at is not None or self.failures >= self.options.failure_threshold:
                self._open()
        elif asked:
            self.failures = 0
            self._guards.troubled.discard(self)
            if self.opened_at is not None:
                self.opened_at = None
                self._changed()
                self._guards.tell("plugin works again", plugin=self.name)

    def _open(self) -> None:
        first = self.opened_at is None
        self.opened_at = self._guards.clock()
        if first:
            self._changed()
            then = "attempts fail" if self.options.failure_policy == "Fail" else "pods are decided about without it"
            self._guards.tell(
                f"plugin switched off after {self.failures} failed attempts in a row; {then} until it is tried again",
                plugin=self.name,
                error=self.last_failure,
                retry_after=f"{self.options.retry_after:g}s",
            )

    def _changed(self) -> None:
        """Answers that were kept from before may be those of another state of the breaker."""
        if self.opened_at is not None:
            self._guards.health.open.add(self.name)
        else:
            self._guards.health.open.discard(self.name)
        self._guards.stale = True

    def _may_retry(self) -> bool:
        return self.opened_at is not None and self._guards.clock() - self.opened_at >= self.options.retry_after

    def _instead(self, method: str, args: tuple[Any, ...]) -> Any:
        """What is answered for a plugin that is switched off."""
        self._guards.health.skipped[self.name, method] += 1
        if self.options.failure_policy == "Ignore" and method in _NEUTRAL:
            return _NEUTRAL[method](args)
        raise SwitchedOffError(
            f"the plugin is switched off after {self.failures} failures, the last: {self.last_failure}"
        )

    # Telling

    def _tell_once(self, method: str, cause: str) -> None:
        """Tell of a failure, but of the same one again only after a while, with how often it happened meanwhile."""
        now, key = self._guards.clock(), (method, cause)
        since, again = self._told.get(key, (-_QUIET_SECONDS, 0))
        if now - since < _QUIET_SECONDS:
            self._told[key] = (since, again + 1)
            return
        if len(self._told) >= 100:
            self._told.clear()
        self._told[key] = (now, 0)
        more = {"times_since": again} if again else {}
        self._guards.tell("plugin failed", plugin=self.name, method=method, error=cause, **more)

    def _slow(self, method: str, elapsed: float, budget: float) -> None:
        health = self._guards.health
        health.over_budget[self.name, method] += 1
        now, key = self._guards.clock(), (method, "over budget")
        since, again = self._told.get(key, (-_QUIET_SECONDS, 0))
        if now - since < _QUIET_SECONDS:
            self._told[key] = (since, again + 1)
            return
        self._told[key] = (now, 0)
        took, limit = f"{elapsed * 1000:.1f}ms", f"{budget * 1000:g}ms"
        self._guards.tell("plugin is over its budget", plugin=self.name, method=method, took=took, budget=limit)


class Guards:
    """The guards of all users' plugins of one engine."""

    def __init__(
        self,
        options: Mapping[str, PluginOptions] | None = None,
        *,
        clock: Callable[[], float],
        health: PluginHealth | None = None,
        tell: Tell | None = None,
    ) -> None:
        self.options = dict(options or {})
        self.clock = clock
        self.health = health if health is not None else PluginHealth()
        self.tell: Tell = tell if tell is not None else _silence
        #: The call under way, for a watchdog to look at.
        self.current: Call | None = None
        #: Guards of plugins that have failed lately.
        self.troubled: set[Guard] = set()
        #: Whether a breaker opened or closed, so that answers kept from before must be asked for again.
        self.stale = False
        self._guards: dict[str, Guard] = {}

    def of(self, name: str) -> Guard:
        """The guard of a plugin."""
        guard = self._guards.get(name)
        if guard is None:
            guard = self._guards[name] = Guard(name, self.options.get(name, DEFAULT), self)
        return guard

    def failed(self, plugin: str, method: str, error: Exception) -> None:
        """A plugin raised in the queue; calls that are guarded have been counted already."""
        if plugin not in self._guards:
            self.tell("plugin failed", plugin=plugin, method=method, error=f"{type(error).__name__}: {error}")
        elif method == "hint":
            self.of(plugin).failed(method, error)

    def settle(self) -> None:
        """An attempt is over."""
        for guard in tuple(self.troubled):
            guard.settle()

    @contextlib.contextmanager
    def renewing(self, names: Iterable[str], options: Mapping[str, PluginOptions]) -> Iterator[None]:
        """Some plugins are being replaced by new versions, or go: their guards begin afresh, unless that fails."""
        before = self.options, self._guards
        self.options, self._guards = dict(options), dict(self._guards)
        gone = [guard for name in names if (guard := self._guards.pop(name, None)) is not None]
        try:
            yield
        except BaseException:
            self.options, self._guards = before
            raise
        for guard in gone:
            self.troubled.discard(guard)
            self.health.open.discard(guard.name)

    def all(self) -> dict[str, Guard]:
        """The guards by plugin."""
        return dict(self._guards)


def _silence(event: str, **details: object) -> None:
    """For engines of which nobody wants to hear."""


#: What a plugin that is ignored counts as having answered.
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
