"""Cases for `evaluate`: the objects, the pod or pods to place, and the configuration."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.codec import Unknown, decode_object, fit
from mooring.api.decode_errors import ConversionError, ManifestError, path_text
from mooring.api.devices import DeviceClass
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import ConfigError, SchedulerConfiguration, load_config
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declarations import CustomKinds
from mooring.loading import Catalog
from mooring.loading.setup import config_for
from mooring.releases import NEWEST, Release
from mooring.scheduler.cache import Cache


class CaseError(ValueError):
    """An error in a case. The message names the field and the remedy."""


def fill(cache: Cache, case: Mapping[str, Any], kinds: CustomKinds) -> None:
    """Add a case's objects to a cache; ``kinds`` are the custom resources that plugins read."""
    objects = case.get("objects", [])
    if not isinstance(objects, list):
        raise CaseError("objects: not a list; give the cluster's objects as a list")
    classes: list[DeviceClass] = []
    for number, raw in enumerate(objects):
        item = _decode(raw, f"objects[{number}]")
        if isinstance(item, DeviceClass):
            classes.append(item)
        elif isinstance(item, KubeObject):
            cache.put(item)
        elif isinstance(item, Unknown):
            for kind in kinds.get((item.api_version, item.kind), ()):
                cache.put(_fitted(item, kind, f"objects[{number}]"))
    for each in sorted(classes, key=lambda item: item.name):  # their order matters, and an API server lists by name
        cache.put(each)


def pod_of(raw: Any, where: str) -> Pod:
    """Return a pod to place. Raises CaseError."""
    pod = _decode(raw, where)
    if not isinstance(pod, Pod):
        raise CaseError(f"{where}: not a Pod; give the pod to place as an object with kind: Pod")
    return pod


def as_stored(pod: Pod, release: Release) -> Pod:
    """Return a pod as an API server of a release stores it: without the fields of feature gates that are off."""
    if pod.spec.scheduling_group is None or release.enabled("GenericWorkload"):
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=None))


def object_of(raw: Any, where: str) -> KubeObject:
    """Return an object of a known kind. Raises CaseError."""
    item = _decode(raw, where)
    if not isinstance(item, KubeObject):
        raise CaseError(f"{where}: the kind is not known; give an object that kube-scheduler watches")
    return item


def pods_of(case: Mapping[str, Any]) -> list[Pod]:
    """Return the pods to try one after another. A pod that is listed again is the same pod. Raises CaseError."""
    given = case["pods"]
    if not isinstance(given, list):
        raise CaseError("pods: not a list; give the pods to try as a list, in the order of the attempts")
    known: dict[str, Pod] = {}
    return [known.setdefault(pod.key, pod) for pod in (_named(raw, f"pods[{n}]") for n, raw in enumerate(given))]


def elapse_of(case: Mapping[str, Any], attempts: int) -> dict[int, float]:
    """Return the seconds that pass before an attempt, by its number. Raises CaseError."""
    given = case.get("elapse") or {}
    remedy = f'write the seconds by attempt, as {{"0": 5}}; there are attempts 0 to {attempts - 1}'
    if not isinstance(given, dict):
        raise CaseError(f"elapse: not an object; {remedy}")
    found: dict[int, float] = {}
    for attempt, seconds in given.items():
        if not (attempt.isdecimal() and int(attempt) < attempts):
            raise CaseError(f"elapse: there is no attempt {attempt!r}; {remedy}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e9:
            raise CaseError(f"elapse.{attempt}: {seconds!r} is no number of seconds; {remedy}")
        found[int(attempt)] = seconds
    return found


def _named(raw: Any, where: str) -> Pod:
    """Return a pod; one without a uid is identified by its name."""
    pod = pod_of(raw, where)
    if pod.uid:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=pod.key))


def _decode(raw: Any, where: str) -> object:
    if not isinstance(raw, dict):
        raise CaseError(f"{where}: not an object")
    try:
        return decode_object(raw)
    except ManifestError as error:
        raise CaseError(f"{where}: {error}") from None


def _fitted(item: Unknown, kind: type[CustomResource], where: str) -> CustomResource:
    """Return an object of a kind that a plugin declares."""
    try:
        return fit(item.raw, kind)
    except ConversionError as error:
        raise CaseError(f"{where}: {path_text(error.fault.steps)}: {error.fault.problem}") from None


def config_of(case: Mapping[str, Any], catalog: Catalog, release: Release = NEWEST) -> SchedulerConfiguration:
    """Return the case's configuration, or the default one of the release. Raises CaseError."""
    config = case.get("config")
    if config is None:
        return _default(catalog, release)
    text = config if isinstance(config, str) else msgspec.json.encode(config).decode()
    return _parsed(text, catalog, release)


@functools.cache
def _default(catalog: Catalog, release: Release) -> SchedulerConfiguration:
    return config_for(catalog, release)


@functools.lru_cache(maxsize=256)
def _parsed(text: str, catalog: Catalog, release: Release) -> SchedulerConfiguration:
    try:
        return load_config(text, source="config", plugins=catalog.specs(), release=release)
    except ConfigError as error:
        raise CaseError(f"config: {error}") from None
