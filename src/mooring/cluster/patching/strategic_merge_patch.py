"""Strategic merge patches: merge patches that merge some lists by key.

In addition to values, a patch can have directives: `$patch` (replace, merge, delete), `$retainKeys`, and for a field
`x`, `$deleteFromPrimitiveList/x` and `$setElementOrder/x`. No Python library implements this format of Kubernetes.
"""

from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.cluster.errors import bad_request
from mooring.cluster.schema.shape import LIST, UNKNOWN, Shape

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
            _reorder(result, key.removeprefix(_ORDER), value, shape)
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
        return present + [each for each in patch if each not in present]
    return _merged_by_key(present, patch, shape)


def _merged_by_key(present: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    item, key = shape.item or UNKNOWN, shape.merge_key
    result = list(present)
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise bad_request(f"map: {each} does not contain declared merge key: {key}")
        places = [index for index, old in enumerate(result) if isinstance(old, dict) and old.get(key) == each[key]]
        if each.get(_DIRECTIVE) == "delete":
            result = [old for index, old in enumerate(result) if index not in places]
        elif places:
            result[places[0]] = strategic_merge_patch(result[places[0]], each, item)
        else:
            result.append(strategic_merge_patch({}, each, item))
    return result


def _delete_from(result: Document, key: str, values: Any) -> None:
    if isinstance(result.get(key), list) and isinstance(values, list):
        result[key] = [each for each in result[key] if each not in values]


def _reorder(result: Document, key: str, order: Any, shape: Shape) -> None:
    """Sort elements in the given order. Other elements keep their relative position."""
    present = result.get(key)
    if not isinstance(present, list) or not isinstance(order, list):
        return
    merge_key = shape.child(key).merge_key

    def identity(each: Any) -> Any:
        return each.get(merge_key) if merge_key and isinstance(each, dict) else each

    wanted = [identity(each) for each in order]
    named = sorted(
        (each for each in present if identity(each) in wanted), key=lambda each: wanted.index(identity(each))
    )
    result[key] = _interleaved(present, named, [identity(each) for each in named], identity)


def _interleaved(present: list[Any], named: list[Any], names: list[Any], identity: Any) -> list[Any]:
    rest = [(index, each) for index, each in enumerate(present) if identity(each) not in names]
    places = {name: index for index, name in enumerate(map(identity, present))}
    result: list[Any] = []
    waiting = list(named)
    for index, each in rest:
        while waiting and places[identity(waiting[0])] < index:
            result.append(waiting.pop(0))
        result.append(each)
    return result + waiting


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
