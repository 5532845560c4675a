"""Resources: the names, scopes and verbs by which the API serves objects."""

from typing import Final, NamedTuple

from mooring.cluster.errors import Target
from mooring.cluster.schema.shape import Shape

STORED_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)
READ_ONLY: Final = ("get", "list")
#: The API group of the metrics API.
METRICS: Final = "metrics.k8s.io"


class Resource(NamedTuple):
    """A resource in one version, such as `deployments` of `apps/v1`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STORED_VERBS
    singular: str = ""
    #: The resource under which objects are stored, if several resources share them.
    storage: str = ""
    #: The shape of a custom resource; those of built-in resources are looked up by kind.
    custom_shape: Shape | None = None
    list_kind: str = ""

    @property
    def group_version(self) -> str:
        """The group version: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_as(self) -> str:
        """The name under which objects are stored. It is the same for every version."""
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def shape(self) -> Shape:
        """The structure of the objects."""
        from mooring.cluster.schema.shape import shape_of

        return self.custom_shape or shape_of(self.group, self.version, self.kind)

    @property
    def singular_name(self) -> str:
        """The singular name."""
        return self.singular or self.kind.lower()

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition defines the resource."""
        return self.custom_shape is not None

    @property
    def lists_as(self) -> str:
        """The kind of a list of objects."""
        return self.list_kind or f"{self.kind}List"

    def target(self, name: str = "") -> Target:
        """Return the object with a name, for messages."""
        return Target(self.group, self.plural, name)
