"""Workloads: objects that create pods."""

from msgspec import field

from mooring.api.meta import LabelSelector, Model, NamespacedObject
from mooring.api.pod import PodTemplateSpec
from mooring.api.storage import PersistentVolumeClaim


class ReplicaSetSpec(Model, kw_only=True):
    """The replicas and the pod template."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(NamespacedObject, kw_only=True):
    """A replica set."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "ReplicaSet")
    spec: ReplicaSetSpec = ReplicaSetSpec()


class Deployment(NamespacedObject, kw_only=True):
    """A deployment."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "Deployment")
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetOrdinals(Model, kw_only=True):
    """The first ordinal."""

    start: int = 0


class StatefulSetSpec(Model, kw_only=True):
    """The replicas, the pod template and the claim templates."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    ordinals: StatefulSetOrdinals | None = None


class StatefulSet(NamespacedObject, kw_only=True):
    """A stateful set."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "StatefulSet")
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Model, kw_only=True):
    """The pod template of a daemon set."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(NamespacedObject, kw_only=True):
    """A daemon set."""

    api_version: str = field(default_factory=lambda: "apps/v1")
    kind: str = field(default_factory=lambda: "DaemonSet")
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Model, kw_only=True):
    """The parallelism and the completions."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(NamespacedObject, kw_only=True):
    """A job."""

    api_version: str = field(default_factory=lambda: "batch/v1")
    kind: str = field(default_factory=lambda: "Job")
    spec: JobSpec = JobSpec()
