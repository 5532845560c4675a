"""The CEL expressions about devices: each is compiled once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from mooring.releases import Release

if TYPE_CHECKING:
    from mooring.plugins.dynamic_resources.device_expressions import DerivedAttribute, Selector

_T = TypeVar("_T")

#: The maximum number of cached expressions.
_MOST_EXPRESSIONS: Final = 4096


class SelectorError(ValueError):
    """A selector does not compile, or fails for a device. The text is kube-scheduler's."""

    def __init__(self, text: str, *, names_device: bool = False) -> None:
        super().__init__(text)
        #: Whether the message names the device.
        self.names_device = names_device


class Selectors:
    """The compiled expressions."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._known: OrderedDict[str, Selector] = OrderedDict()
        self._derived: OrderedDict[str, DerivedAttribute] = OrderedDict()

    def of(self, expression: str) -> Selector:
        """Return a compiled selector."""
        from mooring.plugins.dynamic_resources.device_expressions import Selector

        return _cached(self._known, expression, Selector, self._release)

    def derived(self, expression: str) -> DerivedAttribute:
        """Return a compiled derived attribute."""
        from mooring.plugins.dynamic_resources.device_expressions import DerivedAttribute

        return _cached(self._derived, expression, DerivedAttribute, self._release)


def _cached(known: OrderedDict[str, _T], expression: str, make: Callable[[str, Release], _T], release: Release) -> _T:
    found = known.get(expression)
    if found is None:
        found = known[expression] = make(expression, release)
        if len(known) > _MOST_EXPRESSIONS:
            known.popitem(last=False)
    else:
        known.move_to_end(expression)
    return found
