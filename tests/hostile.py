"""Objects with hostile values: every field that a struct declares, with amounts, durations, numbers and texts that are
too large, too long, malformed or contradictory."""

from __future__ import annotations

import functools
import random
from typing import Any, Final

import msgspec
from msgspec import inspect

from mooring.api.meta import KubeObject

#: Amounts that no resource quantity of Kubernetes may be.
INVALID_AMOUNTS: Final = ("1e1.5", "", "e", "1e" + "9" * 900, "\u0661", "lots", "1.1.1", "0x10", "1e3m", "--1")
#: Amounts that Kubernetes accepts.
EXTREME_AMOUNTS: Final = (
    "1e99999", "1e-99999", "1" * 1200, "9" * 5000, "-" + "9" * 5000, "9223372036854775807", "9223372036854775808",
    "8Ei", "-8Ei", "1e4294967297", "1e-2147483648", "1e2147483647", "0." + "0" * 3000 + "1", "-1", "1n", "+5", ".5",
    "m",
)  # fmt: skip
AMOUNTS: Final = (*INVALID_AMOUNTS, *EXTREME_AMOUNTS, "1", "100m", "2Gi", "0")
NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "+7",
    "9" * 19,
    "9" * 5000,
    "1e9",
    "0x1",
    "\u0661",
    "1_000",
    "50%",
    "-5%",
    "9" * 400 + "%",
)
DURATIONS: Final = (
    "1h",
    "-1h",
    "9" * 400 + "h",
    "1h1h1h" * 1000,
    "1.5",
    "h",
    "99999999999999h",
    "0",
    "1" * 5000,
    "1\u00b5s",
)
TEXTS: Final = (
    "", "a", "node-0", "default", "zone", "true", "True", "*", "a" * 5000, "\x00", "\ud7ff", "a,b", "a:b,c:d", "a/b/c",
    "/", "=", "!", "{}", "[]", "null", "(a+)+$", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "9999-99-99T99:99:99Z",
)  # fmt: skip
TIMES: Final = (
    "2026-01-31T12:00:00Z",
    "0000-02-29T00:00:00Z",
    "9999-12-31T23:59:59.999999999-23:59",
    "1970-01-01T00:00:00+14:00",
)
INTEGERS: Final = (0, 1, 2, -1, 100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
#: Expressions that select devices. All but the first are long, nested, slow, invalid or fail.
EXPRESSIONS: Final = (
    'device.driver == "driver"',
    "",
    "true" + " && true" * 3000,
    "(" * 2000 + "true" + ")" * 2000,
    "[" * 500 + "]" * 500,
    "device",
    "device.nothing",
    'device.attributes["none"].model == "a"',
    '"a" * 3 == device.driver',
    "1 / 0 == 1",
    "9223372036854775807 + 1 > 0",
    'device.driver.matches("(a+)+$")',
    'device.driver.matches("(")',
    'quantity("1e99999").isGreaterThan(quantity("1"))',
    'device.capacity["driver"].memory.compareTo(quantity("1e1.5")) > 0',
    'semver("9999999999999999999999.0.0").isGreaterThan(semver("1.0.0"))',
    "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(c, a > 0)))",
    "'" + "a" * 9000 + "' == device.driver",
)
#: Values that lead further into the code than random ones, by field name.
USUAL: Final[dict[str, tuple[Any, ...]]] = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "topologyKey": ("zone", "kubernetes.io/hostname"),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    "phase": ("Pending", "Running", "Bound", "Inqueue"),
    "nodeName": ("node-0", ""),
    "storageClassName": ("object",),
    "claimName": ("object",),
    "volumeName": ("object",),
    "accessModes": ("ReadWriteOnce", "ReadWriteOncePod"),
    "key": ("zone", "kubernetes.io/hostname", "app"),
    "driver": ("driver",),
    "provisioner": ("driver",),
    "type": ("Node", "Ready", "PodScheduled"),
    "nominatedNodeName": ("node-0",),
    "resourceClaimName": ("object",),
    "deviceClassName": ("object",),
    "expression": EXPRESSIONS,
    "allocationMode": ("ExactCount", "All", ""),
    "matchAttribute": ("driver/model",),
    "distinctAttribute": ("driver/model",),
    "extendedResourceName": ("nvidia.com/gpu", "x"),
    "counterSet": ("a",),
}
RESOURCES: Final = (
    "cpu",
    "memory",
    "pods",
    "ephemeral-storage",
    "storage",
    "nvidia.com/gpu",
    "hugepages-2Mi",
    "x",
    "a" * 5000,
)
KEYS: Final = ("zone", "kubernetes.io/hostname", "app", "scheduling.x-k8s.io/pod-group", "", "a" * 400, "a/b/c")


@functools.cache
def _type_info(kind: type[KubeObject]) -> Any:
    return inspect.type_info(kind)


class Hostile:
    """Makes objects of a kind from a seed."""

    def __init__(self, seed: int, annotations: tuple[str, ...] = ()) -> None:
        self._random = random.Random(seed)
        self._annotations = annotations

    def document(self, kind: type[KubeObject], name: str = "object", **fixed: Any) -> dict[str, Any]:
        """Return an object as a JSON document. ``fixed`` are fields that it has in any case."""
        document: dict[str, Any] = self._struct(_type_info(kind), 0)
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": self._labels(),
            "annotations": {**self._labels(), **self._chosen_annotations()},
        }
        example = kind()
        return {**document, "metadata": metadata, "apiVersion": example.api_version, "kind": example.kind, **fixed}

    def _chosen_annotations(self) -> dict[str, str]:
        chosen = self._random.sample(self._annotations, min(3, len(self._annotations)))
        return {key: self._random.choice((*NUMBERS, *DURATIONS, *TEXTS, *AMOUNTS)) for key in chosen}

    def _labels(self) -> dict[str, str]:
        keys = self._random.sample(KEYS, self._random.randrange(3))
        return {key: self._random.choice((*NUMBERS, *TEXTS)) for key in keys}

    def _struct(self, info: Any, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for each in info.fields:
            if each.required or self._random.random() < (0.7 if depth < 2 else 0.35):
                made[each.encode_name] = self._value(each.type, each.encode_name, depth + 1)
        return made

    def _value(self, info: Any, name: str, depth: int) -> Any:
        pick = self._random.choice
        if name in USUAL and self._random.random() < 0.7:
            usual = pick(USUAL[name])
            return [usual] if isinstance(info, inspect.VarTupleType | inspect.ListType) else usual
        if self._random.random() < 0.001:
            return pick((None, 1, "a", [], {}, True))  # of another type
        match info:
            case inspect.Metadata():
                return self._value(info.type, name, depth)
            case inspect.UnionType():
                parts = [part for part in info.types if not isinstance(part, inspect.NoneType)]
                if {type(part) for part in parts} >= {inspect.StrType, inspect.IntType}:
                    return pick((*AMOUNTS, *INTEGERS, 1.5, 1e300))
                return self._value(pick(parts), name, depth)
            case inspect.StructType() | inspect.DataclassType():
                return self._struct(info, depth)
            case inspect.VarTupleType() | inspect.ListType():
                return [self._value(info.item_type, name, depth) for _ in range(self._random.randrange(3))]
            case inspect.DictType():
                keys = RESOURCES if isinstance(info.value_type, inspect.UnionType) else KEYS
                chosen = self._random.sample(keys, self._random.randrange(4))
                return {key: self._value(info.value_type, key, depth) for key in chosen}
            case inspect.StrType() if name.endswith(("Time", "Timestamp")):
                return pick(TIMES)  # an API server rejects others
            case inspect.StrType():
                return pick((*TEXTS, *NUMBERS, *DURATIONS, *AMOUNTS))
            case inspect.IntType():
                return pick(INTEGERS)
            case inspect.FloatType():
                return pick((0.0, -1.5, 1e300))
            case inspect.BoolType():
                return pick((True, False))
            case inspect.DateTimeType():
                return "2026-01-31T12:00:00Z"
            case inspect.LiteralType():
                return pick(info.values)
        return pick((None, "a", 1, [], {}))


def nested(levels: int) -> Any:
    """Return a list in a list in a list, as JSON that is not decoded."""
    return msgspec.Raw(b"[" * levels + b"1" + b"]" * levels)
