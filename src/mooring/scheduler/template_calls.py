"""The PreFilter and PreScore plugins to call for a template, and the cached answers of the others.

Hot path. Most of these plugins read nothing but the pod, so that their answers and cycle state entries are cached per
template. A plugin declares this with ``@depends_on("template")`` or by returning ``Status.skip(template=True)``.
"""

from __future__ import annotations

from typing import Any

from mooring.columns.templates import PodTemplate
from mooring.framework.plugin import dependence
from mooring.framework.state import CycleState, StateKey
from mooring.scheduler.profile import Bound


class Calls:
    """The plugins to call for pods of one template; of the others, the names of those that skip and their entries."""

    __slots__ = ("asked", "constant", "entries", "lasting", "skipped")

    def __init__(self, asked: tuple[Bound, ...], constant: frozenset[str] = frozenset(), *, lasting: bool) -> None:
        self.asked = asked
        #: Plugins whose answer depends on the template alone, if answers are cached.
        self.constant = constant
        self.lasting = lasting
        self.skipped: frozenset[str] = frozenset()
        self.entries: dict[StateKey[Any], Any] = {}

    def cache(self, cached: list[str], skipped: list[str], entries: dict[StateKey[Any], Any]) -> None:
        """Cache the answers of some plugins, which are not called again."""
        self.entries.update(entries)
        self.skipped = self.skipped.union(skipped)
        self.asked = tuple([bound for bound in self.asked if bound.name not in cached])


class TemplateCalls:
    """The calls of one point, by template."""

    def __init__(self, plugins: tuple[Bound, ...]) -> None:
        self._plugins = plugins
        #: Plugins whose answer, if it is None or Skip, depends on the template alone.
        self._first = Calls(plugins, lasting=False)
        self._second = object()
        self.constant = frozenset(bound.name for bound in plugins if dependence(bound.call) == "template")

    def of(self, template: PodTemplate, state: CycleState) -> Calls:
        """Return the calls for a template; cached entries are added to the state."""
        calls = template.cache.get(self)
        if calls is None:
            # Many templates have only one pod: caching begins with the second.
            template.cache[self] = self._second
            return self._first
        if calls is self._second:
            calls = template.cache[self] = Calls(self._plugins, self.constant, lasting=True)
        if calls.entries:  # type: ignore[attr-defined]  # the key is private to this class
            state.preload(calls.entries)  # type: ignore[attr-defined]
        return calls  # type: ignore[return-value]
