"""Job plugins: they change the pods of Volcano jobs (batch.volcano.sh) and create objects that the pods need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.plugin import Rule
from mooring.framework.plugin_args import ArgsT, HasArgs

#: A manifest, or a part of one.
Document = dict[str, Any]


class JobPluginError(Exception):
    """A job cannot run with a plugin, for example because an argument is invalid. The message says why."""


class JobObject(msgspec.Struct, frozen=True):
    """An object whose content is computed only if it must be created, because it is expensive or random.

    Attributes:
        api_version: The API version, such as ``v1``.
        kind: The kind, such as ``Secret``.
        name: The name. The namespace is that of the job.
        content: Returns the other fields of the manifest, such as ``{"data": {...}}``.
    """

    api_version: str
    kind: str
    name: str
    content: Callable[[], Document]


class JobPlugin(HasArgs[ArgsT]):
    """The base class of job plugins. A job names them with their arguments in ``spec.plugins``.

    >>> class TeamArgs:
    ...     team: str = "research"
    >>> class Team(JobPlugin[TeamArgs]):
    ...     def on_pod_create(self, job, task, index, pod):
    ...         set_env(pod, TEAM=self.args.team)

    The type parameter is the class of the arguments: attributes of type ``str``, ``int`` or ``bool`` with defaults. The
    attribute ``hosts_file`` is set by ``--hosts-file=...`` or ``--hostsFile=...``, as in Volcano's plugins.

    Attributes:
        name: The name in ``spec.plugins``; by default the class name in kebab case.
        args: The decoded arguments.
        needs: Plugins that a job with this plugin gets too.
        order: Plugins of a lower order change a pod first.
        permissions: What the controller may do on behalf of the plugin, for `mooring rbac --controller`.
        watch_files: Data files that the plugin reads, relative to the folder of its own file. When one of them changes,
            the plugin is reloaded.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[Sequence[str]] = ()
    order: ClassVar[int] = 0
    permissions: ClassVar[Sequence[Rule]] = ()
    watch_files: ClassVar[Sequence[str]] = ()

    if TYPE_CHECKING:  # so that at run time a plugin has only the methods that its author defines

        def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
            """Change the manifest of a pod before it is created. ``index`` is its number in the task."""

        def objects(self, job: VolcanoJob) -> Iterable[Document | JobObject]:
            """Return objects to create before the pods, if they do not exist.

            They belong to the job: they are in its namespace, and are deleted when the job stops or is deleted.
            """

        def updated_objects(self, job: VolcanoJob) -> Iterable[Document]:
            """Return objects that are also updated when the job's spec changes."""


def pod_name(job: VolcanoJob, task: TaskSpec, index: int) -> str:
    """Return the name of a pod of a job."""
    return f"{job.name}-{task.name}-{index}"


def task_of(job: VolcanoJob, name: str) -> TaskSpec | None:
    """Return a task of a job by name; None if there is none."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def host_of(job: VolcanoJob, task: TaskSpec, index: int) -> str:
    """Return the host name of a pod with its subdomain, as the plugin ``svc`` sets them."""
    spec = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job, task, index)}.{spec.get('subdomain') or job.name}"


def hosts_of(job: VolcanoJob, task: TaskSpec) -> list[str]:
    """Return the host names of a task's pods. If the template has a host name, there is only that one."""
    named = bool((task.template.get("spec") or {}).get("hostname"))
    return [host_of(job, task, index) for index in range(min(task.replicas, 1) if named else task.replicas)]


def containers_of(pod: Document) -> list[Document]:
    """Return the containers and the init containers of a pod."""
    return [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]


def add_env(containers: Iterable[Document], **values: str) -> None:
    """Add environment variables to containers."""
    for container in containers:
        added = [{"name": name, "value": value} for name, value in values.items()]
        container["env"] = [*container.get("env", ()), *added]


def set_env(pod: Document, **values: str) -> None:
    """Add environment variables to all containers of a pod."""
    add_env(containers_of(pod), **values)


def open_port(container: Document, port: int, name: str) -> None:
    """Add a port to a container, unless it has the port."""
    ports = container.get("ports") or ()
    if all(each.get("containerPort") != port for each in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": port}]


def mount(pod: Document, volume: Document, path: str, **more: Any) -> None:
    """Add a volume to a pod, and mount it in all containers."""
    pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), volume]
    for container in containers_of(pod):
        added = {"name": volume["name"], "mountPath": path, **more}
        container["volumeMounts"] = [*container.get("volumeMounts", ()), added]
