"""How an answer about a configuration file compares with the golden one, by the rules of the golden data's README."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.releases import V1_36, V1_37, Release

GOLDEN = Path(__file__).parent.parent / "golden"
#: Each set, and the release that read its v1 files.
SETS: dict[str, Release] = {"config": V1_36, "config-1.37": V1_37}

_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:h|ms|m|s|us|\u00b5s|\u03bcs|ns))+|[-+]?0")
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|\u00b5s|\u03bcs|ns)")
_NANOSECONDS = {"h": 3600e9, "m": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ns": 1}
_DURATION_FIELDS = {
    "leaseDuration",
    "renewDeadline",
    "retryPeriod",
    "httpTimeout",
    "filterTimeout",
    "bindingTimeout",
}
_DECLARED = {
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "VolumeBinding",
}


def cases(data: str = "config") -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All golden files of a set, each with its answer."""
    folder = GOLDEN / data
    with gzip.open(folder / "cases.jsonl.gz", "rt") as given, gzip.open(folder / "expected.jsonl.gz", "rt") as answers:
        for case, answer in zip(given, answers, strict=True):
            yield json.loads(case), json.loads(answer)


def compare(case: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """What differs between the expected answer to a case (`expected`) and the given one; nothing if all is well."""
    expected = case["expected"]
    if expected["ok"] != answer.get("ok"):
        told = answer.get("errors") or expected.get("errors")
        return [f"ok is {answer.get('ok')}, expected {expected['ok']}: {told}"]
    if expected["ok"]:
        return list(_differences(_effective(expected["effective"]), _effective(answer["effective"]), ""))
    wanted = [error["path"] for error in expected["errors"]]
    given = [error["path"] for error in answer["errors"]]
    missing = [f"{path} is not reported" for path in wanted if path and path not in given]
    extra = [f"{path} should not be reported" for path in given if path not in wanted]
    return missing + (extra if "" not in wanted else [])


def _effective(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration in a form in which equal ones are equal."""
    version = config["apiVersion"].rpartition("/")[2]
    config = dict(config)
    profiles = []
    for profile in config.pop("profiles"):
        raw = profile.get("pluginConfig", {})
        declared = _DECLARED if version == "v1" else _DECLARED - {"DynamicResources"}
        args = {name: _bare(each) if name in declared else ["as written", each] for name, each in raw.items()}
        profiles.append({**_bare({**profile, "pluginConfig": {}}), "pluginConfig": args})
    return {**_bare(config), "profiles": profiles}


def _bare(value: Any, field: str = "") -> Any:
    """Without what is absent, null or zero; durations as numbers."""
    if isinstance(value, dict):
        kept = ((key, _bare(each, key)) for key, each in value.items())
        return {key: each for key, each in kept if each not in (None, "", 0, False, [], {})}
    if isinstance(value, list):
        return [_bare(each) for each in value]
    if field in _DURATION_FIELDS and isinstance(value, str) and _DURATION.fullmatch(value):
        sign = -1 if value.startswith("-") else 1
        return sign * sum(float(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(value))
    return value


def _differences(expected: Any, given: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(given, dict):
        for key in sorted(expected.keys() | given.keys()):
            yield from _differences(expected.get(key), given.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given):
        for index, (one, other) in enumerate(zip(expected, given, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif expected != given or isinstance(expected, bool) != isinstance(given, bool):
        yield f"{path.lstrip('.')} is {given!r}, expected {expected!r}"
