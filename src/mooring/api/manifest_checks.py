"""Validation of manifests beyond the types of fields.

An API server would reject these values. Without one, a scheduler that computes with them would fail much later.
"""

from collections.abc import Iterator
from typing import Any, Final

from mooring.api.decode_errors import Fault
from mooring.api.meta import KubeObject, parse_time
from mooring.api.quantity import QuantityError, parse_quantity
from mooring.api.yaml_nodes import Step

_QUANTITY_MAPS: Final = frozenset(
    {
        "requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources",
        "minResources", "capability", "deserved", "resource", "hard", "used", "allocated",
    }
)  # fmt: skip
_QUANTITIES: Final = frozenset({"capacity", "maximumVolumeSize", "sizeLimit"})
_TIMES: Final = frozenset({"creationTimestamp", "deletionTimestamp", "startTime"})
_TEXT_MAPS: Final = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "parameters", "volumeAttributes"}
)
#: Mappings whose keys may look like fields.
_SKIPPED: Final = _TEXT_MAPS | {"managedFields"}


def find_faults(decoded: KubeObject, raw: dict[str, Any]) -> Iterator[Fault]:
    """Yield the errors in an object; `raw` is the document it was decoded from."""
    if not decoded.metadata.name:
        generated = "; generateName needs an API server" if decoded.metadata.generate_name else ""
        yield Fault(("metadata", "name"), f"is required{generated}", "give the object a name")
    yield from _walk(raw, ())


def _walk(value: Any, steps: tuple[Step, ...]) -> Iterator[Fault]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, (*steps, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _SKIPPED:
                yield from _field(key, item, (*steps, key))


def _field(key: str, value: Any, steps: tuple[Step, ...]) -> Iterator[Fault]:
    if key in _QUANTITY_MAPS and isinstance(value, dict):
        for name, item in value.items():
            yield from _quantity(item, (*steps, name))
    elif key in _QUANTITIES and isinstance(value, str | int | float):
        yield from _quantity(value, steps)
    elif key in _TIMES and isinstance(value, str):
        yield from _time(value, steps)
    else:
        yield from _walk(value, steps)


def _quantity(value: Any, steps: tuple[Step, ...]) -> Iterator[Fault]:
    if not isinstance(value, str | int | float):
        return
    try:
        parse_quantity(value)
    except QuantityError as error:
        problem, _, remedy = str(error).partition(": ")
        yield Fault(steps, problem, remedy)


def _time(value: str, steps: tuple[Step, ...]) -> Iterator[Fault]:
    try:
        parse_time(value)
    except ValueError as error:
        yield Fault(steps, str(error))


def without_nulls(value: Any) -> Any:
    """Return a copy without nulls, which mean an absent field, empty text or zero, depending on the field."""
    return _strip(value, "", {})


def _strip(value: Any, field: str, done: dict[int, Any]) -> Any:
    # The same value may occur many times: copy it once, so that the copy does not grow.
    if isinstance(value, dict):
        if (known := done.get(id(value))) is not None:
            return known
        substitute = "" if field in _TEXT_MAPS else "0" if field in _QUANTITY_MAPS else None
        copy = {key: substitute if item is None else _strip(item, key, done) for key, item in value.items()}
        done[id(value)] = result = {key: item for key, item in copy.items() if item is not None}
        return result
    if isinstance(value, list):
        if (known := done.get(id(value))) is not None:
            return known
        done[id(value)] = items = [_strip(item, field, done) for item in value]
        return items
    return value
