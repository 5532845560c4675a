"""The definitions of jobs, CronJobs, flows, templates and commands, equivalent to those of Volcano."""

from __future__ import annotations

from mooring.controllers.definitions.structural_schema import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    LABEL,
    SUBDOMAIN,
    Schema,
    anything,
    column,
    count,
    definition,
    flag,
    listed,
    made_of,
    mapped,
    moment,
    name,
    network_topology,
    number,
    text,
    without_defaults,
)
from mooring.controllers.definitions.validation_rules import CRON_JOB_RULES, JOB_RULES

#: The events of lifecycle policies.
EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
)
PHASES = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)


def _policies() -> Schema:
    return listed(
        made_of(
            {
                "action": text(),
                "event": text(*EVENTS),
                "events": listed(text(*EVENTS)),
                "exitCode": number(),
                "timeout": text(),
            }
        )
    )


def _task() -> Schema:
    partitions = made_of(
        {
            "totalPartitions": number(minimum=1),
            "partitionSize": number(minimum=1),
            "minPartitions": count(default=0),
            "networkTopology": network_topology(),
        },
        required=("partitionSize", "totalPartitions"),
    )
    return made_of(
        {
            "name": text(maxLength=63, pattern=LABEL),
            "replicas": count(),
            "minAvailable": count(),
            "template": anything(),
            "policies": _policies(),
            "topologyPolicy": text("none", "best-effort", "restricted", "single-numa-node"),
            "maxRetry": count(),
            "dependsOn": made_of({"name": listed(text()), "iteration": text()}),
            "partitionPolicy": partitions,
        }
    )


def _volume() -> Schema:
    fields = {"mountPath": text(minLength=1, pattern="^[^:]+$"), "volumeClaimName": name(), "volumeClaim": anything()}
    return made_of(fields, required=("mountPath",))


def _job_spec() -> Schema:
    return made_of(
        {
            "schedulerName": text(maxLength=63),
            "minAvailable": count(),
            "minSuccess": number(minimum=1),
            "queue": name(default="default", pattern=SUBDOMAIN),
            "priorityClassName": name(pattern=SUBDOMAIN),
            "maxRetry": count(default=3),
            "ttlSecondsAfterFinished": count(),
            "volumes": listed(_volume()),
            "plugins": mapped(listed(text())),
            "policies": _policies(),
            "runningEstimate": text(),
            "networkTopology": network_topology(),
            "tasks": listed(_task(), minItems=1),
        }
    )


def _job_status() -> Schema:
    pods = {key: count() for key in ("pending", "running", "succeeded", "failed", "terminating", "unknown")}
    return made_of(
        {
            "state": made_of(
                {"phase": text(*PHASES), "reason": text(), "message": text(), "lastTransitionTime": moment()}
            ),
            "minAvailable": count(),
            "taskStatusCount": mapped(made_of({"phase": mapped(number())})),
            **pods,
            "version": count(),
            "retryCount": count(),
            "runningDuration": text(),
            "controlledResources": mapped(text()),
            "conditions": listed(made_of({"status": text(), "lastTransitionTime": moment()}, required=("status",))),
        }
    )


JOB = definition(
    "batch.volcano.sh",
    "v1alpha1",
    "Job",
    properties={"spec": _job_spec(), "status": _job_status()},
    columns=(
        column("STATUS", ".status.state.phase"),
        column("minAvailable", ".status.minAvailable", "integer"),
        column("RUNNINGS", ".status.running", "integer"),
        column("AGE", ".metadata.creationTimestamp", "date"),
        column("QUEUE", ".spec.queue", priority=1),
    ),
    short_names=("vcjob", "vj"),
    status=True,
    rules=JOB_RULES,
)

_TARGET = made_of(
    {
        **{key: text() for key in ("apiVersion", "kind", "name", "uid")},
        "controller": flag(),
        "blockOwnerDeletion": flag(),
    },
    required=("apiVersion", "kind", "name", "uid"),
    **ATOMIC_MAP,
)
#: Commands suspend and resume jobs, and open and close queues.
COMMAND = definition(
    "bus.volcano.sh",
    "v1alpha1",
    "Command",
    properties={"action": text(), "target": _TARGET, "reason": text(), "message": text()},
)


def _template_metadata() -> Schema:
    return made_of(
        {
            "name": text(),
            "namespace": text(),
            "labels": mapped(text()),
            "annotations": mapped(text()),
            "finalizers": listed(text()),
        }
    )


def _cron_job_spec() -> Schema:
    return made_of(
        {
            "schedule": text(),
            "timeZone": text(),
            "startingDeadlineSeconds": {"type": "integer", "format": "int64", "minimum": 0},
            "concurrencyPolicy": text("Allow", "Forbid", "Replace", default="Allow"),
            "suspend": {**flag(), "default": False},
            "successfulJobsHistoryLimit": count(default=3),
            "failedJobsHistoryLimit": count(default=1),
            "jobTemplate": made_of({"metadata": _template_metadata(), "spec": _job_spec()}),
        },
        required=("jobTemplate", "schedule"),
    )


def _reference() -> Schema:
    keys = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
    return made_of({key: text() for key in keys}, **ATOMIC_MAP)


CRON_JOB = definition(
    "batch.volcano.sh",
    "v1alpha1",
    "CronJob",
    properties={
        "spec": _cron_job_spec(),
        "status": made_of(
            {
                "active": listed(_reference(), **ATOMIC_LIST),
                "lastScheduleTime": moment(),
                "lastSuccessfulTime": moment(),
            }
        ),
    },
    short_names=("cronvcjob", "cronvj"),
    status=True,
    rules=CRON_JOB_RULES,
)


def _port() -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": 65535}


def _flow() -> Schema:
    header = made_of({"name": text(), "value": text()}, required=("name", "value"))
    task = name()
    probe = made_of(
        {
            "httpGetList": listed(made_of({"taskName": task, "path": text(), "port": _port(), "httpHeader": header})),
            "tcpSocketList": listed(made_of({"taskName": task, "port": _port()}, required=("port",))),
            "taskStatusList": listed(made_of({"taskName": task, "phase": text(maxLength=63)})),
        }
    )
    depends = made_of({"targets": listed(text()), "probe": probe})
    # Without defaults: a field that the patch omits keeps the value of the template.
    patch = made_of({"jobSpec": without_defaults(_job_spec())})
    fields = {"name": text(minLength=1), "dependsOn": depends, "patch": patch}
    return made_of(fields, required=("name",))


def _flow_status() -> Schema:
    names = {
        key: listed(text())
        for key in ("pendingJobs", "runningJobs", "failedJobs", "completedJobs", "terminatedJobs", "unKnowJobs")
    }
    times = {"startTimestamp": moment(), "endTimestamp": moment(), "state": text()}
    jobs = made_of(
        {**times, "name": text(), "restartCount": count(), "runningHistories": listed(made_of(times))},
    )
    condition = made_of(
        {
            "phase": text(),
            "createTime": moment(),
            "runningDuration": text(),
            "taskStatusCount": mapped(made_of({"phase": mapped(number())})),
        }
    )
    state = made_of({"phase": text("Succeed", "Terminating", "Failed", "Running", "Pending")})
    return made_of({**names, "jobStatusList": listed(jobs), "conditions": mapped(condition), "state": state})


JOB_FLOW = definition(
    "flow.volcano.sh",
    "v1alpha1",
    "JobFlow",
    properties={
        "spec": made_of({"flows": listed(_flow()), "jobRetainPolicy": text("retain", "delete")}),
        "status": _flow_status(),
    },
    columns=(column("Status", ".status.state.phase"), column("Age", ".metadata.creationTimestamp", "date")),
    short_names=("jf",),
    status=True,
)
JOB_TEMPLATE = definition(
    "flow.volcano.sh",
    "v1alpha1",
    "JobTemplate",
    properties={"spec": _job_spec(), "status": made_of({"jobDependsOnList": listed(text())})},
    short_names=("jt",),
    status=True,
)
