"""Small core objects that a scheduler looks up: namespaces, services, replication controllers."""

from msgspec import field

from mooring.api.meta import KubeObject, Model, NamespacedObject
from mooring.api.pod import PodTemplateSpec


class NamespaceStatus(Model, kw_only=True):
    """Whether the namespace is in use or going away."""

    phase: str = ""


class Namespace(KubeObject, kw_only=True):
    """A namespace, whose labels pod affinity can select by."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Namespace")
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Model, kw_only=True):
    """Which pods a service reaches; no selector means it does not choose them itself."""

    selector: dict[str, str] | None = None
    cluster_ip: str = ""
    type: str = ""


class Service(NamespacedObject, kw_only=True):
    """A service; its pods are spread by default."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Service")
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Model, kw_only=True):
    """How many pods of which template."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(NamespacedObject, kw_only=True):
    """The oldest way to keep a number of pods running."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "ReplicationController")
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
