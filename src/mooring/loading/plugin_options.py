"""Options of one plugin: time limits, failure policy and isolation."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mooring.framework.points import BY_METHOD

FailurePolicy = Literal["Fail", "Ignore"]
Isolation = Literal["none", "process"]


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the handling of failures and slow calls of a plugin. Times are in seconds."""

    #: The number of consecutive failed attempts that opens the plugin's circuit breaker.
    failure_threshold: int = 5
    #: Whether attempts fail while the circuit breaker is open, or continue without the plugin.
    failure_policy: FailurePolicy = "Fail"
    #: How long the circuit breaker stays open.
    retry_after: float = 30.0
    #: The duration after which a call is counted and logged as slow, and the durations for single extension points.
    budget: float = 0.1
    budgets: dict[str, float] = {}
    #: The duration after which a call counts as hanging.
    timeout: float = 5.0
    #: Whether the plugin runs in its own process, and the memory limit of that process in bytes (0: no limit).
    isolation: Isolation = "none"
    memory_limit: int = 0

    def budget_of(self, method: str) -> float:
        """Return the budget of a method: that of its extension point, or the general one."""
        own = self.own_budget_of(method)
        return self.budget if own is None else own

    def own_budget_of(self, method: str) -> float | None:
        """Return the budget that is set for a callback of sessions, or for the extension point of a method, or None."""
        if not self.budgets:
            return None
        point = BY_METHOD.get(method)
        own = self.budgets.get(_camel(method))
        return self.budgets.get(point.config) if own is None and point is not None else own


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


DEFAULT: Final = PluginOptions()
