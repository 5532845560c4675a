"""The generator of `kubernetes.json`, the structure of built-in objects, from the OpenAPI files of Kubernetes.

Run `python -m mooring.cluster.schema.generate FOLDER` with the `api/openapi-spec/v3` folder of a Kubernetes release.
The output has names, types and merge keys, and no descriptions.
"""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

#: The group versions that the embedded cluster serves, by the names of their files.
FILES: Final = (
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apiregistration.k8s.io__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__autoscaling__v2",
    "apis__batch__v1",
    "apis__certificates.k8s.io__v1",
    "apis__coordination.k8s.io__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__resource.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__storage.k8s.io__v1",
)

_REFERENCE: Final = "#/components/schemas/"


def without_descriptions(value: Any) -> Any:
    """Return a value without descriptions."""
    if isinstance(value, dict):
        return {
            key: without_descriptions(each)
            for key, each in value.items()
            if key != "description" or isinstance(each, dict)
        }
    if isinstance(value, list):
        return [without_descriptions(each) for each in value]
    return value


def generate(folder: Path) -> bytes:
    """Return a JSON document with one definition per line, sorted by name."""
    definitions: dict[str, Any] = {}
    for name in FILES:
        document = msgspec.json.decode((folder / f"{name}_openapi.json").read_bytes())
        definitions.update(without_descriptions(document["components"]["schemas"]))
    lines = [
        msgspec.json.encode(name) + b":" + msgspec.json.encode(definitions[name], order="sorted")
        for name in sorted(definitions)
        if not name.endswith(".v1.WatchEvent")
    ]
    text = b"{\n" + b",\n".join(lines) + b"\n}\n"
    return text.replace(_REFERENCE.encode(), b"#/")


if __name__ == "__main__":
    (Path(__file__).parent / "kubernetes.json").write_bytes(generate(Path(sys.argv[1])))
