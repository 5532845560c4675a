"""Anonymizer: replaces the names in recorded objects, so that a recording can be given to others.

Every text is replaced except those that are listed here: fields with a fixed set of values, names of resources,
amounts, times, and keys of labels that belong to Kubernetes. Equal texts stay equal and different ones stay different
within a recording, so selectors match the same objects. The key of the replacement is random and is not kept.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any, Final

import msgspec

from mooring.api.codec import to_dict
from mooring.recording.records import Attempt, Kind

#: Fields with a fixed set of values, amounts or times.
_KEPT: Final = frozenset(
    [
        "accessModes",
        "action",
        "attributes",
        "allocationMode",
        "apiGroup",
        "apiVersion",
        "conditionType",
        "creationTimestamp",
        "deletionTimestamp",
        "driver",
        "effect",
        "expression",
        "kind",
        "labelSelectorOperator",
        "lastHeartbeatTime",
        "lastProbeTime",
        "lastTransitionTime",
        "maxUnavailable",
        "minAvailable",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "operator",
        "phase",
        "policyType",
        "preemptionPolicy",
        "protocol",
        "qosClass",
        "reclaimPolicy",
        "resourceVersion",
        "restartPolicy",
        "schedulerName",
        "sizeBytes",
        "startTime",
        "status",
        "timeAdded",
        "topologyPolicy",
        "type",
        "unhealthyPodEvictionPolicy",
        "volumeBindingMode",
        "volumeMode",
        "whenUnsatisfiable",
    ]
)
#: Maps from the names of resources to amounts.
_AMOUNTS: Final = frozenset(
    ["allocatable", "allocatedResources", "capacity", "hard", "limits", "overhead", "requests", "used"]
)
#: Maps whose keys are keys of labels.
_LABELS: Final = frozenset(["annotations", "labels", "matchLabels", "nodeSelector", "selector"])
#: Free text, which decisions never depend on.
_DROPPED: Final = frozenset(["message", "hostIP", "podIP", "imageID", "containerID", "finalizers"])
_KUBERNETES: Final = re.compile(r"(?:^|[./])(?:kubernetes\.io|k8s\.io|x-k8s\.io|volcano\.sh)/")
#: The key of the field that `matchFields` of a node affinity supports.
_NAME_FIELD: Final = "metadata.name"
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}(?:%)?")


class Anonymizer:
    """Replaces names, consistently within one recording."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key if key is not None else secrets.token_bytes(32)
        self._known: dict[str, str] = {}

    def __call__(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the document of an object with its names replaced."""
        return {key: self._field(key, value) for key, value in document.items() if key not in _DROPPED}

    def text(self, value: str) -> str:
        """Return the replacement of a text. Numbers are kept, because operators compare them."""
        if not value or _NUMBER.fullmatch(value):
            return value
        known = self._known.get(value)
        if known is None:
            digest = hashlib.blake2b(value.encode(), key=self._key, digest_size=8).hexdigest()
            known = self._known[value] = f"a{digest}"
        return known

    def label_key(self, key: str) -> str:
        """Return the replacement of the key of a label; those of Kubernetes are kept."""
        return key if key == _NAME_FIELD or _KUBERNETES.search(key) else self.text(key)

    def record(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a record of any kind with its names replaced."""
        kind, time, *fields = record
        match kind:
            case Kind.PUT | Kind.REMOVE:
                return kind, time, fields[0], self(to_dict(fields[1]))
            case Kind.START | Kind.RELOAD:
                return kind, time, msgspec.structs.replace(fields[0], anonymized=True)
            case Kind.ATTEMPT:
                return kind, time, self._attempt(fields[0])
            case Kind.BIND_FAILED:
                return kind, time, self.text(fields[0]), fields[1], (), fields[3]
            case Kind.EXTENDER_REPLY:
                return kind, time, self.text(fields[0]), b"", "anonymized"
            case Kind.BINDING_CANCELLED:
                return kind, time, self.text(fields[0]), fields[1]
            case Kind.RETRY:
                return record
            case Kind.ACTIVATE:
                return kind, time, tuple(map(self._key_of, fields[0]))
            case _:
                return kind, time, *(self._key_of(each) if isinstance(each, str) else each for each in fields)

    def _attempt(self, attempt: Attempt) -> Attempt:
        return msgspec.structs.replace(
            attempt,
            uid=self.text(attempt.uid),
            pod=self._key_of(attempt.pod),
            node=self.text(attempt.node),
            message="",
            victims=tuple(map(self.text, attempt.victims)),
            nominated=attempt.nominated and self.text(attempt.nominated),
        )

    def _key_of(self, key: str) -> str:
        """Return the replacement of a name, or of `namespace/name`."""
        return "/".join(map(self.text, key.split("/")))

    def _field(self, key: str, value: Any) -> Any:
        if key in _AMOUNTS or (key in _KEPT and (not isinstance(value, dict) or key == "attributes")):
            return value
        if key in _LABELS and isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
            return {self.label_key(each): self.text(text) for each, text in value.items()}
        if key in ("key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"):
            return [self.label_key(each) for each in value] if isinstance(value, list) else self.label_key(str(value))
        return self._value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if isinstance(value, dict):
            return self(value)
        return value
