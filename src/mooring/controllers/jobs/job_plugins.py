"""Job plugins: `env` sets the index of each pod, `svc` sets host names and creates a headless Service."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.volcano_jobs import JOB_VERSION, TaskSpec, VolcanoJob
from mooring.config.config_errors import nearest
from mooring.controllers import constants
from mooring.kube import AlreadyExists, Client, NotFound

Document = dict[str, Any]

_SVC_FLAGS: Final = {
    "publish-not-ready-addresses": False,
    "disable-network-policy": False,
    "inject-hosts-env": True,
}
_HOSTS_FOLDER: Final = "/etc/volcano"


class PluginError(Exception):
    """An argument of a plugin is invalid. The message names it."""


def owner_of(job: VolcanoJob) -> Document:
    """Return the owner reference of objects that are created for a job."""
    return {
        "apiVersion": JOB_VERSION,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_name(job: VolcanoJob, task: TaskSpec, index: int) -> str:
    """Return the name of a pod of a job."""
    return f"{job.name}-{task.name}-{index}"


def containers_of(pod: Document) -> list[Document]:
    """Return the containers and the init containers of a pod."""
    return [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]


class JobPlugin:
    """Base class of job plugins. The default methods do nothing."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        """Raises PluginError."""

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Change a pod's manifest before the pod is created."""

    async def begin(self, job: VolcanoJob, client: Client) -> None:
        """Create or update the objects that the pods need."""

    async def end(self, job: VolcanoJob, client: Client) -> None:
        """Delete these objects, because the pods are being deleted."""


class EnvPlugin(JobPlugin):
    """Sets the index of the pod within its task in the environment of every container."""

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Add the environment variables."""
        for container in containers_of(pod):
            added = [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
            container["env"] = [*container.get("env", ()), *added]


class SvcPlugin(JobPlugin):
    """Sets the host names of pods under a headless Service, and mounts the list of all host names."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        flags = _flags(arguments, _SVC_FLAGS)
        self._publish = flags["publish-not-ready-addresses"]
        self._policy = not flags["disable-network-policy"]
        self._inject = flags["inject-hosts-env"]

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Set the pod's host name and mount the list of host names."""
        spec, config = pod["spec"], _config_name(job)
        spec.setdefault("hostname", pod["metadata"]["name"])
        spec.setdefault("subdomain", job.name)
        spec["volumes"] = [*spec.get("volumes", ()), {"name": config, "configMap": {"name": config}}]
        variables = [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": config, "key": name}}}
            for task in job.spec.tasks
            for name in (f"VC_{_key(task).upper()}_HOSTS", f"VC_{_key(task).upper()}_NUM")
        ]
        for container in containers_of(pod):
            mounts = container.get("volumeMounts", ())
            container["volumeMounts"] = [*mounts, {"mountPath": _HOSTS_FOLDER, "name": config}]
            if self._inject:
                container["env"] = [*container.get("env", ()), *variables]

    async def begin(self, job: VolcanoJob, client: Client) -> None:
        """Create the ConfigMap of host names, the Service and the NetworkPolicy."""
        namespace = f"namespaces/{job.namespace}"
        hosts = {"apiVersion": "v1", "kind": "ConfigMap", "data": _hosts(job)}
        if not await _create(client, f"/api/v1/{namespace}/configmaps", job, _config_name(job), hosts):
            path = f"/api/v1/{namespace}/configmaps/{_config_name(job)}"
            await client.send("PATCH", path, {"data": _hosts(job)}, type="application/merge-patch+json")
        labels = {constants.JOB_NAME: job.name, constants.JOB_NAMESPACE: job.namespace}
        service = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": self._publish}
        document: Document = {"apiVersion": "v1", "kind": "Service", "spec": service}
        await _create(client, f"/api/v1/{namespace}/services", job, job.name, document)
        if self._policy:
            selector = {"matchLabels": labels}
            rules = {
                "podSelector": selector,
                "ingress": [{"from": [{"podSelector": selector}]}],
                "policyTypes": ["Ingress"],
            }
            document = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": rules}
            await _create(client, f"/apis/networking.k8s.io/v1/{namespace}/networkpolicies", job, job.name, document)

    async def end(self, job: VolcanoJob, client: Client) -> None:
        """Delete them."""
        namespace = f"namespaces/{job.namespace}"
        paths = [f"/api/v1/{namespace}/configmaps/{_config_name(job)}", f"/api/v1/{namespace}/services/{job.name}"]
        if self._policy:
            paths.append(f"/apis/networking.k8s.io/v1/{namespace}/networkpolicies/{job.name}")
        for path in paths:
            try:
                await client.send("DELETE", path)
            except NotFound:
                continue


PLUGINS: Final[dict[str, type[JobPlugin]]] = {"env": EnvPlugin, "svc": SvcPlugin}


async def _create(client: Client, path: str, job: VolcanoJob, name: str, document: Document) -> bool:
    """Create an object that the job owns. Return False if it exists."""
    metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_of(job)]}
    try:
        await client.send("POST", path, {**document, "metadata": metadata})
    except AlreadyExists:
        return False
    return True


def _config_name(job: VolcanoJob) -> str:
    return f"{job.name}-svc"


def _key(task: TaskSpec) -> str:
    return task.name.replace("-", "_")


def _hosts(job: VolcanoJob) -> dict[str, str]:
    """Return the ConfigMap data: the host names of each task, as a file and as environment variables."""
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        spec = task.template.get("spec") or {}
        hostname, subdomain = spec.get("hostname"), spec.get("subdomain") or job.name
        hosts = [f"{hostname or pod_name(job, task, index)}.{subdomain}" for index in range(task.replicas)]
        hosts = hosts[:1] if hostname else hosts
        data[f"{_key(task)}.host"] = "\n".join(hosts)
        data[f"VC_{_key(task).upper()}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_key(task).upper()}_NUM"] = str(len(hosts))
    return data


def _flags(arguments: tuple[str, ...], defaults: dict[str, bool]) -> dict[str, bool]:
    """Parse flags of the form `--name`, `--name=true` or `--name=false`."""
    found = dict(defaults)
    for argument in arguments:
        name, _, value = argument.lstrip("-").partition("=")
        if name not in defaults or value not in ("", "true", "false"):
            close = nearest(name, tuple(defaults)) or next(iter(defaults))
            raise PluginError(f"invalid argument {argument!r}; use --{close}=true or --{close}=false")
        found[name] = value != "false"
    return found
