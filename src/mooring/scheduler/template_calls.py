"""TemplateCalls: which PreFilter or PreScore plugins to call for a pod, and the cached answers of the others.

Hot path. Most of these plugins read only the pod, so their answers and cycle state entries are cached: for all pods
with equal constraints if the plugin reads nothing else (``Plugin.template_part``), and per template for the others. A
plugin declares that its answers are constant with ``@depends_on("template")`` or ``Status.skip(template=True)``.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from mooring.columns.templates import PodConstraints, PodTemplate
from mooring.framework.plugin import dependence
from mooring.framework.state import CycleState, StateKey
from mooring.scheduler.profile import Bound, Profile


class Calls:
    """The plugins to call for some pods, and the cached skips and state entries of the others."""

    __slots__ = ("constant", "entries", "plugins", "skipped", "skippers")

    def __init__(self, plugins: tuple[Bound, ...], constant: frozenset[str], skippers: frozenset[str]) -> None:
        self.plugins = plugins
        #: The plugins whose answer, if it is None or Skip, is the same for all these pods.
        self.constant = constant
        #: The plugins whose answer is the same for all these pods if it is ``Status.skip(template=True)``.
        self.skippers = skippers
        self.skipped: frozenset[str] = frozenset()
        self.entries: dict[StateKey[Any], Any] = {}

    def cache(self, cached: list[str], skipped: list[str], entries: dict[StateKey[Any], Any]) -> None:
        """Cache the answers of some plugins. These plugins are not called again."""
        self.entries = {**self.entries, **entries}
        self.skipped = self.skipped.union(skipped)
        self.plugins = tuple([bound for bound in self.plugins if bound.name not in cached])

    def narrowed(self, constant: frozenset[str], skippers: frozenset[str]) -> Calls:
        """Return the calls for a part of these pods, for which the answers of more plugins are the same."""
        calls = Calls(self.plugins, constant, skippers)
        calls.skipped, calls.entries = self.skipped, self.entries
        return calls


class TemplateCalls:
    """The calls at one extension point, by the constraints of pods and by template."""

    def __init__(self, plugins: tuple[Bound, ...], profile: Profile) -> None:
        self._plugins = plugins
        self._second = object()
        self._skippers = frozenset(bound.name for bound in plugins)
        self._constant = frozenset(bound.name for bound in plugins if dependence(bound.call) == "template")
        self._by_constraints = profile.by_constraints
        #: The calls for all pods with equal constraints.
        self._shared: WeakKeyDictionary[PodConstraints, Calls] = WeakKeyDictionary()

    def of(self, template: PodTemplate, state: CycleState) -> Calls:
        """Return the calls for a template; cached entries are added to the state."""
        calls = template.cache.get(self)
        if calls is None:
            # Many templates have only one pod, so caching per template starts with the second.
            template.cache[self] = self._second
            calls = self._of_constraints(template)
        elif calls is self._second:
            calls = self._of_constraints(template).narrowed(self._constant, self._skippers)
            template.cache[self] = calls
        if calls.entries:  # type: ignore[attr-defined]  # the key is private to this class
            state.preload(calls.entries)  # type: ignore[attr-defined]
        return calls  # type: ignore[return-value]

    def _of_constraints(self, template: PodTemplate) -> Calls:
        calls = self._shared.get(template.constraints)
        if calls is None:
            shared = self._by_constraints
            calls = Calls(self._plugins, self._constant & shared, self._skippers & shared)
            self._shared[template.constraints] = calls
        return calls
