"""Strategic merge patches: merge patches that merge some lists by key.

In addition to values, a patch can have directives: `$patch` (replace, merge, delete), `$retainKeys`, and for a field
`x`, `$deleteFromPrimitiveList/x` and `$setElementOrder/x`. No Python library implements this format of Kubernetes.
"""

from collections import deque
from collections.abc import Hashable
from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.cluster.errors import bad_request
from mooring.cluster.schema.shape import LIST, UNKNOWN, Shape
from mooring.cluster.store import encode

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def strategic_merge_patch(target: Any, patch: Document, shape: Shape) -> Document:
    """Return the target merged with the patch. Neither is changed."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return dict(_cleaned(patch))
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"unknown patch directive {directive!r}: it must be replace, merge or delete")
    result = dict(target) if isinstance(target, dict) else {}
    retained = patch.get(_RETAIN)
    if retained is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(result, key.removeprefix(_DELETE_FROM), value)
    for key, value in patch.items():
        if key in {_DIRECTIVE, _RETAIN} or key.startswith((_DELETE_FROM, _ORDER)):
            continue
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value, shape.child(key))
    for key, value in patch.items():
        if key.startswith(_ORDER):
            _reorder(result, key.removeprefix(_ORDER), value, target, shape)
    return result


def _merged(target: Any, patch: Any, shape: Shape) -> Any:
    if isinstance(patch, dict):
        return strategic_merge_patch(target, patch, shape)
    if isinstance(patch, list):
        return _merged_list(target, patch, shape)
    return patch


def _merged_list(target: Any, patch: list[Any], shape: Shape) -> list[Any]:
    if any(isinstance(each, dict) and each.get(_DIRECTIVE) == "replace" and len(each) == 1 for each in patch):
        return [_cleaned(each) for each in patch if not (isinstance(each, dict) and _DIRECTIVE in each)]
    if shape.kind != LIST or not shape.merges:
        return [_cleaned(each) for each in patch]
    present = list(target) if isinstance(target, list) else []
    if not shape.merge_key:
        known = _places(present, "")
        merged = present + [each for each in patch if _identity(each, "") not in known]
    else:
        merged = _merged_by_key(present, patch, shape)
    return _ordered(merged, patch, present, shape.merge_key)


def _merged_by_key(present: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    item, key = shape.item or UNKNOWN, shape.merge_key
    result: list[Any] = list(present)
    places = _places(present, key)
    deleted = set()
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        identity = _identity(each, key)
        if each.get(_DIRECTIVE) == "delete":
            deleted.add(identity)
        elif identity in places:
            result[places[identity]] = strategic_merge_patch(result[places[identity]], each, item)
        else:
            places[identity] = len(result)
            result.append(strategic_merge_patch({}, each, item))
    return [each for each in result if _identity(each, key) not in deleted] if deleted else result


def _identity(element: Any, merge_key: str) -> Hashable:
    """Return what identifies an element of a list: its merge key, or the value itself."""
    value = element.get(merge_key) if merge_key and isinstance(element, dict) else element
    return value if isinstance(value, Hashable) else encode(value)


def _places(elements: list[Any], merge_key: str) -> dict[Hashable, int]:
    """Return the index of each element, by its identity."""
    found: dict[Hashable, int] = {}
    for index, each in enumerate(elements):
        found.setdefault(_identity(each, merge_key), index)
    return found


def _delete_from(result: Document, key: str, values: Any) -> None:
    if isinstance(result.get(key), list) and isinstance(values, list):
        result[key] = [each for each in result[key] if each not in values]


def _reorder(result: Document, key: str, order: Any, target: Any, shape: Shape) -> None:
    """Sort the elements of a list in the order that the patch requests."""
    present = result.get(key)
    if isinstance(present, list) and isinstance(order, list):
        before = target.get(key) if isinstance(target, dict) else None
        result[key] = _ordered(present, order, before if isinstance(before, list) else [], shape.child(key).merge_key)


def _ordered(merged: list[Any], order: list[Any], before: list[Any], merge_key: str) -> list[Any]:
    """Return a merged list in the order of Kubernetes.

    The elements of the patch are in the order of the patch, and the other ones in their previous order. An other
    element precedes an element of the patch only if it preceded it before, so new elements come first.
    """
    wanted, earlier = _places(order, merge_key), _places(before, merge_key)
    patched = deque(
        sorted(
            (each for each in merged if _identity(each, merge_key) in wanted),
            key=lambda each: wanted[_identity(each, merge_key)],
        )
    )
    result: list[Any] = []
    for each in merged:
        identity = _identity(each, merge_key)
        if identity in wanted:
            continue
        place = earlier.get(identity)
        while patched and not (place is not None and place < earlier.get(_identity(patched[0], merge_key), -1)):
            result.append(patched.popleft())
        result.append(each)
    return [*result, *patched]


def _cleaned(value: Any) -> Any:
    """Return a value of a patch without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _cleaned(each)
            for key, each in value.items()
            if each is not None and key not in {_DIRECTIVE, _RETAIN} and not key.startswith((_DELETE_FROM, _ORDER))
        }
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return value
