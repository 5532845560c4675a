"""Resources: the names, scopes and verbs by which the API serves objects."""

from typing import Final, NamedTuple

from mooring.cluster.errors import Target
from mooring.cluster.schema.shape import Shape

STORED_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)
READ_ONLY: Final = ("get", "list")
#: The group of a metrics server.
METRICS: Final = "metrics.k8s.io"


class Resource(NamedTuple):
    """One resource in one version, such as `deployments` of `apps/v1`."""

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
    #: The resource under which objects are stored, where several versions share them.
    storage: str = ""
    #: The shape of a custom resource; Kubernetes' own are looked up by kind.
    custom_shape: Shape | None = None
    list_kind: str = ""

    @property
    def group_version(self) -> str:
        """`apps/v1`; for the core group just `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_as(self) -> str:
        """What the store files the objects under: the same for every version."""
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def shape(self) -> Shape:
        """What an object of this kind looks like."""
        from mooring.cluster.schema.kubernetes import shape_of

        return self.custom_shape or shape_of(self.group, self.version, self.kind)

    @property
    def singular_name(self) -> str:
        """The name for one of them."""
        return self.singular or self.kind.lower()

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition made this resource."""
        return self.custom_shape is not None

    @property
    def lists_as(self) -> str:
        """The kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    def target(self, name: str = "") -> Target:
        """How messages name an object of this resource."""
        return Target(self.group, self.plural, name)
