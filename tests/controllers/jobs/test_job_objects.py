from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.jobs.job_objects import group_for, group_patch, min_resources_of, pod_document
from mooring.controllers.jobs.job_plugins import JobPlugins
from tests.controllers.jobs.builders import job


def test_pod_metadata_and_spec() -> None:
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
    pod = pod_document(found, found.spec.tasks[0], 1, JobPlugins(found))
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
    # The template is not modified.
    assert template["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def cpu(text: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": text}}}], **more}
    return {"template": {"spec": spec}}


@pytest.mark.parametrize(
    ("tasks", "least", "cores"),
    [
        ([{"name": "a", "replicas": 2, **cpu("1")}, {"name": "b", "replicas": 2, **cpu("3")}], 4, 8),
        # Less than the tasks' own minima: the first pods in task order.
        ([{"name": "a", "replicas": 2, **cpu("1")}, {"name": "b", "replicas": 2, **cpu("3")}], 3, 5),
        (
            [
                {"name": "a", "replicas": 2, **cpu("1")},
                {"name": "b", "replicas": 2, **cpu("3", priorityClassName="high")},
            ],
            3,
            7,
        ),
        # More than the minima: other replicas are added.
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
def test_min_resources(tasks: list[Any], least: int, cores: int) -> None:
    found = min_resources_of(job(*tasks, minAvailable=least), {"high": 10})
    assert found["cpu"] == cores * 1000
    assert found["pods"] == least


def test_pod_group_of_a_job() -> None:
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


def test_group_patch_contains_only_differences() -> None:
    old = group_for(job({"name": "a"}, {"name": "b"}), {})
    assert group_patch(old, group_for(job({"name": "a"}, {"name": "b"}), {})) == {}
    patch = group_patch(old, group_for(job({"name": "a", "replicas": 3}, priorityClassName="high"), {}))["spec"]
    assert patch["minMember"] == 3
    assert patch["minTaskMember"] == {"a": 3, "b": None}
    assert patch["priorityClassName"] == "high"
    assert "queue" not in patch
