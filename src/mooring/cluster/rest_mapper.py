"""The kinds and resources that the API serves: the built-in ones and those of CustomResourceDefinitions."""

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.cluster.api_resource import METRICS, Resource
from mooring.cluster.kind import Kind

#: The order in which discovery lists the built-in groups; their resources are sorted by name.
_GROUPS: Final = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    METRICS,
)
_Key = tuple[str, str, str]


def _key(resource: Resource) -> _Key:
    return resource.group, resource.version, resource.plural


class RestMapper:
    """The mapping of served resources to kinds."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        built_in = [(resource, kind) for kind in kinds for resource in (kind.resource, *kind.aliases)]
        built_in.sort(key=lambda each: (_GROUPS.index(each[0].group), each[0].plural))
        self._found = {_key(resource): resource for resource, _ in built_in}
        self._kinds = {_key(resource): kind for resource, kind in built_in}
        #: Incremented whenever a resource is added or removed, to invalidate cached documents.
        self.generation = 0

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource at a path."""
        return self._found.get((group, version, plural))

    def of(self, storage: str) -> Resource:
        """Return the resource under which objects are stored: the first version if there are several."""
        return next(each for each in self._found.values() if each.stored_as == storage)

    def of_kind(self, group_version: str, kind: str) -> Resource | None:
        """Return the resource of an `apiVersion` and `kind`, as in manifests and owner references."""
        group, _, version = group_version.rpartition("/")
        for each in self._found.values():
            if each.kind == kind and each.group == group and each.version == version:
                return each
        return None

    def kind(self, resource: Resource) -> Kind:
        """Return the kind of the objects of a resource."""
        return self._kinds[_key(resource)]

    def define(self, kind: Kind) -> None:
        """Add or replace the rules of a custom resource, without serving it."""
        self._kinds[_key(kind.resource)] = kind

    def add(self, kind: Kind) -> None:
        """Serve a custom resource, or replace its rules."""
        self.define(kind)
        self._found[_key(kind.resource)] = kind.resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        for key in [key for key in self._found if key[0] == group and key[2] == plural]:
            del self._found[key]
            self.generation += 1

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._found.values()))

    def groups(self) -> dict[str, dict[str, list[Resource]]]:
        """Return resources by group and version. The core group has an empty name and comes first."""
        found: dict[str, dict[str, list[Resource]]] = {"": {}}
        for each in self._found.values():
            found.setdefault(each.group, {}).setdefault(each.version, []).append(each)
        return found
