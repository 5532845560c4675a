"""Which resources the API serves: their names, kinds, scopes and verbs."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mooring.cluster.errors import Target
from mooring.cluster.schema.shape import OBJECT, Shape

#: What can be done with a resource that is stored.
STORED: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
#: What can be done with a question such as a SubjectAccessReview.
ASKED: Final = ("create",)
#: What can be done with what is measured.
READ: Final = ("get", "list")
#: The group of what a metrics server tells.
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
    verbs: tuple[str, ...] = STORED
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


def _core(plural: str, kind: str, *short: str, subresources: str = "", namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced, short, (), tuple(subresources.split()))


def _cluster(group: str, plural: str, kind: str, *short: str, subresources: str = "") -> Resource:
    return Resource(group, "v1", plural, kind, False, short, (), tuple(subresources.split()))


def _named(group: str, plural: str, kind: str, *short: str, subresources: str = "", everyday: bool = False) -> Resource:
    categories = ("all",) if everyday else ()
    return Resource(group, "v1", plural, kind, True, short, categories, tuple(subresources.split()))


def _question(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced, verbs=ASKED)


#: Every resource of Kubernetes' own that is served, in the order in which discovery lists them.
BUILT_IN: Final = (
    Resource("", "v1", "bindings", "Binding", verbs=ASKED),
    _core("configmaps", "ConfigMap", "cm"),
    _core("endpoints", "Endpoints", "ep"),
    _core("events", "Event", "ev"),
    _core("limitranges", "LimitRange", "limits"),
    _core("namespaces", "Namespace", "ns", subresources="finalize status", namespaced=False),
    _core("nodes", "Node", "no", subresources="status", namespaced=False),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources="status"),
    _core("persistentvolumes", "PersistentVolume", "pv", subresources="status", namespaced=False),
    Resource("", "v1", "pods", "Pod", True, ("po",), ("all",), ("attach", "binding", "ephemeralcontainers", "eviction",
             "exec", "log", "portforward", "proxy", "resize", "status")),
    _core("podtemplates", "PodTemplate"),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", True, ("rc",), ("all",), ("scale", "status")),
    _core("resourcequotas", "ResourceQuota", "quota", subresources="status"),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", "sa", subresources="token"),
    Resource("", "v1", "services", "Service", True, ("svc",), ("all",), ("status",)),
    _named("apps", "controllerrevisions", "ControllerRevision"),
    _named("apps", "daemonsets", "DaemonSet", "ds", subresources="status", everyday=True),
    _named("apps", "deployments", "Deployment", "deploy", subresources="scale status", everyday=True),
    _named("apps", "replicasets", "ReplicaSet", "rs", subresources="scale status", everyday=True),
    _named("apps", "statefulsets", "StatefulSet", "sts", subresources="scale status", everyday=True),
    Resource("events.k8s.io", "v1", "events", "Event", True, ("ev",), storage="events"),
    _question("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _question("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _question("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    _question("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _question("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _question("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _named("batch", "cronjobs", "CronJob", "cj", subresources="status", everyday=True),
    _named("batch", "jobs", "Job", subresources="status", everyday=True),
    _cluster("networking.k8s.io", "ingressclasses", "IngressClass"),
    _named("networking.k8s.io", "ingresses", "Ingress", "ing", subresources="status"),
    _named("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol"),
    _named("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources="status"),
    _cluster("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding"),
    _cluster("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
    _named("rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
    _named("rbac.authorization.k8s.io", "roles", "Role"),
    _cluster("storage.k8s.io", "csidrivers", "CSIDriver"),
    _cluster("storage.k8s.io", "csinodes", "CSINode"),
    _named("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"),
    _cluster("storage.k8s.io", "storageclasses", "StorageClass", "sc"),
    _cluster("storage.k8s.io", "volumeattachments", "VolumeAttachment", subresources="status"),
    _cluster("storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass", "vac"),
    Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False,
             ("crd", "crds"), ("api-extensions",), ("status",)),
    _cluster("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc"),
    _named("coordination.k8s.io", "leases", "Lease"),
    _cluster("node.k8s.io", "runtimeclasses", "RuntimeClass"),
    _named("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    _cluster("resource.k8s.io", "deviceclasses", "DeviceClass"),
    _named("resource.k8s.io", "resourceclaims", "ResourceClaim", subresources="status"),
    _named("resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _cluster("resource.k8s.io", "resourceslices", "ResourceSlice"),
    Resource(METRICS, "v1beta1", "nodes", "NodeMetrics", False, verbs=READ, custom_shape=Shape(OBJECT)),
    Resource(METRICS, "v1beta1", "pods", "PodMetrics", True, verbs=READ, custom_shape=Shape(OBJECT)),
)  # fmt: skip


class ResourceTable:
    """All resources that are served now: the built-in ones and those of the CustomResourceDefinitions."""

    def __init__(self, resources: Iterable[Resource] = BUILT_IN) -> None:
        self._found = {(each.group, each.version, each.plural): each for each in resources}
        #: Changes whenever a resource comes or goes, so that what was made from the table can be made anew.
        self.generation = 0

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a path, or None."""
        return self._found.get((group, version, plural))

    def of(self, storage: str) -> Resource:
        """The resource under which objects are stored; its first version where there are several."""
        return next(each for each in self._found.values() if each.stored_as == storage)

    def of_kind(self, group_version: str, kind: str) -> Resource | None:
        """The resource of a kind, as manifests and owner references name it."""
        group, _, version = group_version.rpartition("/")
        for each in self._found.values():
            if each.kind == kind and each.group == group and each.version == version:
                return each
        return None

    def add(self, resource: Resource) -> None:
        """Serve one more resource, or one in a new form."""
        self._found[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """No longer serve any version of a resource."""
        for key in [key for key in self._found if key[0] == group and key[2] == plural]:
            del self._found[key]
            self.generation += 1

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._found.values()))

    def groups(self) -> dict[str, dict[str, list[Resource]]]:
        """Resources by group and version; the core group is the empty name and comes first."""
        found: dict[str, dict[str, list[Resource]]] = {"": {}}
        for each in self._found.values():
            found.setdefault(each.group, {}).setdefault(each.version, []).append(each)
        return found
