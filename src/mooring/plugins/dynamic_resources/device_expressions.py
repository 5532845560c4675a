"""Compiled CEL expressions about devices. Each is evaluated once for each distinct device content.

`selectors` imports this module when a claim has an expression, because the CEL packages take time to import.
"""

from __future__ import annotations

from time import thread_time
from typing import Final

from mooring.api.devices import DeviceAttribute
from mooring.cel.attribute_values import AttributeValue, Version
from mooring.cel.devices import (
    CelDevice,
    CompileError,
    EvaluationError,
    EvaluationInterrupted,
    compile_derived,
    compile_selector,
)
from mooring.plugins.dynamic_resources.pools import DeviceContent
from mooring.plugins.dynamic_resources.selectors import SelectorError
from mooring.releases import Release

#: The maximum number of answers cached for one expression.
_MOST_ANSWERS: Final = 100_000
#: The most processor time for one device. The limit of the cost ends an expression much earlier: after about two
#: seconds, whatever the load of the machine is.
_MOST_SECONDS: Final = 10.0
#: What release 1.37 adds to the error of a missing key.
_MISSING_KEY: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)


class Selector:
    """A compiled expression with its answers by device content."""

    __slots__ = ("_answers", "_compiled", "_error", "_release")

    def __init__(self, expression: str, release: Release) -> None:
        self._release = release
        self._answers: dict[int, bool | SelectorError] = {}
        self._error = ""
        try:
            self._compiled = compile_selector(
                expression,
                list_attributes=release.selectors_read_lists or release.enabled("DRAListTypeAttributes"),
                bounded_includes=not release.includes_reads_long_lists,
                cel_go=release.cel_go,
            )
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
            raise SelectorError(str(answer), names_device=answer.names_device)
        return answer

    def _evaluate(self, content: DeviceContent) -> bool | SelectorError:
        deadline = thread_time() + _MOST_SECONDS
        try:
            return self._compiled.matches(cel_device(content), deadline=deadline)
        except EvaluationInterrupted:
            return self._failed("operation interrupted")
        except EvaluationError as error:
            return self._failed(str(error))

    def _failed(self, text: str) -> SelectorError:
        names_device = self._release.selector_errors_name_device
        if names_device and "no such key:" in text:
            text += _MISSING_KEY
        return SelectorError(f"CEL runtime error: {text}", names_device=names_device)


class DerivedAttribute:
    """A compiled expression of a derived attribute, with its values by device content."""

    __slots__ = ("_compiled", "_values", "error")

    def __init__(self, expression: str, release: Release) -> None:
        #: Why the expression does not compile.
        self.error = ""
        self._values: dict[int, DeviceAttribute | str] = {}
        try:
            self._compiled = compile_derived(
                expression, list_attributes=release.selectors_read_lists, cel_go=release.cel_go
            )
        except CompileError as error:
            self.error = str(error)

    def of(self, content: DeviceContent) -> DeviceAttribute:
        """Return the attribute of a device. Raises SelectorError."""
        found = self._values.get(content.number)
        if found is None:
            if len(self._values) >= _MOST_ANSWERS:
                self._values.clear()
            found = self._values[content.number] = self._evaluate(content)
        if isinstance(found, str):
            raise SelectorError(found)
        return found

    def _evaluate(self, content: DeviceContent) -> DeviceAttribute | str:
        try:
            value = self._compiled.attribute(cel_device(content), deadline=thread_time() + _MOST_SECONDS)
        except EvaluationError as error:
            return str(error)
        return _device_attribute(value)


def _device_attribute(value: AttributeValue) -> DeviceAttribute:
    """Return the attribute with a value; an empty list is one of strings, as upstream."""
    several = value if isinstance(value, tuple) else ()
    if several and isinstance(several[0], Version):
        return DeviceAttribute(versions=tuple(each.text for each in several))
    if isinstance(value, Version):
        return DeviceAttribute(version=value.text)
    kind = (several[0] if several else value).__class__
    fields = ("bools", "ints", "strings") if isinstance(value, tuple) else ("bool_", "int_", "string")
    field = fields[0] if kind is bool else fields[1] if kind is int else fields[2]
    return DeviceAttribute(**{field: value})  # type: ignore[arg-type]


def cel_device(content: DeviceContent) -> CelDevice:
    """Return a device as selectors see it."""
    found = content.cel_device
    if found is None:
        found = content.cel_device = CelDevice(
            driver=content.driver,
            attributes={name: _attribute(each) for name, each in content.attributes.items()},
            capacity={name: str(each.value.text) for name, each in content.capacities.items()},
            allow_multiple_allocations=content.seen_multiple,
        )
    return found


def _attribute(attribute: DeviceAttribute) -> AttributeValue:
    """Return the value of an attribute."""
    for values in (attribute.ints, attribute.bools, attribute.strings):
        if values:
            return values
    if attribute.versions:
        return tuple(map(Version, attribute.versions))
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    return None if attribute.version is None else Version(attribute.version)
