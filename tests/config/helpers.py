"""Small things that the configuration tests share."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from mooring.config import ConfigError, FieldError, PluginSpec, SchedulerConfiguration, effective, load_config
from mooring.releases import V1_36

# The golden files that these tests use were recorded with 1.36; `tests/golden` has those of 1.37.

#: The golden set's out-of-tree plugins, as `stub_plugins.py` defines them.
STUBS = {
    name: PluginSpec(name, frozenset(points.split()))
    for name, points in {
        "NodeCRDResourceFit": "filter score",
        "ScoreByName": "score",
        "ScoreByNameLength": "score",
        "BlockAll": "preFilter",
    }.items()
}


def text(body: str = "", *, version: str = "v1") -> str:
    """A file of a version with these lines below its first two."""
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
    return head + textwrap.dedent(body)


def load(body: str = "", *, version: str = "v1") -> SchedulerConfiguration:
    return load_config(text(body, version=version), source="f.yaml", plugins=STUBS, release=V1_36)


def failure(body: str, *, version: str = "v1") -> ConfigError:
    """The error that a file gives."""
    try:
        load(body, version=version)
    except ConfigError as error:
        return error
    raise AssertionError("the file was accepted")


def errors(body: str, *, version: str = "v1") -> list[FieldError]:
    return failure(body, version=version).errors


def paths(body: str, *, version: str = "v1") -> list[str]:
    """Where the errors are, or nothing if there are none."""
    try:
        load(body, version=version)
    except ConfigError as error:
        return sorted(each.path for each in error.errors)
    return []


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What is made of a golden case."""
    return _answer(case["id"], case["config"])


@functools.cache
def _answer(identity: str, file: str) -> dict[str, Any]:
    try:
        config = load_config(file, source=identity, plugins=STUBS, release=V1_36)
    except ConfigError as error:
        told = [{"path": each.path, "message": each.message, "line": each.line} for each in error.errors]
        return {"id": identity, "ok": False, "stage": error.stage, "errors": told}
    return {"id": identity, "ok": True, "effective": effective(config)}
