"""Generates `messages.json`, the field numbers of Kubernetes' protobuf messages, from Go types.

Run `python -m mooring.api.protobuf.generate API APIMACHINERY` with the folders of the two Go modules
(`k8s.io/api` and `k8s.io/apimachinery`) of a Kubernetes release. Only names, numbers and types are kept.
"""

import re
import sys
from pathlib import Path
from typing import Final

import msgspec

#: The packages whose objects the embedded cluster serves.
PACKAGES: Final = (
    "admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "certificates",
    "coordination", "core", "discovery", "events", "networking", "node", "policy", "rbac", "resource", "scheduling",
    "storage",
)  # fmt: skip

_FIELD: Final = re.compile(r"^\t(\w+\s+)?(\S+)\s+`([^`]*protobuf:\"[^`]*)`", re.M)
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_NAMED: Final = re.compile(r"^type (\w+) (\[?\]?[\w\.\[\]\*]+)$", re.M)
_IMPORT: Final = re.compile(r"^\t(?:(\w+) )?\"k8s\.io/(?:api|apimachinery/pkg/apis)/(\w+)/v1\"", re.M)
_SCALARS: Final = {
    "string": "string", "bool": "bool", "int32": "int", "int64": "int", "int": "int", "uint32": "int", "uint8": "int",
    "float64": "double", "[]byte": "bytes", "types.UID": "string", "types.NodeName": "string",
}  # fmt: skip
_SPECIAL: Final = {
    "Time": "time", "MicroTime": "micro", "Quantity": "quantity", "IntOrString": "intstr", "RawExtension": "raw",
    "FieldsV1": "raw", "Duration": "int", "UID": "string",
}  # fmt: skip


class _Package:
    """One package of Go types."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.structs = dict(_STRUCT.findall(text))
        self.named = {key: value for key, value in _NAMED.findall(text) if value != "struct"}
        self.imports = {alias or "v1": f"{package}" for alias, package in _IMPORT.findall(text)}


def generate(api: Path, machinery: Path) -> dict[str, dict[str, list[str]]]:
    """Return the name and type of each field number of each message."""
    packages = {name: _Package(name, (api / name / "v1" / "types.go").read_text()) for name in PACKAGES}
    packages["autoscaling/v2"] = _Package("autoscaling/v2", (api / "autoscaling" / "v2" / "types.go").read_text())
    packages["meta"] = _Package("meta", (machinery / "pkg/apis/meta/v1/types.go").read_text())
    messages: dict[str, dict[str, list[str]]] = {}
    for package in packages.values():
        for struct, body in package.structs.items():
            fields: dict[str, list[str]] = {}
            for _, kind, tags in _FIELD.findall(body):
                parts = re.search(r'protobuf:"\w+,(\d+),', tags)
                name = re.search(r'json:"([^",]*)', tags)
                if parts is None or name is None:
                    continue
                # The fields of an embedded type belong to the message.
                fields[parts[1]] = [name[1], _kind(kind, package, packages)]
            if fields:
                messages[f"{package.name}.{struct}"] = fields
    return messages


def _kind(kind: str, package: _Package, packages: dict[str, _Package]) -> str:
    pointer = "*" if kind.startswith("*") else ""
    kind = kind.lstrip("*")
    if kind in _SCALARS:
        return pointer + _SCALARS[kind]
    if kind.startswith("map["):
        return "map:" + _kind(kind.partition("]")[2], package, packages)
    if kind.startswith("[]"):
        return "list:" + _kind(kind[2:], package, packages)
    alias, _, name = kind.rpartition(".")
    if name in _SPECIAL and (alias or package.name == "meta"):
        return pointer + _SPECIAL[name]
    home = packages[package.imports[alias]] if alias in package.imports else package
    if alias == "metav1":
        home = packages["meta"]
    if name in home.named:
        inner = home.named[name]
        return "items" if inner == "[]string" else pointer + _kind(inner, home, packages)
    return f"{pointer}{home.name}.{name}"


if __name__ == "__main__":
    found = generate(Path(sys.argv[1]), Path(sys.argv[2]))
    lines = [msgspec.json.encode(name) + b":" + msgspec.json.encode(fields) for name, fields in sorted(found.items())]
    (Path(__file__).parent / "messages.json").write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")
