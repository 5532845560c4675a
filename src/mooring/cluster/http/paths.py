"""Request paths."""

from typing import NamedTuple

from mooring.cluster.errors import no_such_path
from mooring.cluster.resource_table import ResourceTable
from mooring.cluster.resources import Resource


class Place(NamedTuple):
    """An object, a collection or a subresource."""

    resource: Resource
    #: None for all namespaces and for cluster-scoped resources.
    namespace: str | None
    name: str
    subresource: str


def parse_place(path: str, table: ResourceTable) -> Place:
    """Parse a path such as `/apis/apps/v1/namespaces/default/deployments/web/scale`."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        raise no_such_path()
    if len(rest) < 2:
        raise no_such_path()
    version, *rest = rest
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (
        group == "" and len(rest) == 3 and rest[2] in {"status", "finalize"}
    ):  # fmt: skip
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    resource = table.find(group, version, rest[0])
    if resource is None or (namespace is not None and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.namespaced and namespace is None:
        raise no_such_path()
    return Place(resource, namespace, name, subresource)
