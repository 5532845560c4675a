"""Which plugins of PreFilter or PreScore have to be asked for a template, and what the others would say.

Hot path. Most of these plugins look at nothing but the pod: for the second pod of a template their answers, and what
they leave in the cycle state, are known. Two ways to say so: ``@depends_on("template")`` on the method, or the answer
``Status.skip(template=True)``.
"""

from __future__ import annotations

from typing import Any

from mooring.columns.templates import PodTemplate
from mooring.framework.plugin import dependence
from mooring.framework.state import CycleState, StateKey
from mooring.scheduler.profile import Bound


class Calls:
    """The plugins to ask for pods of one template; for the rest, the names of those that skip and what they wrote."""

    __slots__ = ("asked", "constant", "entries", "lasting", "skipped")

    def __init__(self, asked: tuple[Bound, ...], constant: frozenset[str] = frozenset(), *, lasting: bool) -> None:
        self.asked = asked
        #: Plugins whose answer depends on the template alone, if answers are remembered at all.
        self.constant = constant
        self.lasting = lasting
        self.skipped: frozenset[str] = frozenset()
        self.entries: dict[StateKey[Any], Any] = {}

    def settle(self, settled: list[str], skipped: list[str], entries: dict[StateKey[Any], Any]) -> None:
        """Do not ask some plugins again: their answer is known."""
        self.entries.update(entries)
        self.skipped = self.skipped.union(skipped)
        self.asked = tuple([bound for bound in self.asked if bound.name not in settled])


class TemplateCalls:
    """The calls of one point, by template."""

    def __init__(self, plugins: tuple[Bound, ...]) -> None:
        self._plugins = plugins
        #: Plugins whose answer, if it is None or Skip, depends on the template alone.
        self._first = Calls(plugins, lasting=False)
        self._second = object()
        self.constant = frozenset(bound.name for bound in plugins if dependence(bound.call) == "template")

    def of(self, template: PodTemplate, state: CycleState) -> Calls:
        """The calls for a template; what is known already goes into the state."""
        calls = template.cache.get(self)
        if calls is None:
            # Many templates have one pod only: remembering begins with the second.
            template.cache[self] = self._second
            return self._first
        if calls is self._second:
            calls = template.cache[self] = Calls(self._plugins, self.constant, lasting=True)
        if calls.entries:  # type: ignore[attr-defined]  # nobody else has this key
            state.preload(calls.entries)  # type: ignore[attr-defined]
        return calls  # type: ignore[return-value]
