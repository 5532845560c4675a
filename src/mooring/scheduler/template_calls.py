"""Which plugins of a point are asked for a template: not those that said they never have anything to do for it."""

from __future__ import annotations

from mooring.framework.templates import PodTemplate
from mooring.scheduler.profile import Bound


class Calls:
    """The plugins to ask for pods of one template, and the names of those that are skipped."""

    __slots__ = ("asked", "skipped")

    def __init__(self, asked: tuple[Bound, ...]) -> None:
        self.asked = asked
        self.skipped: frozenset[str] = frozenset()

    def leave_out(self, names: list[str]) -> None:
        """Do not ask some plugins again."""
        self.skipped = self.skipped.union(names)
        self.asked = tuple([bound for bound in self.asked if bound.name not in self.skipped])


class TemplateCalls:
    """The calls of one point, by template."""

    def __init__(self, point: str, plugins: tuple[Bound, ...]) -> None:
        self._key = (id(self), point)
        self._plugins = plugins

    def of(self, template: PodTemplate) -> Calls:
        """The calls for a template."""
        calls = template.cache.get(self._key)
        if calls is None:
            calls = template.cache[self._key] = Calls(self._plugins)
        return calls  # type: ignore[return-value]  # nobody else has this key
