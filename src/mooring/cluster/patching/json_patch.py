"""JSON patches (RFC 6902) and JSON merge patches (RFC 7386).

JSON patches do not use python-json-patch, because responses have to match kube-apiserver: its error codes and texts are
those of the Go library `evanphx/json-patch`, which also lets `test` compare a missing field with null.
python-json-patch fails such a test. The merge patch has only ten lines, so it needs no dependency.
"""

import copy
from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.cluster.errors import ApiError, bad_request
from mooring.logs import get_logger

_log: Final = get_logger("mooring.cluster")


def json_patch(target: Any, operations: Any) -> Any:
    """Return the target after all operations. The target is not changed. One failed operation fails the patch."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = copy.deepcopy(target)
    for each in operations:
        if not isinstance(each, dict) or not isinstance(each.get("path"), str):
            raise bad_request("a JSON patch is a list of operations, each with an op and a path")
        document = _operate(document, each)
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    path = operation["path"]
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            return _replace(document, path, _value(operation))
        case "move":
            document, value = _remove(document, _source(operation))
            return _add(document, path, value)
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _source(operation))))
        case "test":
            return _test(document, path, operation.get("value"))
    raise bad_request(f"Unexpected kind: {operation.get('op')}")


def _test(document: Any, path: str, value: Any) -> Any:
    try:
        found = _get(document, path)
    except ApiError:
        found = None
    if found != value:
        raise _failed(f"testing path {path} failed: test failed")
    return document


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise bad_request(f"the operation {operation.get('op')} at {operation['path']} has no value")
    return copy.deepcopy(operation["value"])


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise bad_request(f"the operation {operation.get('op')} at {operation['path']} has no from")
    return source


def _failed(message: str) -> ApiError:
    # The response of Kubernetes does not include which operation failed and why, so log it.
    _log.debug("a JSON patch failed", why=message)
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def _steps(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise _failed(f"jsonpatch: the path {path!r} does not start with a slash")
    return [each.replace("~1", "/").replace("~0", "~") for each in path[1:].split("/")]


def _get(document: Any, path: str) -> Any:
    for step in _steps(path):
        document = _below(document, step, path)
    return document


def _index(step: str) -> int | None:
    """Parse an index of a list."""
    return parse_int(step) if step.isdigit() else None


def _below(container: Any, step: str, path: str) -> Any:
    if isinstance(container, dict) and step in container:
        return container[step]
    index = _index(step)
    if isinstance(container, list) and index is not None and index < len(container):
        return container[index]
    raise _failed(f"jsonpatch: the path {path!r} does not exist")


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *above, last = _steps(path)
    for step in above:
        document = _below(document, step, path)
    return document, last


def _add(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and (index := _index(last)) is not None and index <= len(parent):
        parent.insert(index, value)
    else:
        raise _failed(f"jsonpatch: cannot add at {path!r}")
    return document


def _replace(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        # The library of kube-apiserver adds a missing field here, although the RFC forbids it.
        parent[last] = value
    else:
        _below(parent, last, path)
        parent[int(last)] = value
    return document


def _remove(document: Any, path: str) -> tuple[Any, Any]:
    parent, last = _parent(document, path)
    value = _below(parent, last, path)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]
    return document, value


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target merged with the patch: null removes a field, objects are merged, other values replace.

    Neither argument is changed; the result shares unpatched parts with the target.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
