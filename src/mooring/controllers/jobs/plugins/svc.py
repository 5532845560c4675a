"""svc: host names of pods under a headless Service, and a list of all host names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import constants
from mooring.framework.job_plugin import Document, JobPlugin, containers_of, hosts_of, mount

_FOLDER: Final = "/etc/volcano"


class SvcArgs:
    """The arguments of svc."""

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


class Svc(JobPlugin[SvcArgs]):
    """Sets host names, and mounts the list of all host names."""

    name = "svc"

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Set the pod's host name and mount the list of host names."""
        spec, config = pod["spec"], _config_name(job)
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.name
        variables = [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": config, "key": name}}}
            for each in job.spec.tasks
            for name in (f"VC_{_key(each).upper()}_HOSTS", f"VC_{_key(each).upper()}_NUM")
        ]
        if self.args.inject_hosts_env:
            for container in containers_of(pod):
                container["env"] = [*container.get("env", ()), *variables]
        mount(pod, {"name": config, "configMap": {"name": config}}, _FOLDER)

    def objects(self, job: VolcanoJob) -> Iterable[Document]:
        """Return the Service, and the NetworkPolicy that admits only pods of the job."""
        labels = {constants.JOB_NAME: job.name, constants.JOB_NAMESPACE: job.namespace}
        service = {
            "clusterIP": "None",
            "selector": labels,
            "publishNotReadyAddresses": self.args.publish_not_ready_addresses,
        }
        yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": job.name}, "spec": service}
        if not self.args.disable_network_policy:
            selector = {"matchLabels": labels}
            rules = {
                "podSelector": selector,
                "ingress": [{"from": [{"podSelector": selector}]}],
                "policyTypes": ["Ingress"],
            }
            head = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": job.name}}
            yield {**head, "spec": rules}

    def updated_objects(self, job: VolcanoJob) -> Iterable[Document]:
        """Return the ConfigMap of host names."""
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _config_name(job)}, "data": _hosts(job)}


def _config_name(job: VolcanoJob) -> str:
    return f"{job.name}-svc"


def _key(task: TaskSpec) -> str:
    return task.name.replace("-", "_")


def _hosts(job: VolcanoJob) -> dict[str, str]:
    """Return the host names of each task, as a file and as environment variables."""
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        hosts = hosts_of(job, task)
        data[f"{_key(task)}.host"] = "\n".join(hosts)
        data[f"VC_{_key(task).upper()}_HOSTS"] = ",".join(hosts)
        data[f"VC_{_key(task).upper()}_NUM"] = str(len(hosts))
    return data
