from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob, VolcanoJobSpec
from mooring.apiserver.volcano_admission.jobs import job_template_errors
from tests.apiserver.volcano_admission.reviewing import TEMPLATE, State, defaulted, job, queue, refusal, task

ABORT: dict[str, Any] = {"event": "PodFailed", "action": "AbortJob"}
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}


def cpus(amount: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": amount}}}]}}


@pytest.mark.parametrize(
    "accepted",
    [
        job(),
        job(queue="q"),
        job(task(name="a"), task(name="b", dependsOn={"name": ["a"]})),
        job(policies=[ABORT, {"exitCode": 3, "action": "RestartJob"}, {"event": "JobUpdated", "action": "AbortJob"}]),
        job(policies=[{"event": "*", "action": "RestartJob"}]),
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/b", "volumeClaim": {}}]),
        job(task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1})),
        job(task(name="master"), task(name="worker"), plugins={"mpi": []}),
        job(task(name="chief"), plugins={"mpi": ["--master=chief", "--worker=w"]}),
        job(task(topologyPolicy="single-numa-node", template=cpus("2"))),
    ],
)
def test_valid_jobs_are_accepted(accepted: dict[str, Any]) -> None:
    assert refusal("jobs", accepted) == ""


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ({"metadata": {"name": "j"}, "spec": {}}, "No task specified in job spec"),
        (job(task(), task()), "duplicated task name t"),
        (job(task(minAvailable=2)), "'minAvailable' is greater than 'replicas' in task: t, job: j"),
        (job(minAvailable=2), "job 'minAvailable' should not be greater than total replicas in tasks"),
        (job(task(replicas=100_001)), "nor greater than 100000 in total"),
        (job(policies=[ABORT, ABORT]), "duplicate event PodFailed  across different policy"),
        (job(policies=[{**ABORT, "exitCode": 1}]), "must not specify event and exitCode simultaneously"),
        (job(policies=[{"action": "AbortJob"}]), "either event and exitCode should be specified"),
        (
            job(policies=[{**ABORT, "action": "Explode"}]),
            'spec.policies: Invalid value: "Explode": invalid policy action',
        ),
        (job(policies=[{**ABORT, "event": "PodRunning"}]), 'Invalid value: "PodRunning": invalid policy event'),
        (job(policies=[{"exitCode": 0, "action": "AbortJob"}]), "0 is not a valid error code"),
        (job(policies=[{"exitCode": 1, "action": "AbortJob"}] * 2), "duplicate exitCode 1"),
        (job(policies=[ABORT, {**ABORT, "event": "*"}]), "if there's * here, no other policy should be here"),
        (job(policies=[{"action": "AbortJob"}]), "valid events are [* PodFailed"),
        (job(task(policies=[{**ABORT, "action": "x"}])), 'spec.tasks.policies: Invalid value: "x"'),
        (job(volumes=[{"mountPath": ""}]), "mountPath is required"),
        (job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}] * 2), "duplicated mountPath: /a"),
        (job(volumes=[{"mountPath": "/a"}]), "either VolumeClaim or VolumeClaimName must be specified"),
        (job(volumes=[{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}}]), "conflict: If you want to use"),
        (job(volumes=[{"mountPath": "/a", "volumeClaimName": "X_"}]), "invalid VolumeClaimName X_"),
        (job(task(name="a", dependsOn={"name": ["a"]})), "doesn't form a directed acyclic graph(DAG)"),
        (job(task(dependsOn={"name": ["x"]})), "task t depends on x, which is not a task of the job"),
        (job(networkTopology=TIERS), "must not specify 'highestTierAllowed' and 'highestTierName'"),
        (
            job(task(partitionPolicy={"totalPartitions": 0, "partitionSize": 1})),
            "'TotalPartitions' must be greater than 0",
        ),
        (
            job(task(partitionPolicy={"totalPartitions": 1, "partitionSize": 0})),
            "'PartitionSize' must be greater than 0",
        ),
        (
            job(task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2})),
            "'Replicas' are not equal to TotalPartitions*",
        ),
        (
            job(
                task(
                    replicas=4,
                    minAvailable=3,
                    partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
                )
            ),
            "'MinAvailable' is not equal to MinPartitions*PartitionSize",
        ),
        (
            job(task(partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "networkTopology": TIERS})),
            "must not specify",
        ),
        (job(task(template={})), "spec.task[0].template.spec.containers: Required value"),
        (
            job(task(template={"spec": {"containers": [{"name": "c"}]}})),
            "template.spec.containers[0].image: Required value",
        ),
        (job(task(template={"spec": {"containers": [{"name": "c", "image": 3}]}})), "spec.task[0].template"),
        (
            job(task(template={"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [3]}})),
            "spec.task[0].template",
        ),
        (job(task(topologyPolicy="restricted", template=cpus("1500m"))), "the cpu request isn't  an integer"),
        (job(task(topologyPolicy="restricted")), "the cpu request isn't  an integer"),
        (job(task(name="t" * 40), name="j" * 40), "create pod with name"),
        (job(name="j" * 64), "create job with name"),
        (job(plugins={"mpi": []}), "The specified mpi master task was not found"),
        (job(queue="none"), 'unable to find job queue: queue.scheduling.volcano.sh "none" not found'),
        (job(queue="shut"), "can only submit job to queue with state `Open`, queue `shut` status is `Closed`"),
        (job(queue="root"), "can not submit job to root queue"),
        (job(task(replicas="x")), "replicas"),
        ({"metadata": {"name": "j"}, "spec": "x"}, "spec"),
        ({"metadata": 3, "spec": {}}, "metadata"),
    ],
)
def test_invalid_jobs_are_refused(refused: dict[str, Any], message: str) -> None:
    assert message in refusal("jobs", refused)


def test_only_leaves_of_the_tree_take_jobs() -> None:
    state = State(queue("a"), queue("b", parent="a"))
    assert "can only submit job to leaf queue, queue `a` has 1 child queues" in refusal(
        "jobs", job(queue="a"), state=state
    )
    assert refusal("jobs", job(queue="b"), state=state) == ""


def test_new_queues_and_the_default_queue_take_jobs_before_the_controller_has_seen_them() -> None:
    assert refusal("jobs", job(queue="fresh"), state=State(queue("fresh", state=""))) == ""
    assert refusal("jobs", job(), state=State()) == ""


def test_defaults() -> None:
    given = job(
        {"replicas": 3, "template": {"spec": {"hostNetwork": True, "containers": []}}},
        {"name": "w", "replicas": 2, "minAvailable": 1, "maxRetry": 5},
        {"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}},
        plugins={"mpi": ["--master=w"]},
    )
    spec = defaulted("jobs", given)["spec"]
    assert [(each["name"], each["minAvailable"], each["maxRetry"]) for each in spec["tasks"]] == [
        ("default0", 3, 3), ("w", 1, 5), ("default2", 2, 3),
    ]  # fmt: skip
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        6,
    )
    assert spec["plugins"] == {"mpi": ["--master=w"], "svc": [], "ssh": []}
    assert given["spec"]["tasks"][0].get("name") is None


def test_given_values_are_kept() -> None:
    spec: dict[str, Any] = {
        "queue": "q",
        "schedulerName": "s",
        "maxRetry": 9,
        "minAvailable": 1,
        "plugins": {"svc": ["x"], "ray": []},
    }
    given = job(task(minAvailable=1, maxRetry=2), **spec)
    assert defaulted("jobs", given) == given
    assert "plugins" not in defaulted("jobs", job())["spec"]


@pytest.mark.parametrize("document", [{}, {"spec": []}, {"spec": {"tasks": 3}}, {"spec": {"tasks": [3]}}])
def test_objects_of_a_wrong_type_get_no_defaults(document: dict[str, Any]) -> None:
    assert defaulted("jobs", document) == document


STORED = defaulted(
    "jobs", job(task(replicas=2, template=cpus("1")), volumes=[{"mountPath": "/a", "volumeClaim": {"x": 1}}])
)


def changed(*path: Any, value: Any, base: dict[str, Any] = STORED) -> dict[str, Any]:
    document = copy.deepcopy(base)
    place: Any = document["spec"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (STORED, ""),
        (changed("minAvailable", value=1), ""),
        (changed("tasks", 0, "replicas", value=5), ""),
        (changed("priorityClassName", value="high"), ""),
        # What Go clients and `kubectl apply` write when they do not change a field.
        (changed("volumes", 0, "volumeClaimName", value="made-by-the-controller"), ""),
        (changed("tasks", 0, "template", value={**cpus("1000m"), "metadata": {"creationTimestamp": None}}), ""),
        (changed("tasks", 0, value=task(replicas=3, template=cpus("1"))), ""),
        (changed("minAvailable", value=3), "job 'minAvailable' must not be greater than total replicas"),
        (changed("minAvailable", value=-1), "job 'minAvailable' must be >= 0"),
        (changed("tasks", 0, "replicas", value=-1), "'replicas' must be >= 0 in task: t"),
        (changed("tasks", 0, "minAvailable", value=-1), "'minAvailable' must be >= 0 in task: t"),
        (changed("tasks", 0, "minAvailable", value=3), "'minAvailable' must be <= 'replicas' in task: t"),
        (changed("tasks", value=[]), "job 'minAvailable' must not be greater than total replicas"),
        (changed("tasks", value=[*STORED["spec"]["tasks"], task(name="b")]), "job updates may not add or remove tasks"),
        (changed("queue", value="q"), "job updates may not change fields other than"),
        (changed("tasks", 0, "template", value=cpus("2")), "job updates may not change fields other than"),
        (changed("tasks", 0, "template", value=TEMPLATE), "job updates may not change fields other than"),
        (changed("networkTopology", value=TIERS), "must not specify 'highestTierAllowed'"),
    ],
)
def test_updates(update: dict[str, Any], message: str) -> None:
    found = refusal("jobs", update, STORED)
    assert found.startswith(message) if message else not found


def test_an_invalid_amount_in_a_template_is_named() -> None:
    resources: dict[str, Any] = {"requests": {"cpu": "1e1.5", 3: 4}, "limits": [1]}
    container = {"name": "c", "image": "i", "resources": resources}
    workers = TaskSpec(name="t", replicas=1, template={"spec": {"containers": [container]}})
    made = VolcanoJob(spec=VolcanoJobSpec(tasks=(workers,), min_available=1))
    (error,) = job_template_errors(made)
    assert error.startswith("spec.task[0].template")
    container["resources"] = {"requests": {"cpu": "1e1.5"}}
    (error,) = job_template_errors(made)
    assert error.startswith("spec.task[0].template.spec.containers[0].resources.requests[cpu]: '1e1.5' is not")
