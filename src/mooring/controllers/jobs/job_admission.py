"""Defaults and validation of jobs in the controller, as without the webhook, and the rules of job plugins."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator

from mooring.api.volcano_jobs import LifecyclePolicy, VolcanoJob
from mooring.apiserver.volcano_admission.jobs import job_errors, job_template_errors, with_job_defaults
from mooring.config.durations import DurationError, parse_duration
from mooring.controllers.jobs.job_objects import pod_document, task_usage
from mooring.controllers.jobs.job_plugins import JobPluginClasses, JobPlugins, required_plugins
from mooring.controllers.jobs.plugins import PLUGINS
from mooring.framework.job_plugin import JobPluginError
from mooring.unexpected_errors import shortened


def with_defaults(
    job: VolcanoJob, *, scheduler_name: str, queue: str, plugins: JobPluginClasses = PLUGINS
) -> VolcanoJob:
    """Return the job with defaults for all fields that it omits."""
    required = functools.partial(required_plugins, classes=plugins)
    return with_job_defaults(job, scheduler_name=scheduler_name, queue=queue, required=required)


def validation_errors(job: VolcanoJob, plugins: JobPluginClasses = PLUGINS) -> list[str]:
    """Return the errors of a job to which defaults were applied."""
    return [*job_errors(job, plugins.keys()), *plugin_errors(job, plugins)]


def plugin_errors(job: VolcanoJob, plugins: JobPluginClasses) -> Iterator[str]:
    """Return the errors of timeouts and of plugins' arguments."""
    for policies in (job.spec.policies, *(task.policies for task in job.spec.tasks)):
        yield from _timeout_errors(policies)
    if all(name in plugins for name in job.spec.plugins):
        try:
            JobPlugins(job, plugins)
        except JobPluginError as error:
            yield str(error)


def plugin_warnings(job: VolcanoJob, plugins: JobPluginClasses) -> list[str]:
    """Return messages about arguments of a valid job's plugins that have no effect."""
    return JobPlugins(job, plugins).ignored


def template_errors(job: VolcanoJob) -> list[str]:
    """Return the errors of the tasks' templates, which pods of the job would have too.

    This takes longer than `validation_errors`, and the result depends only on the spec.
    """
    found = list(job_template_errors(job))
    for task in job.spec.tasks if not found else ():
        try:
            pod_document(job, task, 0)
            task_usage(task)
        except (ValueError, TypeError, AttributeError) as error:
            found.append(f"task {task.name}: its template is invalid: {shortened(str(error))}")
    return found


def _timeout_errors(policies: Iterable[LifecyclePolicy]) -> Iterator[str]:
    for policy in policies:
        if policy.timeout:
            try:
                parse_duration(policy.timeout)
            except DurationError as error:
                yield f"timeout: {error}"


class PluginRules:
    """What admission knows about job plugins: those that the controller has loaded."""

    def __init__(self, classes: JobPluginClasses) -> None:
        self._classes = classes

    def names(self) -> Collection[str]:
        """Return the names of all plugins."""
        return self._classes.keys()

    def required(self, names: Collection[str]) -> Iterable[str]:
        """Return the plugins that some plugins need besides themselves."""
        return required_plugins(names, self._classes)

    def errors(self, job: VolcanoJob) -> Iterable[str]:
        """Return the errors of timeouts and of plugins' arguments."""
        return plugin_errors(job, self._classes)

    def warnings(self, job: VolcanoJob) -> Iterable[str]:
        """Return messages about arguments that have no effect."""
        return plugin_warnings(job, self._classes)
