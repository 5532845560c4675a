"""Discovery documents: one for each group version, or all of them aggregated."""

from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import no_such_path
from mooring.cluster.rest_mapper import RestMapper

#: The verbs of each subresource, and the group, version and kind of its body if they differ from the resource's.
_SUBRESOURCES: Final[dict[str, tuple[tuple[str, ...], str, str, str]]] = {
    "status": (("get", "patch", "update"), "", "", ""),
    "scale": (("get", "patch", "update"), "autoscaling", "v1", "Scale"),
    "approval": (("get", "patch", "update"), "", "", ""),
    "binding": (("create",), "", "v1", "Binding"),
    "eviction": (("create",), "policy", "v1", "Eviction"),
    "finalize": (("update",), "", "", ""),
    "log": (("get",), "", "", ""),
    "attach": (("create", "get"), "", "v1", "PodAttachOptions"),
    "exec": (("create", "get"), "", "v1", "PodExecOptions"),
    "portforward": (("create", "get"), "", "v1", "PodPortForwardOptions"),
    "proxy": (("create", "delete", "get", "patch", "update"), "", "v1", "PodProxyOptions"),
    "token": (("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "ephemeralcontainers": (("get", "patch", "update"), "", "", ""),
    "resize": (("get", "patch", "update"), "", "", ""),
}


class Discovery:
    """The discovery documents of the served resources."""

    def __init__(self, mapper: RestMapper) -> None:
        self._mapper = mapper

    def versions(self) -> Document:
        """Return the document at `/api`."""
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}

    def groups(self) -> Document:
        """Return the document at `/apis`."""
        names = [name for name in self._mapper.groups() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in names]}

    def group(self, name: str) -> Document:
        """Return the document at `/apis/GROUP`."""
        if not name or name not in self._mapper.groups():
            raise no_such_path()
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def _group(self, name: str) -> Document:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in self._mapper.groups()[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def resources(self, group: str, version: str) -> Document:
        """Return the document at `/api/v1` or `/apis/GROUP/VERSION`."""
        found = self._mapper.groups().get(group, {}).get(version)
        if not found:
            raise no_such_path()
        group_version = f"{group}/{version}" if group else version
        entries = [entry for each in found for entry in (_entry(each), *map(_SubEntry(each), each.subresources))]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": sorted(entries, key=lambda each: str(each["name"])),
        }

    def aggregated(self, *, core: bool) -> Document:
        """Return the document at `/api` or `/apis` for clients that accept aggregated discovery."""
        items = [
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": [
                    {"version": version, "resources": list(map(_aggregated, found)), "freshness": "Current"}
                    for version, found in versions.items()
                ],
            }
            for name, versions in self._mapper.groups().items()
            if (name == "") is core
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


def _entry(resource: Resource) -> Document:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        entry["storageVersionHash"] = f"{resource.stored_as}/{resource.version}"
    return entry


class _SubEntry:
    """A factory of the entries for the subresources of a resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def __call__(self, name: str) -> Document:
        verbs, group, version, kind = _SUBRESOURCES[name]
        entry: Document = {
            "name": f"{self._resource.plural}/{name}",
            "singularName": "",
            "namespaced": self._resource.namespaced,
            "kind": kind or self._resource.kind,
            "verbs": list(verbs),
        }
        if group:
            entry.update(group=group, version=version)
        return entry


def _aggregated(resource: Resource) -> Document:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = []
    for name in resource.subresources:
        verbs, group, version, kind = _SUBRESOURCES[name]
        response = {
            "group": group if kind else resource.group,
            "version": version or resource.version,
            "kind": kind or resource.kind,
        }
        subresources.append({"subresource": name, "responseKind": response, "verbs": list(verbs)})
    if subresources:
        entry["subresources"] = subresources
    return entry
