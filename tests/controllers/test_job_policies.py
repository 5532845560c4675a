"""What policies make of what happens; what a job leaves out, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.defaults import completed, problems
from mooring.controllers.jobs.documents import pod_document
from mooring.controllers.jobs.group import group_for, least_amounts
from mooring.controllers.jobs.members import Member, request_of
from mooring.controllers.jobs.plugins import PLUGINS, PluginError
from mooring.controllers.jobs.policies import Delayed, Request, cancels, decide, supersedes

TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}


def job(*tasks: dict[str, Any], version: int = 0, metadata: dict[str, Any] | None = None, **spec: Any) -> VolcanoJob:
    made = [{"name": "t", "replicas": 2, "template": TEMPLATE, **task} for task in tasks or ({},)]
    document = {
        "metadata": {"name": "j", "namespace": "default", "uid": "u", **(metadata or {})},
        "spec": {"tasks": made, **spec},
        "status": {"version": version},
    }
    return completed(msgspec.convert(document, VolcanoJob), scheduler_name="volcano", queue="default")


RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("task_policies", "job_policies", "request_", "action", "delay"),
    [
        ([], [], Request(event="PodFailed", task="t"), "SyncJob", 0),
        ([], [RESTART], Request(event="PodFailed", task="t"), "RestartJob", 0),
        ([], [RESTART], Request(event="PodEvicted", task="t"), "SyncJob", 0),
        (
            [{"event": "PodFailed", "action": "RestartTask"}],
            [RESTART],
            Request(event="PodFailed", task="t"),
            "RestartTask",
            0,
        ),
        (
            [{"event": "PodFailed", "action": "RestartTask"}],
            [RESTART],
            Request(event="PodFailed", task="x"),
            "RestartJob",
            0,
        ),
        (
            [],
            [{"events": ["PodFailed", "PodEvicted"], "action": "AbortJob"}],
            Request(event="PodEvicted"),
            "AbortJob",
            0,
        ),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="TaskFailed"), "AbortJob", 0),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="OutOfSync"), "SyncJob", 0),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="PodRunning"), "SyncJob", 0),
        ([], [{"exitCode": 3, "action": "TerminateJob"}], Request(event="PodFailed", exit_code=3), "TerminateJob", 0),
        ([], [{"exitCode": 3, "action": "TerminateJob"}], Request(event="PodFailed", exit_code=4), "SyncJob", 0),
        ([], [{"event": "PodPending", "action": "RestartJob"}], Request(event="PodPending"), "SyncJob", 0),
        (
            [],
            [{"event": "PodPending", "action": "RestartJob", "timeout": "1m"}],
            Request(event="PodPending"),
            "RestartJob",
            60,
        ),
        ([], [{**RESTART, "timeout": "90s"}], Request(event="PodFailed"), "RestartJob", 90),
        ([], [RESTART], Request(event="CommandIssued", action="AbortJob"), "AbortJob", 0),
        ([], [{"event": "Unknown", "action": "RestartJob"}], Request(event="Unknown"), "RestartJob", 0),
        (
            [],
            [{"event": "TaskCompleted", "action": "CompleteJob"}],
            Request(event="TaskCompleted", task="t"),
            "CompleteJob",
            0,
        ),
    ],
)
def test_what_a_policy_says(
    task_policies: list[Any], job_policies: list[Any], request_: Request, action: str, delay: float
) -> None:
    assert decide(job({"policies": task_policies}, policies=job_policies), request_) == (action, delay)


def test_what_happens_to_pods_of_an_earlier_version_does_not_count() -> None:
    found = job(policies=[RESTART], version=2)
    assert decide(found, Request(event="PodFailed", version=1)).action == "SyncJob"
    assert decide(found, Request(event="PodFailed", version=2)).action == "RestartJob"


def test_what_makes_a_delayed_action_pointless() -> None:
    pending = Delayed(Request(event="PodPending", pod="p", pod_uid="1"), "RestartPod", 10.0)
    assert cancels(Request(event="PodRunning", pod="p", pod_uid="1"), pending)
    assert not cancels(Request(event="PodRunning", pod="p", pod_uid="2"), pending)
    failed = Delayed(Request(event="PodFailed", pod="p", task="t"), "RestartTask", 10.0)
    assert cancels(Request(event="PodRunning", pod="p"), failed)
    assert not cancels(Request(event="PodEvicted", pod="p"), failed)
    assert supersedes("RestartTask", Request(task="t"), failed)
    assert not supersedes("RestartTask", Request(task="other"), failed)
    assert not supersedes("RestartJob", Request(), failed)
    assert supersedes("AbortJob", Request(), Delayed(Request(), "RestartJob", 1.0))


def member(phase: str, *, code: int | None = None, restarts: int = 0, uid: str = "1", **annotations: str) -> Member:
    state = {} if code is None else {"terminated": {"exitCode": code}}
    document = {
        "metadata": {"name": "j-t-0", "uid": uid, "annotations": {"volcano.sh/task-spec": "t", **annotations}},
        "status": {"phase": phase, "containerStatuses": [{"restartCount": restarts, "state": state}]},
    }
    return msgspec.convert(document, Member)


@pytest.mark.parametrize(
    ("old", "new", "event", "code"),
    [
        (None, member("Pending"), "PodPending", 0),
        (member("Pending"), member("Running"), "PodRunning", 0),
        (member("Running"), member("Failed", code=7), "PodFailed", 7),
        (member("Failed", code=7), member("Failed", code=7), "OutOfSync", 0),
        (member("Running"), member("Succeeded"), "OutOfSync", 0),
        (member("Running"), member("Running", restarts=5), "TaskFailed", 0),
        (member("Running"), None, "PodEvicted", 0),
        (member("Running", **{"volcano.sh/controller-out-of-sync": "true"}), None, "OutOfSync", 0),
    ],
)
def test_what_happened_to_a_pod(old: Member | None, new: Member | None, event: str, code: int) -> None:
    pods = [] if new is None else [new, member("Running", uid="2")]
    found = request_of(old, new, job().spec.tasks[0], pods)
    assert (found.event, found.exit_code) == (event, code)


def test_a_task_is_complete_when_its_last_pod_is() -> None:
    done = member("Succeeded")
    found = request_of(member("Running"), done, job().spec.tasks[0], [done, member("Succeeded", uid="2")])
    assert found.event == "TaskCompleted"


def test_what_a_job_leaves_out() -> None:
    found = job({"name": "", "replicas": 3}, {"name": "w", "replicas": 2, "minAvailable": 1}, plugins={"pytorch": []})
    assert [task.name for task in found.spec.tasks] == ["default0", "w"]
    assert [task.min_available for task in found.spec.tasks] == [3, 1]
    assert (found.spec.min_available, found.spec.max_retry, found.spec.queue) == (4, 3, "default")
    assert found.spec.scheduler_name == "volcano"
    assert set(found.spec.plugins) == {"svc", "pytorch"}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minAvailable": 3}, "greater than total replicas"),
        ({"tasks": [{"name": "a"}, {"name": "a"}]}, "duplicated task name a"),
        ({"tasks": [{"replicas": 1, "minAvailable": 2}]}, "'minAvailable' is greater than 'replicas'"),
        ({"tasks": [{"template": {}}]}, "no containers"),
        ({"tasks": [{"dependsOn": {"name": ["x"]}}]}, "depends on x, which is no task"),
        (
            {"tasks": [{"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}]},
            "circle",
        ),
        ({"policies": [{"event": "PodFailed", "action": "Restart"}]}, "invalid policy action 'Restart'"),
        ({"policies": [{"event": "PodRunning", "action": "AbortJob"}]}, "invalid policy event 'PodRunning'"),
        ({"policies": [{"action": "AbortJob"}]}, "either events or an exitCode"),
        ({"policies": [{"exitCode": 0, "action": "AbortJob"}]}, "0 is not a valid error code"),
        ({"policies": [RESTART, {"event": "*", "action": "AbortJob"}]}, "no other event may have one"),
        ({"policies": [{**RESTART, "timeout": "soon"}]}, "timeout"),
        ({"plugins": {"svcs": []}}, "unable to find job plugin: svcs"),
        ({"volumes": [{"mountPath": "/data"}]}, "either volumeClaim or volumeClaimName"),
    ],
)
def test_what_is_wrong_with_a_job(spec: dict[str, Any], text: str) -> None:
    tasks = spec.pop("tasks", [{}])
    assert any(text in problem for problem in problems(job(*tasks, **spec)))


def test_nothing_is_wrong_with_a_good_one() -> None:
    policies = [
        RESTART,
        {"exitCode": 3, "action": "AbortJob"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    ]
    assert problems(job(policies=policies, plugins={"env": [], "svc": ["--publish-not-ready-addresses=true"]})) == []


def test_a_pod_carries_what_identifies_it() -> None:
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}], "tty": True}]},
    }
    found = job(
        {"template": template, "topologyPolicy": "best-effort"},
        priorityClassName="high",
        queue="q",
        plugins={"env": []},
        metadata={
            "annotations": {"volcano.sh/preemptable": "true", "other": "z"},
            "labels": {"volcano.sh/preemptable": "true"},
        },
        version=4,
    )
    pod = pod_document(found, found.spec.tasks[0], 1, [PLUGINS["env"](())])
    metadata = pod["metadata"]
    assert metadata["name"] == "j-t-1"
    assert metadata["annotations"] == {
        "note": "y",
        "scheduling.k8s.io/group-name": "j-u",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/job-version": "4",
        "volcano.sh/numa-topology-policy": "best-effort",
        "volcano.sh/preemptable": "true",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "t",
        "volcano.sh/template-uid": "j-t",
    }
    assert metadata["labels"] == {
        "app": "x",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/preemptable": "true",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "t",
    }
    assert metadata["ownerReferences"][0]["uid"] == "u"
    container = pod["spec"]["containers"][0]
    names = [each["name"] for each in container["env"]]
    assert names == ["A", "VK_TASK_INDEX", "VC_TASK_INDEX"]
    assert container["tty"] is True
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == ("volcano", "high")
    # The template itself stays as it was.
    assert template["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_pods_find_each_other_through_svc() -> None:
    found = job({"replicas": 2}, {"name": "w-1", "replicas": 1}, plugins={"svc": []})
    pod = pod_document(found, found.spec.tasks[0], 0, [PLUGINS["svc"](())])
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-t-0", "j")
    container = pod["spec"]["containers"][0]
    assert [each["name"] for each in container["env"]] == ["VC_T_HOSTS", "VC_T_NUM", "VC_W_1_HOSTS", "VC_W_1_NUM"]
    assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]
    with pytest.raises(PluginError, match="--publish-not-ready-addresses"):
        PLUGINS["svc"](("--publish-not-ready-adresses",))


def cpu(text: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": text}}}], **more}
    return {"template": {"spec": spec}}


@pytest.mark.parametrize(
    ("tasks", "least", "cores"),
    [
        ([{"name": "a", "replicas": 2, **cpu("1")}, {"name": "b", "replicas": 2, **cpu("3")}], 4, 8),
        # Less than the tasks' own minima: the first in line.
        ([{"name": "a", "replicas": 2, **cpu("1")}, {"name": "b", "replicas": 2, **cpu("3")}], 3, 5),
        (
            [
                {"name": "a", "replicas": 2, **cpu("1")},
                {"name": "b", "replicas": 2, **cpu("3", priorityClassName="high")},
            ],
            3,
            7,
        ),
        # More than the minima: other replicas fill up.
        (
            [
                {"name": "a", "replicas": 3, "minAvailable": 1, **cpu("1")},
                {"name": "b", "replicas": 2, "minAvailable": 1, **cpu("3")},
            ],
            3,
            5,
        ),
    ],
)
def test_what_a_gang_needs_at_least(tasks: list[Any], least: int, cores: int) -> None:
    found = least_amounts(job(*tasks, minAvailable=least), {"high": 10})
    assert found["cpu"] == cores * 1000
    assert found["pods"] == least


def test_the_group_of_a_job() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    found = group_for(job({"replicas": 4, "partitionPolicy": parts}, queue="q", priorityClassName="high"), {})
    assert found.name == "j-u"
    assert (found.spec.min_member, found.spec.min_task_member) == (2, {"t": 2})
    assert (found.spec.queue, found.spec.priority_class_name) == ("q", "high")
    policy = found.spec.sub_group_policy[0]
    assert (policy.sub_group_size, policy.min_sub_groups, policy.match_label_keys) == (
        2,
        1,
        ("volcano.sh/partition-id",),
    )
