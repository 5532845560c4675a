"""Users' job plugins: loading their files, checking them with a dry run, and reloading them when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.codec import load_manifests
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.job_admission import with_defaults
from mooring.controllers.jobs.job_objects import pod_document
from mooring.controllers.jobs.job_plugins import JobPluginClasses, JobPluginFaultError, JobPlugins
from mooring.controllers.jobs.plugins import PLUGINS
from mooring.framework.job_plugin import Document, JobPluginError
from mooring.live.reload.file_watch import FileWatch
from mooring.loading import JOB, Catalog, Fault, FoundPlugin, PluginLoadError, Requested, find_plugins
from mooring.loading.dry_run import DryRun, run_in_time
from mooring.loading.setup_files import signature
from mooring.logs import get_logger

log = get_logger("mooring.controller")

_CALL_SECONDS: Final = 10.0
#: The job of the dry run.
_EXAMPLE: Final[dict[str, Any]] = {
    "metadata": {"name": "example", "namespace": "default", "uid": "00000000-0000-0000-0000-000000000000"},
    "spec": {
        "minAvailable": 3,
        "tasks": [
            {"name": name, "replicas": count, "template": {"spec": {"containers": [{"name": name, "image": "image"}]}}}
            for name, count in (("master", 1), ("worker", 2))
        ],
    },
}


class JobPluginFiles:
    """The files of users' job plugins. Other plugins in the same folders are ignored."""

    def __init__(self, requested: Requested) -> None:
        self._requested = requested
        self._catalog = Catalog()
        self._seen = signature(self._paths())

    def load(self) -> JobPluginClasses:
        """Return the built-in job plugins and those of the files. Raises PluginLoadError."""
        self._seen = signature(self._paths())
        catalog = find_plugins(self._requested, known=self._catalog)
        faults = [fault for each in _job_plugins(catalog) for fault in dry_run_job(each, (), _CALL_SECONDS).faults]
        if faults:
            catalog.unload(keep=self._catalog)
            raise PluginLoadError(faults)
        before, self._catalog = self._catalog, catalog
        before.unload(keep=catalog)
        return {**PLUGINS, **catalog.classes(JOB)}

    async def watch(self, changed: Callable[[JobPluginClasses], None]) -> None:
        """Reload changed files until cancelled. A file with errors is reported, and its last good version stays."""

        async def reload() -> None:
            try:
                classes = await asyncio.to_thread(self.load)
            except PluginLoadError as error:
                for fault in error.faults:
                    log.error("Job plugins are not reloaded; the last good ones stay", problem=str(fault))
                return
            changed(classes)
            log.info("Reloaded job plugins", plugins=sorted(classes.keys() - PLUGINS.keys()))

        files = FileWatch()
        if self._paths():
            files.add(self._paths, reload, seen=self._seen)
        await files.run()

    def _paths(self) -> list[Path]:
        named = [path for _, path in self._requested.plugins]
        return [*named, *self._requested.files, *self._requested.directories, *self._catalog.data_files()]


def _job_plugins(catalog: Catalog) -> list[FoundPlugin]:
    return [each for each in catalog.found.values() if each.kind is JOB]


def dry_run_job(found: FoundPlugin, arguments: tuple[str, ...], seconds: float) -> DryRun:
    """Create the pods and the objects of a small job with a plugin."""
    return run_in_time(found, seconds, lambda: _dry_run(found, arguments))


def _dry_run(found: FoundPlugin, arguments: tuple[str, ...]) -> DryRun:
    job = msgspec.convert({**_EXAMPLE, "spec": {**_EXAMPLE["spec"], "plugins": {found.name: arguments}}}, VolcanoJob)
    called = tuple(sorted(JOB.points(found.cls)))
    try:
        plugins = JobPlugins(job, {**PLUGINS, found.name: found.cls})
    except JobPluginError as error:
        return DryRun(not_called=called, reason=str(error))
    try:
        for task in job.spec.tasks:
            for index in range(task.replicas):
                pod_document(job, task, index, plugins)
        plugins.documents()
    except JobPluginFaultError as error:
        return DryRun((Fault(str(found.path or ""), 0, str(error)),))
    except JobPluginError as error:  # the plugin rejects the example
        return DryRun(not_called=called, reason=str(error))
    return DryRun(called=called)


class JobPluginResult(msgspec.Struct, frozen=True):
    """What the plugins of a job make.

    Attributes:
        pods: The manifests of the pods by name.
        objects: The manifests of the other objects.
    """

    pods: dict[str, Document]
    objects: list[Document]


def run_job_plugin(plugin: Path, job: Path) -> JobPluginResult:
    """Return the pods and the objects of the job in a manifest, with the plugins of a file; for tests of plugins."""
    classes = {**PLUGINS, **find_plugins(Requested(files=(plugin,))).classes(JOB)}
    (found,) = load_manifests(job.read_text(), source=str(job))
    if not isinstance(found, VolcanoJob):
        raise TypeError(f"{job}: expected a Job of batch.volcano.sh, not a {found.kind}")
    metadata = msgspec.structs.replace(found.metadata, namespace=found.namespace or "default", uid="uid")
    found = msgspec.structs.replace(found, metadata=metadata)
    made = with_defaults(found, scheduler_name="volcano", queue="default", plugins=classes)
    plugins = JobPlugins(made, classes)
    pods = [pod_document(made, task, index, plugins) for task in made.spec.tasks for index in range(task.replicas)]
    return JobPluginResult({pod["metadata"]["name"]: pod for pod in pods}, plugins.documents())
