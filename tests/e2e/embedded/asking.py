"""Asks two API servers the same, and tells in what their answers differ."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

_VOLATILE = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "time",
        "lastTransitionTime",
        "deletionTimestamp",
        "clusterIP",
        "lastPhaseTransitionTime",
        "continue",
        "managedFields",
    }
)
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_GENERATED = re.compile(r"\bA-[a-z0-9]{5}\b")
#: What Go shows of a value that changed, and what a patched object looks like: details that nobody reads.
_DETAILS = re.compile(r"\n(@@|changed:).*", re.DOTALL)
_PATCHED = re.compile(r'Invalid value: "\{.*\}"', re.DOTALL)
_AGE = re.compile(r"^\d+[smh](\d+s)?$")


class Asker:
    """One API server."""

    def __init__(self, server: str, authority: str, token: str) -> None:
        self._server = server
        self._token = token
        self._context = ssl.create_default_context(cadata=authority)
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Status, body and warnings of an answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept, "User-Agent": "asker/1"}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = content
        request = urllib.request.Request(self._server + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self._context) as response:
                return _answer(response.status, response.read(), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read(), error.headers)


def _answer(status: int, body: bytes, headers: Any) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = body.decode()
    # What the embedded cluster says about itself, the real one does not say.
    warnings = [each for each in headers.get_all("Warning") or () if "the embedded cluster" not in each]
    return {"status": status, "warnings": warnings, "body": parsed}


def comparable(value: Any) -> Any:
    """An answer without what differs from one server, or one second, to the next."""
    if isinstance(value, dict):
        kept = {key: "…" if key in _VOLATILE else comparable(each) for key, each in value.items()}
        kept.pop("managedFields", None)
        if "clusterIPs" in kept:
            kept["clusterIPs"] = ["…" if each != "None" else each for each in kept["clusterIPs"]]
        if "causes" in kept:
            # Kubernetes tells some twice, and those of custom resources in any order.
            kept["causes"] = sorted({json.dumps(each, sort_keys=True) for each in kept["causes"]})
        if kept.get("reason") == "Invalid":
            # All causes in a row: they are compared one by one.
            kept["message"] = str(kept["message"]).partition(" is invalid: [")[0]
        if kept.get("kind") == "Table":
            kept = _table(kept)
        return kept
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, str):
        text = _DETAILS.sub("", _GENERATED.sub("A-…", _UID.sub("UID", value)))
        return _PATCHED.sub('Invalid value: "{…}"', text)
    return value


def _table(table: dict[str, Any]) -> dict[str, Any]:
    """Columns and cells; descriptions and ages are left out."""
    columns = [
        {key: each[key] for key in ("name", "type", "format", "priority")} for each in table["columnDefinitions"]
    ]
    rows = sorted(
        [
            ["AGE" if isinstance(cell, str) and _AGE.match(cell) else cell for cell in each["cells"]]
            for each in table["rows"]
        ],
        key=str,
    )
    return {"columns": columns, "rows": rows}


def differences(real: Any, ours: Any) -> list[str]:
    """Where two answers differ, path by path."""
    left, right = dict(_flat(comparable(real))), dict(_flat(comparable(ours)))
    return [
        f"{path}: real {left.get(path, 'nothing')!r}, ours {right.get(path, 'nothing')!r}"
        for path in sorted({*left, *right})
        if left.get(path, "nothing") != right.get(path, "nothing")
    ]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _flat(each, f"{path}[{index}]")
    else:
        yield path, value
