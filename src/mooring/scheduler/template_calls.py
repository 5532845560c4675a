"""TemplateCalls: which PreFilter or PreScore plugins to call for a pod, and the cached answers of the others.

Hot path. Most of these plugins read only the pod, so their answers and cycle state entries are cached: for all pods
with equal constraints if the plugin reads nothing else (``Plugin.template_part``), and per template for the others. A
plugin declares that its answers are constant with ``@depends_on("template")`` or ``Status.skip(template=True)``. The
Skip of a built-in plugin that also depends on other objects (SKIP_THIS_VERSION) is cached for a version of these.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from mooring.api.pod import Pod
from mooring.columns.templates import PodConstraints, PodTemplate
from mooring.framework.plugin import dependence
from mooring.framework.state import CycleState, StateKey
from mooring.scheduler.profile import Bound, Profile

_NOBODY: frozenset[str] = frozenset()


class Calls:
    """The plugins to call for some pods, and the cached skips and state entries of the others."""

    __slots__ = ("_order", "_versions", "constant", "entries", "plugins", "skipped", "skippers", "versioned")

    def __init__(
        self,
        plugins: tuple[Bound, ...],
        constant: frozenset[str],
        skippers: frozenset[str],
        versioned: frozenset[str] = _NOBODY,
    ) -> None:
        self.plugins = self._order = plugins
        #: The plugins whose answer, if it is None or Skip, is the same for all these pods.
        self.constant = constant
        #: The plugins whose answer is the same for all these pods if it is ``Status.skip(template=True)``.
        self.skippers = skippers
        #: The plugins whose answer is the same for all these pods if it is SKIP_THIS_VERSION, while the version is.
        self.versioned = versioned
        self.skipped: frozenset[str] = _NOBODY
        self.entries: dict[StateKey[Any], Any] = {}
        #: The plugins that are skipped because of a version, and the version.
        self._versions: tuple[tuple[Bound, object], ...] = ()

    def cache(self, cached: list[str], skipped: list[str], entries: dict[StateKey[Any], Any]) -> None:
        """Cache the answers of some plugins. These plugins are not called again."""
        self.entries = {**self.entries, **entries}
        self.skipped = self.skipped.union(skipped)
        self.plugins = tuple([bound for bound in self.plugins if bound.name not in cached])

    def cache_version(self, bound: Bound) -> None:
        """Cache that a plugin skips these pods while its version stays the same, if that holds for all of them."""
        if bound.name not in self.versioned:
            return
        self._versions = (*self._versions, (bound, bound.plugin.skip_version()))
        self.cache([bound.name], [bound.name], {})

    def check_versions(self) -> None:
        """Call plugins again that were skipped because of a version that has changed."""
        for bound, version in self._versions:
            if bound.plugin.skip_version() != version:
                self._call_again(bound)

    def _call_again(self, again: Bound) -> None:
        self._versions = tuple([each for each in self._versions if each[0] is not again])
        self.skipped = self.skipped - {again.name}
        called = {bound.name for bound in (*self.plugins, again)}
        self.plugins = tuple([bound for bound in self._order if bound.name in called])

    def narrowed(self, constant: frozenset[str], skippers: frozenset[str], versioned: frozenset[str]) -> Calls:
        """Return the calls for a part of these pods, for which the answers of more plugins are the same."""
        calls = Calls(self._order, constant, skippers, versioned)
        calls.plugins, calls.skipped, calls.entries = self.plugins, self.skipped, self.entries
        return calls


class TemplateCalls:
    """The calls at one extension point, by the constraints of pods and by template."""

    def __init__(self, plugins: tuple[Bound, ...], profile: Profile) -> None:
        self._plugins = plugins
        self._second = object()
        self._skippers = frozenset(bound.name for bound in plugins)
        self._constant = frozenset(bound.name for bound in plugins if dependence(bound.call) == "template")
        self._builtin = frozenset(bound.name for bound in plugins if profile.is_builtin(bound.name))
        self._by_constraints = profile.by_constraints
        #: The calls for all pods with equal constraints.
        self._shared: WeakKeyDictionary[PodConstraints, Calls] = WeakKeyDictionary()

    def of(self, pod: Pod, template: PodTemplate, state: CycleState) -> Calls:
        """Return the calls for a pod of a template; cached entries are added to the state."""
        if pod.spec.node_name:  # it is not part of the template
            return Calls(self._plugins, _NOBODY, _NOBODY)
        calls = template.cache.get(self)
        if calls is None:
            # Many templates have only one pod, so caching per template starts with the second.
            template.cache[self] = self._second
            calls = self._shared.get(template.constraints) or self._of_constraints(template)
        elif calls is self._second:
            shared = self._of_constraints(template)
            calls = template.cache[self] = shared.narrowed(self._constant, self._skippers, self._builtin)
        else:
            calls.check_versions()  # type: ignore[attr-defined]  # the key is private to this class
        if calls.entries:  # type: ignore[attr-defined]
            state.preload(calls.entries)  # type: ignore[attr-defined]
        return calls  # type: ignore[return-value]

    def _of_constraints(self, template: PodTemplate) -> Calls:
        calls = self._shared.get(template.constraints)
        if calls is None:
            shared = self._by_constraints
            calls = Calls(self._plugins, self._constant & shared, self._skippers & shared)
            self._shared[template.constraints] = calls
        return calls
