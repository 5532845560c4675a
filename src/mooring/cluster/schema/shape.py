"""Shapes: the fields of a kind, their types, and how lists and maps are merged.

A `Shape` describes one position in a document. Shapes come from the definitions of Kubernetes and from the schemas of
CustomResourceDefinitions, so decoding, patching and server-side apply depend only on shapes.
"""

import functools
from pathlib import Path
from typing import Any, Final

import msgspec

#: The Kubernetes version whose API the embedded cluster serves.
VERSION: Final = "v1.36.4"

#: The types of positions.
OBJECT: Final = "object"
MAP: Final = "map"
LIST: Final = "list"
STRING: Final = "string"
INTEGER: Final = "integer"
NUMBER: Final = "number"
BOOLEAN: Final = "boolean"
QUANTITY: Final = "quantity"
TIME: Final = "time"
MICRO_TIME: Final = "micro-time"
BYTES: Final = "bytes"
INT_OR_STRING: Final = "int-or-string"
ANY: Final = "any"


class Shape:
    """One position in a document. Recursive kinds share their `fields`, so shapes are compared by identity."""

    __slots__ = (
        "always",
        "atomic",
        "blanks",
        "default",
        "embedded",
        "fields",
        "item",
        "kind",
        "list_keys",
        "list_type",
        "merge_key",
        "name",
        "nullable",
        "open",
        "patch_strategy",
        "required",
        "width",
    )

    def __init__(self, kind: str, name: str = "") -> None:
        #: One of the constants above.
        self.kind = kind
        #: The Go name of the type in error messages (`PodSpec`), if any.
        self.name = name
        #: The fields of an object.
        self.fields: dict[str, Shape] = {}
        #: The names of required fields.
        self.required: frozenset[str] = frozenset()
        #: Fields that Kubernetes always writes, as an empty object if they are absent.
        self.always: tuple[str, ...] = ()
        #: Required fields that Go writes as zero if they are absent.
        self.blanks: tuple[tuple[str, Any], ...] = ()
        #: The elements of a list, or the values of a map.
        self.item: Shape | None = None
        #: How server-side apply treats a list: `atomic`, `set` or `map` (by `list_keys`).
        self.list_type = "atomic"
        self.list_keys: tuple[str, ...] = ()
        #: Whether server-side apply replaces the object or map as a whole.
        self.atomic = False
        #: How a strategic merge patch treats a list or object.
        self.merge_key = ""
        self.patch_strategy: tuple[str, ...] = ()
        #: The default value, for the keys of lists.
        self.default: Any = None
        #: Whether unknown fields are preserved.
        self.open = False
        #: Whether this is an embedded object with apiVersion, kind and metadata.
        self.embedded = False
        self.nullable = False
        #: 32 or 64 for integers.
        self.width = 64

    def child(self, key: str) -> "Shape":
        """Return the shape of a field or of a map value."""
        return self.fields.get(key) or self.item or UNKNOWN

    @property
    def merges(self) -> bool:
        """Whether a strategic merge patch merges the elements of this list."""
        return "merge" in self.patch_strategy

    @property
    def go_type(self) -> str:
        """The name of the type in Go's JSON decoder."""
        match self.kind:
            case "integer":
                return f"int{self.width}"
            case "number":
                return "float64"
            case "boolean":
                return "bool"
            case "list":
                return f"[]{self.item.go_type if self.item else 'interface {}'}"
            case "map":
                return f"map[string]{self.item.go_type if self.item else 'interface {}'}"
            case "object":
                return f"v1.{self.name}" if self.name else "map[string]interface {}"
            case "quantity":
                return "resource.Quantity"
            case "bytes":
                return "[]uint8"
        return "string"


#: The shape of a value of any type.
UNKNOWN: Final = Shape(ANY)
_SCALARS: Final = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}
#: Definitions of objects that have no fields. Other definitions without properties accept any field.
_EMPTY_STRUCTS: Final = frozenset({"CustomResourceSubresourceStatus"})
_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": TIME,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": MICRO_TIME,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": ANY,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": ANY,
}


class Definitions:
    """Definitions by name, converted to shapes on first use."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self._shapes: dict[str, Shape] = {}

    def shape(self, name: str) -> Shape:
        """Return the shape of a definition."""
        found = self._shapes.get(name)
        if found is None:
            found = self._shapes[name] = Shape(_SPECIAL.get(name, OBJECT), name.rsplit(".", 1)[-1])
            if found.kind == OBJECT:
                self._fill(found, self.raw[name])
        return found

    def _fill(self, shape: Shape, raw: dict[str, Any]) -> None:
        if "properties" not in raw and "additionalProperties" not in raw:
            # An alias such as JSON, or an object with arbitrary content.
            shape.kind = _SCALARS.get(raw.get("type", ""), OBJECT if raw.get("type") == "object" else ANY)
            shape.open = shape.kind == OBJECT and shape.name not in _EMPTY_STRUCTS
            return
        shape.atomic = raw.get("x-kubernetes-map-type") == "atomic"
        shape.required = frozenset(raw.get("required", ()))
        shape.fields = {key: self._place(each) for key, each in raw.get("properties", {}).items()}
        shape.blanks = tuple(
            (key, each["default"])
            for key, each in raw.get("properties", {}).items()
            if key in shape.required and isinstance(each.get("default"), (str, int))
        )
        shape.always = tuple(
            key for key, each in raw.get("properties", {}).items() if each.get("default") == {} and key != "metadata"
        )

    def _place(self, raw: dict[str, Any]) -> Shape:
        """Return the shape of a field or element: a definition with the settings of its use."""
        reference = raw.get("$ref") or next((each["$ref"] for each in raw.get("allOf", ())), None)
        if reference is not None:
            return self._reference(raw, self.shape(reference[2:]))
        if raw.get("type") == "array":
            return self._list(raw)
        if raw.get("type") == "object":
            shape = Shape(MAP)
            shape.item = self._place(raw.get("additionalProperties") or {})
            shape.atomic = raw.get("x-kubernetes-map-type") == "atomic"
            return shape
        shape = Shape(_SCALARS.get(raw.get("type", ""), ANY))
        shape.width = 32 if raw.get("format") == "int32" else 64
        if raw.get("format") == "byte":
            shape.kind = BYTES
        shape.default = raw.get("default")
        return shape

    def _reference(self, raw: dict[str, Any], target: Shape) -> Shape:
        strategy = raw.get("x-kubernetes-patch-strategy")
        map_type = raw.get("x-kubernetes-map-type")
        if strategy is None and map_type is None:
            return target
        shape = Shape(target.kind, target.name)
        shape.fields, shape.required = target.fields, target.required
        shape.always, shape.blanks = target.always, target.blanks
        shape.atomic = target.atomic or map_type == "atomic"
        shape.open = target.open
        shape.patch_strategy = tuple(strategy.split(",")) if strategy else ()
        return shape

    def _list(self, raw: dict[str, Any]) -> Shape:
        shape = Shape(LIST)
        shape.item = self._place(raw["items"])
        shape.list_type = raw.get("x-kubernetes-list-type", "atomic")
        shape.list_keys = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        shape.merge_key = raw.get("x-kubernetes-patch-merge-key", "")
        strategy = raw.get("x-kubernetes-patch-strategy", "")
        shape.patch_strategy = tuple(strategy.split(",")) if strategy else ()
        return shape


@functools.cache
def definitions() -> Definitions:
    """Return all definitions by name."""
    return Definitions(msgspec.json.decode((Path(__file__).parent / "kubernetes.json").read_bytes()))


@functools.cache
def names_by_kind() -> dict[tuple[str, str, str], str]:
    """Return the name of the definition of each group, version and kind."""
    names: dict[tuple[str, str, str], str] = {}
    for name, raw in definitions().raw.items():
        for each in raw.get("x-kubernetes-group-version-kind", ()):
            names.setdefault((each["group"], each["version"], each["kind"]), name)
    return names


def shape_of(group: str, version: str, kind: str) -> Shape:
    """Return the shape of a built-in kind."""
    return definitions().shape(names_by_kind()[group, version, kind])


@functools.cache
def metadata_shape() -> Shape:
    """Return the shape of metadata."""
    return definitions().shape("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
