"""What a user chose for one plugin: how long it may take, and what happens when it fails."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mooring.framework.points import BY_METHOD

FailurePolicy = Literal["Fail", "Ignore"]
Isolation = Literal["none", "process"]


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin is guarded. Times are in seconds."""

    #: After so many failed attempts in a row the plugin is not asked any more for a while.
    failure_threshold: int = 5
    #: Whether attempts fail meanwhile, or go on as if the plugin were not there.
    failure_policy: FailurePolicy = "Fail"
    #: After how long it is tried again.
    retry_after: float = 30.0
    #: How long a call may take before it is counted and warned about, and other limits for some points.
    budget: float = 0.1
    budgets: dict[str, float] = {}
    #: After how long a call counts as hanging.
    timeout: float = 5.0
    #: Whether it runs in a process of its own, and how many bytes of memory that may have (0: as many as it likes).
    isolation: Isolation = "none"
    memory_limit: int = 0

    def budget_of(self, method: str) -> float:
        """How long a call of a method may take; the point's own limit, or that of all."""
        own = self.own_budget_of(method)
        return self.budget if own is None else own

    def own_budget_of(self, method: str) -> float | None:
        """The limit that the point of a method was given for itself."""
        point = BY_METHOD.get(method)
        return self.budgets.get(point.config if point is not None else method)


DEFAULT: Final = PluginOptions()
