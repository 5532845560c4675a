"""What `plugins` of a job do: tell pods their number (env), and let them find each other (svc)."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.volcano_jobs import JOB_VERSION, TaskSpec, VolcanoJob
from mooring.config.errors import nearest
from mooring.controllers import names
from mooring.kube import AlreadyExists, Client, NotFound

Document = dict[str, Any]

_SVC_FLAGS: Final = {
    "publish-not-ready-addresses": False,
    "disable-network-policy": False,
    "inject-hosts-env": True,
}
_HOSTS_FOLDER: Final = "/etc/volcano"


class PluginError(Exception):
    """A plugin's argument makes no sense; the message says which."""


def owner_of(job: VolcanoJob) -> Document:
    """The reference by which what is made for a job names it."""
    return {
        "apiVersion": JOB_VERSION,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_name(job: VolcanoJob, task: TaskSpec, index: int) -> str:
    """What a pod of a job is called."""
    return f"{job.name}-{task.name}-{index}"


def containers_of(pod: Document) -> list[Document]:
    """All containers of a pod that are started."""
    return [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]


class JobPlugin:
    """Does something to each pod, and once for the whole job; nothing unless a plugin says otherwise."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        """Raises PluginError."""

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Change a pod before it is made."""

    async def begin(self, job: VolcanoJob, client: Client) -> None:
        """Make what the pods need; what is there already is brought up to date."""

    async def end(self, job: VolcanoJob, client: Client) -> None:
        """Remove it: the pods are being stopped."""


class EnvPlugin(JobPlugin):
    """Tells every container the number of its pod within the task."""

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Add the variables."""
        for container in containers_of(pod):
            added = [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
            container["env"] = [*container.get("env", ()), *added]


class SvcPlugin(JobPlugin):
    """Gives pods host names under a headless service, and tells each the names of all."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        flags = _flags(arguments, _SVC_FLAGS)
        self._publish = flags["publish-not-ready-addresses"]
        self._policy = not flags["disable-network-policy"]
        self._inject = flags["inject-hosts-env"]

    def on_pod(self, job: VolcanoJob, pod: Document, index: int) -> None:
        """Name the pod's host, and hand it the list of all."""
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
        """Make the list of hosts, the service and the network policy."""
        space = f"namespaces/{job.namespace}"
        hosts = {"apiVersion": "v1", "kind": "ConfigMap", "data": _hosts(job)}
        if not await _make(client, f"/api/v1/{space}/configmaps", job, _config_name(job), hosts):
            path = f"/api/v1/{space}/configmaps/{_config_name(job)}"
            await client.send("PATCH", path, {"data": _hosts(job)}, type="application/merge-patch+json")
        chosen = {names.JOB_NAME: job.name, names.JOB_NAMESPACE: job.namespace}
        service = {"clusterIP": "None", "selector": chosen, "publishNotReadyAddresses": self._publish}
        document: Document = {"apiVersion": "v1", "kind": "Service", "spec": service}
        await _make(client, f"/api/v1/{space}/services", job, job.name, document)
        if self._policy:
            mine = {"matchLabels": chosen}
            rules = {
                "podSelector": mine,
                "ingress": [{"from": [{"podSelector": mine}]}],
                "policyTypes": ["Ingress"],
            }
            document = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": rules}
            await _make(client, f"/apis/networking.k8s.io/v1/{space}/networkpolicies", job, job.name, document)

    async def end(self, job: VolcanoJob, client: Client) -> None:
        """Remove them."""
        space = f"namespaces/{job.namespace}"
        paths = [f"/api/v1/{space}/configmaps/{_config_name(job)}", f"/api/v1/{space}/services/{job.name}"]
        if self._policy:
            paths.append(f"/apis/networking.k8s.io/v1/{space}/networkpolicies/{job.name}")
        for path in paths:
            try:
                await client.send("DELETE", path)
            except NotFound:
                continue


PLUGINS: Final[dict[str, type[JobPlugin]]] = {"env": EnvPlugin, "svc": SvcPlugin}


async def _make(client: Client, path: str, job: VolcanoJob, name: str, document: Document) -> bool:
    """Make an object of the job's; False where it is there already."""
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
    """The host names of all pods, by task: as a file has them, and as a variable has them."""
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        spec = task.template.get("spec") or {}
        named, below = spec.get("hostname"), spec.get("subdomain") or job.name
        hosts = [f"{named or pod_name(job, task, index)}.{below}" for index in range(task.replicas)]
        hosts = hosts[:1] if named else hosts
        data[f"{_key(task)}.host"] = "\n".join(hosts)
        data[f"VC_{_key(task).upper()}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_key(task).upper()}_NUM"] = str(len(hosts))
    return data


def _flags(arguments: tuple[str, ...], defaults: dict[str, bool]) -> dict[str, bool]:
    """Read `--name`, `--name=true` and the like."""
    found = dict(defaults)
    for argument in arguments:
        name, _, value = argument.lstrip("-").partition("=")
        if name not in defaults or value not in ("", "true", "false"):
            close = nearest(name, tuple(defaults)) or ", ".join(defaults)
            raise PluginError(f"argument {argument!r} makes no sense; there is --{close}=true or false")
        found[name] = value != "false"
    return found
