"""What test/e2e/jobp of Volcano 1.15.1 checks, on the embedded cluster.

| Upstream's case | Test |
|---|---|
| Admission (33 cases) | tests/e2e/test_admission.py, tests/apiserver/volcano_admission |
| Use an existing PVC (skipped upstream) | tests/controllers/jobs/test_job_reconciler.py: volumes |
| PodGroup with valid minResources | `test_the_least_resources_of_a_group` |
| Delete a job that is pending, running, completed, failed, terminated | `test_jobs_are_deleted_in_every_phase` |
| Event generation | `test_jobs_are_deleted_in_every_phase` (ExecuteAction) |
| Unschedulable event | `test_a_job_that_does_not_fit_has_an_event` |
| Retain failed pod on last retry | tests/controllers/jobs/test_job_reconciler.py: up to max retry |
| Retain succeeded pod when job completes | `test_pods_that_succeeded_stay_when_a_job_completes` |
| Scale up, down, down to zero and up | `test_hosts_follow_the_size_of_a_job` |
| Min Success | `test_a_job_completes_with_its_least_successes` |
| Pods of ReplicationControllers, of volcano and of another scheduler | tests/controllers/test_pod_groups.py |
"""

from __future__ import annotations

from typing import Any

from tests.controllers.jobs.job_world import empty, finish, names, notes, pods, reach, submit, task
from tests.controllers.world import GROUPS, JOBS, World
from tests.waiting import until

FAILED = [{"event": "PodFailed", "action": "AbortJob"}]
TERMINATED = [{"event": "PodFailed", "action": "TerminateJob"}]
#: Phase -> the policies of the job, and the exit code with which its pod ends; None if it does not end.
PHASES: dict[str, tuple[list[dict[str, str]], int | None]] = {
    "Running": ([], None),
    "Completed": ([], 0),
    "Aborted": (FAILED, 3),
    "Terminated": (TERMINATED, 3),
}


async def test_jobs_are_deleted_in_every_phase(cluster: World) -> None:
    await submit(cluster, task(cpu="1000"), name="pending")
    for wanted, (policies, _) in PHASES.items():
        await submit(cluster, task(replicas=1, cpu="1"), name=wanted.lower(), policies=policies)
    for wanted, (_, code) in PHASES.items():
        await reach(cluster, "Running", wanted.lower())
        if code is not None:
            await finish(cluster, f"{wanted.lower()}-t-0", code)
    for wanted in PHASES:
        await reach(cluster, wanted, wanted.lower())
    await reach(cluster, "Pending", "pending")
    assert any("TerminateJob" in each for each in await notes(cluster, "ExecuteAction"))
    for wanted in ("pending", *PHASES):
        await cluster.client.send("DELETE", f"{JOBS}/{wanted.lower()}")
    await until(lambda: empty(cluster, JOBS))
    await until(lambda: names(cluster, []))
    await until(lambda: empty(cluster, GROUPS))


async def test_the_least_resources_of_a_group(cluster: World) -> None:
    amounts = {"cpu": "1", "memory": "1000Mi", "nvidia.com/gpu": "1"}
    tasks = [task("a", 1), task("b", 1)]
    for each in tasks:
        each["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    await submit(cluster, *tasks)
    (group,) = await until(lambda: cluster.items(GROUPS))
    assert group["spec"]["minResources"] == {
        "count/pods": "2",
        "pods": "2",
        "cpu": "2",
        "memory": "2000Mi",
        "nvidia.com/gpu": "2",
        "requests.cpu": "2",
        "requests.memory": "2000Mi",
        "requests.nvidia.com/gpu": "2",
        "limits.cpu": "2",
        "limits.memory": "2000Mi",
    }


async def test_a_job_that_does_not_fit_has_an_event(cluster: World) -> None:
    wide = task(replicas=5)
    wide["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0"}
    await submit(cluster, wide)
    await until(lambda: _event(cluster, "Unschedulable"))
    assert not any(each["spec"].get("nodeName") for each in (await pods(cluster)).values())


async def _event(world: World, reason: str) -> bool:
    return bool(await notes(world, reason))


async def test_pods_that_succeeded_stay_when_a_job_completes(cluster: World) -> None:
    done = task("done", 1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    await submit(cluster, task("runs", 1), done, minAvailable=2, minSuccess=2, maxRetry=1)
    await reach(cluster, "Running")
    await finish(cluster, "j-done-0")
    completed = await reach(cluster, "Completed")
    assert completed.get("retryCount", 0) == 0
    await until(lambda: names(cluster, ["j-done-0"]))


async def test_a_job_completes_with_its_least_successes(cluster: World) -> None:
    await submit(cluster, task("short", 3, cpu="1"), task("long", 2, cpu="1"), minAvailable=2, minSuccess=2)
    await until(lambda: _running(cluster, 5))
    await finish(cluster, "j-short-0")
    await finish(cluster, "j-short-2")
    await reach(cluster, "Completed")


async def _running(world: World, count: int) -> bool:
    return sum(each["status"].get("phase") == "Running" for each in (await pods(world)).values()) == count


async def test_hosts_follow_the_size_of_a_job(cluster: World) -> None:
    await submit(cluster, task(replicas=2, cpu="500m"), plugins={"svc": []})
    await reach(cluster, "Running")
    for size in (4, 1, 0, 2):
        spec: dict[str, Any] = {"minAvailable": size, "tasks": [task(replicas=size, cpu="500m", minAvailable=size)]}
        await cluster.merge(f"{JOBS}/j", {"spec": spec})
        await until(lambda wanted=size: names(cluster, [f"j-t-{index}" for index in range(wanted)]))
        await until(lambda wanted=size: _running(cluster, wanted))
        await until(lambda wanted=size: _has_hosts(cluster, wanted))


async def _has_hosts(world: World, count: int) -> bool:
    hosts = (await world.get("/api/v1/namespaces/default/configmaps/j-svc"))["data"]
    listed = [each for each in hosts.get("t.host", "").split("\n") if each]
    return (listed, hosts.get("VC_T_NUM")) == ([f"j-t-{index}.j" for index in range(count)], str(count))
