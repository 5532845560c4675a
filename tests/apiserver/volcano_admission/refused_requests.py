"""Requests that a cluster without the webhook refuses as well: by the rules of the definitions, or by the policies.

The embedded cluster refuses them by the functions of admission, a real API server by CEL: both tests read this table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.apiserver.volcano_admission.reviewing import TEMPLATE, cron, flow, group, hyper_node, job, queue, task

DEFINITION, POLICY = "definition", "policy"
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}
TWO_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
FIXED = "job updates may not change fields other than"
HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Refused(NamedTuple):
    """A refused creation, or change by a merge patch, with a part of the message."""

    by: str
    resource: str
    document: dict[str, Any]
    message: str
    patch: dict[str, Any] | None = None


def _policy(event: str = "PodFailed", action: str = "RestartJob", **more: Any) -> dict[str, Any]:
    return {"event": event, "action": action, **more}


def _parts(total: int, size: int, **more: Any) -> dict[str, Any]:
    return {"totalPartitions": total, "partitionSize": size, **more}


def _changed(patch: dict[str, Any], message: str = FIXED, **spec: Any) -> Refused:
    return Refused(DEFINITION, "jobs", job(**spec), message, {"spec": patch})


#: Lists of policies, with the message. The same rules hold for those of a job and of a task.
_POLICIES: tuple[tuple[list[dict[str, Any]], str], ...] = (
    ([_policy(exitCode=3)], "must not specify event and exitCode simultaneously"),
    ([{"action": "RestartJob"}], "either event and exitCode should be specified"),
    ([{"exitCode": 0, "action": "AbortJob"}], "0 is not a valid error code"),
    ([_policy(action="Dance")], "invalid policy action"),
    ([_policy("PodRunning")], "invalid policy event"),
    ([{"events": ["OutOfSync"], "action": "AbortJob"}], "invalid policy event"),
    ([_policy(), {"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}], "across different policy"),
    ([{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}], "duplicate exitCode"),
    ([_policy("*"), _policy("PodEvicted")], "if there's * here, no other policy should be here"),
)

_NOT_NEGATIVE = "should be greater than or equal to 0"
#: What the schemas of the definitions refuse, with the field that the message must name too.
_SCHEMAS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("jobs", job(minAvailable=-1), "spec.minAvailable", _NOT_NEGATIVE),
    ("jobs", job(maxRetry=-1), "spec.maxRetry", _NOT_NEGATIVE),
    ("jobs", job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", _NOT_NEGATIVE),
    ("jobs", job(task(replicas=-1)), "spec.tasks[0].replicas", _NOT_NEGATIVE),
    ("jobs", job(task(minAvailable=-1)), "spec.tasks[0].minAvailable", _NOT_NEGATIVE),
    ("jobs", job(task(name="Task-1")), "spec.tasks[0].name", "should match"),
    ("jobs", job(volumes=[{"mountPath": ""}]), "spec.volumes[0].mountPath", "should be at least 1 chars long"),
    ("queues", queue("q", weight=-1), "spec.weight", "should be greater than or equal to 1"),
    (
        "hypernodes",
        hyper_node({"exactMatch": {"name": ""}}),
        "spec.members[0].selector.exactMatch.name",
        "should be at least 1 chars long",
    ),
    (
        "hypernodes",
        hyper_node({"exactMatch": {"name": "Node_with@"}}),
        "spec.members[0].selector.exactMatch.name",
        "should match",
    ),
    (
        "hypernodes",
        hyper_node({"regexMatch": {"pattern": ""}}),
        "spec.members[0].selector.regexMatch.pattern",
        "should be at least 1 chars long",
    ),
)

REFUSED: tuple[Refused, ...] = (
    *(Refused(DEFINITION, resource, found, text) for resource, found, *texts in _SCHEMAS for text in texts),
    Refused(DEFINITION, "jobs", {"metadata": {"name": "j"}, "spec": {}}, "No task specified in job spec"),
    Refused(DEFINITION, "jobs", job(name="j" * 64), "name part must be no more than 63 bytes"),
    Refused(DEFINITION, "jobs", job(task(name="t" * 31), name="j" * 30), "name part must be no more than 63 bytes"),
    Refused(DEFINITION, "jobs", job(minAvailable=2), "job 'minAvailable' should not be greater than total replicas"),
    Refused(DEFINITION, "jobs", job(task(replicas=100_001)), "nor greater than 100000 in total"),
    Refused(DEFINITION, "jobs", job(task(minAvailable=2)), "'minAvailable' is greater than 'replicas' in task"),
    Refused(DEFINITION, "jobs", job(networkTopology=TIERS), TWO_TIERS),
    Refused(DEFINITION, "jobs", job(task(partitionPolicy=_parts(2, 2))), "'Replicas' are not equal to"),
    Refused(
        DEFINITION,
        "jobs",
        job(task(replicas=4, minAvailable=3, partitionPolicy=_parts(2, 2, minPartitions=1))),
        "'MinAvailable' is not equal to MinPartitions*PartitionSize",
    ),
    Refused(DEFINITION, "jobs", job(task(partitionPolicy=_parts(1, 1, networkTopology=TIERS))), TWO_TIERS),
    Refused(DEFINITION, "jobs", job(volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName must be"),
    *(Refused(DEFINITION, "jobs", job(policies=policies), message) for policies, message in _POLICIES),
    *(Refused(POLICY, "jobs", job(task(policies=policies)), message) for policies, message in _POLICIES),
    Refused(POLICY, "jobs", job(task(), task()), "duplicated task name"),
    Refused(
        POLICY, "jobs", job(volumes=[{"mountPath": "/a", "volumeClaimName": x} for x in "xy"]), "duplicated mountPath"
    ),
    Refused(
        POLICY,
        "jobs",
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": CLAIM}]),
        "conflict: If you want to use an existing PVC",
    ),
    Refused(POLICY, "jobs", job(task(dependsOn={"name": ["other"]})), "which is not a task of the job"),
    _changed({"queue": "other"}),
    _changed({"schedulerName": "other"}, schedulerName="volcano"),
    _changed({"maxRetry": 9}),
    _changed({"minSuccess": 2}, minSuccess=1),
    _changed({"ttlSecondsAfterFinished": 2}, ttlSecondsAfterFinished=1),
    _changed({"networkTopology": {"mode": "soft"}}, networkTopology={"mode": "hard"}),
    _changed({"tasks": [task(name="other")]}),
    _changed({"tasks": [task(), task(name="u")]}, "job updates may not add or remove tasks"),
    _changed({"minAvailable": 2}, "not be greater than total replicas"),
    Refused(DEFINITION, "cronjobs", cron("c" * 53), "cronJob name must be no more than 52 characters"),
    Refused(DEFINITION, "cronjobs", cron(schedule=""), "schedule is required, but got empty"),
    Refused(DEFINITION, "cronjobs", cron(schedule="TZ=UTC * * * * *"), "schedule should not contain TZ or CRON_TZ"),
    Refused(DEFINITION, "cronjobs", cron(timeZone=""), "timeZone must be nil or non-empty string"),
    Refused(DEFINITION, "cronjobs", cron(timeZone="Local"), "timeZone can't be Local"),
    Refused(POLICY, "jobflows", flow(a=["none"]), "jobflow Flow is not DAG: vertex is not defined"),
    Refused(POLICY, "jobflows", flow(a=["a"]), "jobflow Flow is not DAG"),
    Refused(DEFINITION, "podgroups", group(networkTopology=TIERS), TWO_TIERS),
    Refused(DEFINITION, "podgroups", group(subGroupPolicy=[{"name": "s", "networkTopology": TIERS}]), TWO_TIERS),
    Refused(
        DEFINITION,
        "hypernodes",
        {"metadata": {"name": "h"}, "spec": {"tier": 1}},
        "member must have at least one member",
    ),
    Refused(DEFINITION, "queues", queue("q", parent="q"), "cannot use itself as parent"),
    Refused(POLICY, "queues", queue("q", capability={"cpu": "-1"}), "must be greater than or equal to 0"),
    Refused(POLICY, "queues", queue("q", deserved={"cpu": -1}), "must be greater than or equal to 0"),
    Refused(POLICY, "queues", queue("q", guarantee={"resource": {"cpu": 1}}), "must be >= guarantee"),
    Refused(
        POLICY,
        "queues",
        queue("q", guarantee={"resource": {"memory": "1Gi"}}, deserved={"memory": "1G"}),
        "must be >= guarantee",
    ),
    Refused(POLICY, "queues", queue("q", deserved={"cpu": "1500m"}, capability={"cpu": 1}), "must be <= capability"),
    Refused(
        POLICY,
        "queues",
        queue("q", annotations={HIERARCHY: "root/a/b", WEIGHTS: "1/2"}),
        "must have the same length",
    ),
    Refused(POLICY, "queues", queue("q", annotations={HIERARCHY: "root/a", WEIGHTS: "1/0"}), "must be larger than 0"),
    Refused(POLICY, "queues", queue("q", annotations={HIERARCHY: "root/a", WEIGHTS: "1/-1"}), "denied"),
    Refused(POLICY, "queues", queue("q", annotations={HIERARCHY: "root/a", WEIGHTS: "1/a"}), "denied"),
    Refused(POLICY, "queues", queue("q", annotations={HIERARCHY: "a"}), "denied"),
    Refused(
        POLICY,
        "queues",
        queue("q", guarantee={"resource": {"cpu": 5, "memory": "8Gi"}}, deserved={"cpu": 10}),
        "must be >= guarantee",
    ),
    Refused(
        POLICY, "queues", queue("q", capability={"cpu": 1}, guarantee={"resource": {"cpu": 2}}), "must be >= guarantee"
    ),
    Refused(DEFINITION, "queues", queue("q"), "spec.weight", {"spec": {"weight": -1}}),
    Refused(DEFINITION, "hypernodes", hyper_node({"exactMatch": {"name": "n"}}), "members", {"spec": {"members": []}}),
)

#: Requests that no rule refuses.
ACCEPTED: tuple[tuple[str, dict[str, Any], dict[str, Any] | None], ...] = (
    ("jobs", job(task(), task(name="u", replicas=3), minAvailable=4), {"spec": {"minAvailable": 2}}),
    ("jobs", job({"replicas": 1, "template": TEMPLATE}, {"replicas": 0, "template": TEMPLATE}), None),
    ("jobs", job(task(replicas=4, minAvailable=2, partitionPolicy=_parts(2, 2, minPartitions=1))), None),
    ("jobs", job(policies=[_policy(), {"exitCode": 3, "action": "AbortJob"}]), {"spec": {"priorityClassName": "p"}}),
    ("jobs", job(task(policies=[_policy("*")]), policies=[_policy("*")]), None),
    ("jobs", job(task(name="t" * 30), name="j" * 30), None),
    ("jobs", job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": CLAIM}]),
     None),
    ("jobs", job(task(), task(name="u", dependsOn={"name": ["t"]})), None),
    ("jobs", job(*(task(name=f"t{index}") for index in range(400))), {"spec": {"minAvailable": 3}}),
    ("cronjobs", cron("c" * 52, timeZone="Europe/Berlin"), None),
    ("jobflows", flow(a=[], b=["a"]), None),
    ("podgroups", group(networkTopology={"mode": "hard", "highestTierAllowed": 1}), None),
    ("jobflows", flow(), None),
    ("jobflows", flow(a=[]), None),
    ("jobflows", flow(a=[], b=["a"], c=["a"], d=["b", "c"]), None),
    ("jobflows", {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a"}, {"name": "a"}]}}, None),
    ("podgroups", {"metadata": {"name": "g"}, "spec": {"minMember": 1}}, None),
    (
        "hypernodes",
        hyper_node({"exactMatch": {"name": "n"}}),
        {"spec": hyper_node({"regexMatch": {"pattern": "n-[1-5]"}})["spec"]},
    ),
    ("hypernodes", hyper_node({"regexMatch": {"pattern": "n-[0-9]+"}}), None),
    ("hypernodes", hyper_node({"labelMatch": {"matchLabels": {"rack": "r1"}}}), None),
    ("queues", queue("q", deserved={"cpu": 5, "memory": "10Gi"}, capability={"cpu": 10}), None),
    ("queues", queue("q", deserved={"cpu": 1, "memory": "1Gi"}, parent="root"), None),
    (
        "queues",
        queue(
            "q",
            guarantee={"resource": {"cpu": 1, "memory": "1Gi"}},
            deserved={"cpu": "1500m", "memory": "1Gi"},
            capability={"cpu": 2},
            annotations={HIERARCHY: "root/a", WEIGHTS: "1/0.5"},
        ),
        {"spec": {"weight": 3}},
    ),
)  # fmt: skip

_GROUPS = {
    "jobs": ("batch.volcano.sh/v1alpha1", "Job"),
    "cronjobs": ("batch.volcano.sh/v1alpha1", "CronJob"),
    "jobflows": ("flow.volcano.sh/v1alpha1", "JobFlow"),
    "podgroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "hypernodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
}


def request_of(resource: str, document: dict[str, Any], namespace: str) -> tuple[str, dict[str, Any]]:
    """Return the path of a collection, and the object to create."""
    version, kind = _GROUPS[resource]
    scope = "" if resource in {"queues", "hypernodes"} else f"namespaces/{namespace}/"
    metadata = {key: each for key, each in document["metadata"].items() if key != "namespace"}
    spec = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": document["spec"]}
    return f"/apis/{version}/{scope}{resource}", spec
