"""Printer columns of custom resources."""

import re
from typing import Any, Final

import msgspec

from mooring.apiserver.documents import Document
from mooring.cluster.table_printer import Columns, age, since

_STEP: Final = re.compile(r"\.([A-Za-z0-9_\-]+|\*)|\[\*\]|\[(\d+)\]|\['([^']+)'\]|\[\?\((@\.[^)]*)\)\]")
_NAME: Final[Document] = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
_AGE: Final[Document] = {"name": "Age", "type": "date", "description": "", "priority": 0}


def custom_columns(version: Document) -> Columns:
    """Return the columns of one version: the name, and the columns of its definition or the age."""
    given = version.get("additionalPrinterColumns")
    if not given:
        return Columns((_NAME, _AGE), lambda document, now: [document["metadata"]["name"], age(document, now)])
    definitions = [
        {
            "name": each["name"],
            "type": each["type"],
            "format": each.get("format", ""),
            "description": each.get("description", ""),
            "priority": each.get("priority", 0),
        }
        for each in given
    ]

    def row(document: Document, now: float) -> list[Any]:
        cells = [_cell(find(document, each["jsonPath"]), each["type"], now) for each in given]
        return [document["metadata"]["name"], *cells]

    return Columns((_NAME, *definitions), row)


def _cell(found: list[Any], kind: str, now: float) -> Any:
    if not found:
        return None
    value = found[0]
    if kind == "date":
        return since(value, now) if isinstance(value, str) else None
    if kind == "string":
        if len(found) > 1:
            return ",".join(str(each) for each in found)
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return value


def find(document: Any, path: str) -> list[Any]:
    """Return the values at a simple JSONPath such as `.status.conditions[?(@.type=="Ready")].status`."""
    found = [document]
    for match in _STEP.finditer(path):
        name, index, quoted, condition = match.groups()
        if condition is not None:
            found = [inner for each in found if isinstance(each, list) for inner in each if _holds(inner, condition)]
        elif index is not None:
            found = [each[int(index)] for each in found if isinstance(each, list) and int(index) < len(each)]
        elif name in {None, "*"} and quoted is None:
            found = [inner for each in found for inner in _inside(each)]
        else:
            key = quoted or name
            found = [each[key] for each in found if isinstance(each, dict) and key in each]
    return found


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _holds(value: Any, condition: str) -> bool:
    match = re.fullmatch(r"@\.([A-Za-z0-9_.\-]+)\s*==\s*[\"']([^\"']*)[\"']", condition.strip())
    if match is None:
        return False
    return find(value, f".{match[1]}")[:1] == [match[2]]
