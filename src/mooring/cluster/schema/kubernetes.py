"""Kubernetes' own definitions, read once when the first is asked for."""

import functools
from pathlib import Path
from typing import Final

import msgspec

from mooring.cluster.schema.shape import Definitions, Shape

#: The version whose API the embedded cluster speaks.
VERSION: Final = "v1.36.4"


@functools.cache
def definitions() -> Definitions:
    """All of Kubernetes' definitions, by name."""
    return Definitions(msgspec.json.decode((Path(__file__).parent / "kubernetes.json").read_bytes()))


@functools.cache
def names_by_kind() -> dict[tuple[str, str, str], str]:
    """The name of the definition of each group, version and kind."""
    names: dict[tuple[str, str, str], str] = {}
    for name, raw in definitions().raw.items():
        for each in raw.get("x-kubernetes-group-version-kind", ()):
            names.setdefault((each["group"], each["version"], each["kind"]), name)
    return names


def shape_of(group: str, version: str, kind: str) -> Shape:
    """The shape of a kind of Kubernetes' own."""
    return definitions().shape(names_by_kind()[group, version, kind])


@functools.cache
def metadata_shape() -> Shape:
    """The shape of every object's metadata."""
    return definitions().shape("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
