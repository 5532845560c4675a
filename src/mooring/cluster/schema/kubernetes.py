"""The definitions of built-in kinds, loaded on first use."""

import functools
from pathlib import Path
from typing import Final

import msgspec

from mooring.cluster.schema.shape import Definitions, Shape

#: The Kubernetes version whose API the embedded cluster serves.
VERSION: Final = "v1.36.4"


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
