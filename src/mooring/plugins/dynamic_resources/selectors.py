"""CEL selectors of devices: each is compiled once, and evaluated once for each distinct device content."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import Final

from mooring.api.devices import DeviceAttribute
from mooring.cel.devices import (
    AttributeValue,
    CelDevice,
    CompileError,
    EvaluationError,
    EvaluationInterrupted,
    Version,
    compile_selector,
)
from mooring.plugins.dynamic_resources.pools import DeviceContent

#: The maximum number of cached expressions, and of answers cached for one.
_MOST_EXPRESSIONS: Final = 4096
_MOST_ANSWERS: Final = 100_000
#: The longest evaluation for one device.
_MOST_SECONDS: Final = 1.0


class SelectorError(ValueError):
    """A selector does not compile, or fails for a device. The text is kube-scheduler's."""


class Selector:
    """A compiled expression with its answers by device content."""

    __slots__ = ("_answers", "_compiled", "_error")

    def __init__(self, expression: str) -> None:
        self._answers: dict[int, bool | SelectorError] = {}
        self._error = ""
        try:
            self._compiled = compile_selector(expression)
        except CompileError as error:
            self._error = f"CEL compile error: {error}"

    def matches(self, content: DeviceContent) -> bool:
        """Return whether a device matches. Raises SelectorError."""
        if self._error:
            raise SelectorError(self._error)
        answer = self._answers.get(content.number)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = self._answers[content.number] = self._evaluate(content)
        if isinstance(answer, SelectorError):
            raise SelectorError(str(answer))
        return answer

    def _evaluate(self, content: DeviceContent) -> bool | SelectorError:
        deadline = monotonic() + _MOST_SECONDS
        try:
            return self._compiled.matches(cel_device(content), deadline=deadline)
        except EvaluationInterrupted:
            return SelectorError("CEL runtime error: operation interrupted")
        except EvaluationError as error:
            return SelectorError(f"CEL runtime error: {error}")


def cel_device(content: DeviceContent) -> CelDevice:
    """Return a device as selectors see it."""
    found = content.cel_device
    if found is None:
        found = content.cel_device = CelDevice(
            driver=content.driver,
            attributes={name: _attribute(each) for name, each in content.attributes.items()},
            capacity={name: str(each.value.text) for name, each in content.capacities.items()},
            allow_multiple_allocations=content.device.allow_multiple_allocations,
        )
    return found


def _attribute(attribute: DeviceAttribute) -> AttributeValue:
    """Return the value of an attribute; None for lists, which selectors cannot read."""
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    return None if attribute.version is None else Version(attribute.version)


class Selectors:
    """The compiled expressions."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Selector] = OrderedDict()

    def of(self, expression: str) -> Selector:
        """Return a compiled expression."""
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = Selector(expression)
            if len(self._known) > _MOST_EXPRESSIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(expression)
        return found
