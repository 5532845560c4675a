"""Expressions about devices: CEL with the variable `device`, evaluated as kube-scheduler does.

A selector (`compile_selector`, `DeviceProgram.matches`) is true or false; a derived attribute (`compile_derived`,
`DeviceProgram.attribute`) has a value that an attribute can have. The messages are upstream's. An expression can name
every attribute and capacity of a device by domain and name; a domain that the device does not have is an empty map.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mooring.api.patterns import PatternIssue, compile_pattern
from mooring.cel import types
from mooring.cel.attribute_values import AttributeValue, NoAttributeError, Version, attribute_value
from mooring.cel.checker import Checker, TypeIssue, validate
from mooring.cel.conversions import parse_duration, parse_timestamp
from mooring.cel.cost import NEWER_CEL_GO
from mooring.cel.environment import Environment, Library, member
from mooring.cel.interpreter import Interrupted
from mooring.cel.kubernetes_library import (
    AUTHORIZATION,
    FORMATS,
    PATTERNS,
    QUANTITIES,
    QUANTITY,
    SEMVER,
    SEMVERS,
    parse_semver,
    quantity_value,
)
from mooring.cel.list_library import (
    BINDINGS,
    KUBERNETES_LISTS,
    LIMITED_RANGE,
    LISTS,
    RANGE,
    SETS,
    TWO_VARIABLES,
)
from mooring.cel.network_library import NETWORK
from mooring.cel.optional_library import OPTIONAL
from mooring.cel.parser import Parser, SyntaxIssue
from mooring.cel.planner import Program, ProgramIssue
from mooring.cel.standard_library import STANDARD
from mooring.cel.string_library import STRINGS, check_formats
from mooring.cel.values import (
    CelError,
    CostLimitExceeded,
    DefaultMap,
    InternalError,
    Map,
    Optional,
    Timestamp,
    Value,
    contains,
    equal,
    type_of,
)

#: The cost limit of one evaluation.
COST_LIMIT: Final = 1_000_000

#: `includes` of release 1.36 examines at most this many elements.
_MAX_VALUES: Final = 48


def _includes(target: Value, value: Value) -> Value:
    """Return whether a list has an element, or another value equals the argument."""
    return contains(target, value) if isinstance(target, list) else equal(target, value) is True


def _bounded_includes(target: Value, value: Value) -> Value:
    """Return whether a list has an element, or another value equals the argument."""
    if not isinstance(target, list):
        return equal(target, value) is True
    if contains(target[:_MAX_VALUES], value):
        return True
    if len(target) > _MAX_VALUES:
        return CelError(f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values")
    return False


_KUBERNETES: Final = (
    STANDARD,
    NETWORK,
    PATTERNS,
    KUBERNETES_LISTS,
    AUTHORIZATION,
    OPTIONAL,
    QUANTITIES,
    STRINGS,
    SETS,
    FORMATS,
    TWO_VARIABLES,
    SEMVERS,
    LISTS,
    BINDINGS,
)
_INCLUDES: Final = Library(
    (member("includes", "list_includes_dyn_dyn", (types.DYN, types.DYN), types.BOOL, _includes),)
)
_BOUNDED_INCLUDES: Final = Library(
    (member("includes", "dra_includes_dyn_dyn", (types.DYN, types.DYN), types.BOOL, _bounded_includes),)
)
_DEVICE: Final = types.struct("kubernetes.DRADevice")


@functools.cache
def _environment(list_attributes: bool, bounded_includes: bool, cel_go: int) -> Environment:
    """Return the declarations for attributes of type dyn, if they can be lists, or any."""
    attribute = types.DYN if list_attributes else types.ANY
    includes = _BOUNDED_INCLUDES if bounded_includes else _INCLUDES
    fields = {
        "driver": types.STRING,
        "allowMultipleAllocations": types.BOOL,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, QUANTITY)),
    }
    libraries = (*_KUBERNETES, LIMITED_RANGE if cel_go >= NEWER_CEL_GO else RANGE, includes)
    return Environment(libraries, {"device": _DEVICE}, {_DEVICE.name: fields}, cel_go=cel_go)


class CompileError(Exception):
    """An expression that does not compile; the message is what upstream puts after `CEL compile error: `."""


class EvaluationError(Exception):
    """An evaluation that fails; the message is upstream's, for example `no such key: memory`."""


class EvaluationInterrupted(EvaluationError):
    """An evaluation that did not end before its deadline."""


@dataclass(frozen=True, slots=True)
class CelDevice:
    """What a selector can see of a device. Names may have a domain; without one, they belong to the driver's."""

    driver: str
    attributes: Mapping[str, AttributeValue]
    #: Quantities, by name.
    capacity: Mapping[str, str]
    allow_multiple_allocations: bool | None = None


class DeviceProgram:
    """A compiled selector or derived attribute."""

    __slots__ = ("_list_attributes", "_program", "expression")

    def __init__(self, expression: str, program: Program, *, list_attributes: bool) -> None:
        self.expression = expression
        self._program = program
        self._list_attributes = list_attributes

    def matches(self, device: CelDevice, *, deadline: float | None = None) -> bool:
        """Return whether the device matches. Raises EvaluationError.

        `deadline` is a time of time.thread_time(), after which loops end with EvaluationInterrupted.
        """
        return self.matches_with_cost(device, deadline=deadline)[0]

    def matches_with_cost(self, device: CelDevice, *, deadline: float | None = None) -> tuple[bool, int]:
        """Return whether the device matches, and what the evaluation cost. Raises EvaluationError."""
        value, cost = self._evaluate(device, deadline)
        if value.__class__ is bool:
            return value, cost
        name = type_of(value).name
        while isinstance(value, Optional) and value.present:
            value = value.value
        if value.__class__ is bool:
            return value, cost
        raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {_conversion_issue(value)}")

    def attribute(self, device: CelDevice, *, deadline: float | None = None) -> AttributeValue:
        """Return the value of a derived attribute. Raises EvaluationError."""
        value, _ = self._evaluate(device, deadline)
        try:
            return attribute_value(value)
        except NoAttributeError as error:
            raise EvaluationError(str(error)) from None

    def _evaluate(self, device: CelDevice, deadline: float | None) -> tuple[Value, int]:
        """Return the value, and what the evaluation cost."""
        variables = {"device": device_value(device, list_attributes=self._list_attributes)}
        try:
            value, cost = self._program.evaluate(variables, deadline=deadline)
        except CostLimitExceeded:
            raise EvaluationError("operation cancelled: actual cost limit exceeded") from None
        except Interrupted:
            raise EvaluationInterrupted("operation interrupted") from None
        except InternalError as error:
            raise EvaluationError(str(error)) from None
        if isinstance(value, CelError):
            raise EvaluationError(value.message)
        return value, cost


def _conversion_issue(value: Value) -> str:
    """Return why a value is no bool."""
    name = type_of(value).name
    known = _CONVERSION_ISSUES.get(name)
    if known is not None:
        return known
    return f"type conversion error from '{_NATIVE_NAMES.get(name, name.rpartition('.')[2])}' to 'bool'"


_CONVERSION_ISSUES: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}
_NATIVE_NAMES: Final = {"kubernetes.NamedFormat": "Format"}


def _attribute(name: str, value: AttributeValue, *, list_attributes: bool) -> Value:
    if isinstance(value, Version):
        version = parse_semver(value.text)
        if isinstance(version, CelError):
            raise EvaluationError(f"attribute {name}: parse semantic version: {version.message}")
        return version
    if isinstance(value, tuple) and list_attributes:
        return [_attribute(name, each, list_attributes=False) for each in value]
    if value is None or isinstance(value, tuple):
        raise EvaluationError(f"attribute {name}: unsupported attribute value")
    return value


def device_value(device: CelDevice, *, list_attributes: bool = False) -> Map:
    """Return the variable `device`. Raises EvaluationError for values that upstream cannot convert."""
    attributes: dict[str, dict[str, Value]] = {}
    for name, value in device.attributes.items():
        domain, separator, identifier = name.partition("/")
        if not separator:
            domain, identifier = device.driver, name
        found = attributes.get(domain)
        if found is None:
            found = attributes[domain] = {}
        found[identifier] = _attribute(name, value, list_attributes=list_attributes)
    capacity: dict[str, dict[str, Value]] = {}
    for name, text in device.capacity.items():
        domain, separator, identifier = name.partition("/")
        if not separator:
            domain, identifier = device.driver, name
        capacity.setdefault(domain, {})[identifier] = quantity_value(text)
    return Map(
        {
            "driver": device.driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": DefaultMap({domain: Map(values) for domain, values in attributes.items()}, _EMPTY),  # type: ignore[arg-type]
            "capacity": DefaultMap({domain: Map(values) for domain, values in capacity.items()}, _EMPTY),  # type: ignore[arg-type]
        }
    )


_EMPTY: Final = Map()
#: The types of derived attributes, and of the elements of derived lists.
_DERIVED: Final = frozenset({types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, SEMVER})


def _valid_pattern(value: object) -> bool:
    try:
        compile_pattern(str(value))
    except PatternIssue:
        return False
    return True


_LITERALS: Final = {
    "duration": lambda value: not isinstance(value, str) or parse_duration(value) is not None,
    "timestamp": lambda value: not isinstance(value, str) or isinstance(parse_timestamp(value), Timestamp),
    "matches": lambda value: not isinstance(value, str) or _valid_pattern(value),
}


@functools.lru_cache(maxsize=1024)
def _compile(
    expression: str, list_attributes: bool, bounded_includes: bool, cel_go: int, is_derived: bool
) -> DeviceProgram | str:
    """Return a program, or a message."""
    offsets: dict[int, int] = {}
    attribute = types.DYN if list_attributes else types.ANY
    environment = _environment(list_attributes, bounded_includes, cel_go)
    try:
        parser = Parser(expression, environment.macros, quoted_fields=cel_go >= NEWER_CEL_GO)
        offsets = parser.offsets
        checked = Checker(environment).check(parser.parse())
        validate(checked, _LITERALS, exempt=("format",))
        check_formats(checked)
        output = checked.output()
        if is_derived:
            element = output.parameters[0] if output.kind == "list" else output
            if element not in _DERIVED:
                wanted = "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
                return f"must evaluate to {wanted}, not {output}"
        elif output not in {types.BOOL, types.ANY, attribute}:
            return f"must evaluate to bool or the unknown type, not {output}"
        program = Program(environment, checked, COST_LIMIT)
        return DeviceProgram(expression, program, list_attributes=list_attributes)
    except SyntaxIssue as issue:
        return _located(expression, issue.offset, issue.message)
    except TypeIssue as issue:
        return _located(expression, offsets.get(issue.node, 0), issue.message)
    except (ProgramIssue, InternalError) as issue:
        return f"program instantiation failed: {issue}"
    except (RecursionError, MemoryError):
        return _located(expression, 0, "expression recursion limit exceeded: 250")


def _located(expression: str, offset: int, message: str) -> str:
    """Return a message as cel-go prints it: with the line and a caret."""
    line = expression.count("\n", 0, offset) + 1
    start = expression.rfind("\n", 0, offset) + 1
    end = expression.find("\n", offset)
    text = expression[start : len(expression) if end < 0 else end]
    column = offset - start
    return f"compilation failed: ERROR: <input>:{line}:{column + 1}: {message}\n | {text}\n | {'.' * column}^"


def compile_selector(
    expression: str, *, list_attributes: bool = False, bounded_includes: bool | None = None, cel_go: int = 26
) -> DeviceProgram:
    """Compile a selector; with `list_attributes`, attributes can be lists. Raises CompileError.

    With `bounded_includes`, the function includes refuses long lists; that is so by default without `list_attributes`.
    `cel_go` is the version of cel-go, 0.26 (release 1.36) or 0.29 (release 1.37), whose costs and limits apply.
    """
    bounded = not list_attributes if bounded_includes is None else bounded_includes
    return _compiled(_compile(expression, list_attributes, bounded, cel_go, False))


def compile_derived(expression: str, *, list_attributes: bool = False, cel_go: int = 29) -> DeviceProgram:
    """Compile the expression of a derived attribute. Raises CompileError."""
    return _compiled(_compile(expression, list_attributes, not list_attributes, cel_go, True))


def _compiled(found: DeviceProgram | str) -> DeviceProgram:
    if isinstance(found, str):
        raise CompileError(found)
    return found
