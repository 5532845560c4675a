"""Namespaces, services and replication controllers."""

from msgspec import field

from mooring.api.meta import KubeObject, Model, NamespacedObject
from mooring.api.pod import PodTemplateSpec


class NamespaceStatus(Model, kw_only=True):
    """The phase of a namespace."""

    phase: str = ""


class Namespace(KubeObject, kw_only=True):
    """A namespace. Pod affinity can select its labels."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Namespace")
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Model, kw_only=True):
    """The pod selector of a service; it may be absent."""

    selector: dict[str, str] | None = None
    cluster_ip: str = ""
    type: str = ""


class Service(NamespacedObject, kw_only=True):
    """A service. Its pods are spread by default."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Service")
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Model, kw_only=True):
    """The replicas and the pod template."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(NamespacedObject, kw_only=True):
    """A replication controller."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "ReplicationController")
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
