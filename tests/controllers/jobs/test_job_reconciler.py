"""Jobs on the embedded cluster, with batch sessions and fake kubelets."""

from __future__ import annotations

import pytest

from tests.controllers.jobs.job_world import (
    empty,
    finish,
    names,
    notes,
    phase,
    pods,
    reach,
    sessions,
    status,
    submit,
    task,
)
from tests.controllers.world import COMMANDS, GROUPS, JOBS, PODS, World, controllers
from tests.waiting import until


async def test_a_job_runs_to_completion(cluster: World) -> None:
    await submit(cluster, task("a", 2), task("b", 1), plugins={"env": [], "svc": []})
    await reach(cluster, "Running")
    assert sorted(await pods(cluster)) == ["j-a-0", "j-a-1", "j-b-0"]
    hosts = await cluster.get("/api/v1/namespaces/default/configmaps/j-svc")
    assert hosts["data"]["VC_A_HOSTS"] == "j-a-0.j,j-a-1.j"
    service = await cluster.get("/api/v1/namespaces/default/services/j")
    assert service["spec"]["clusterIP"] == "None"
    for name in await pods(cluster):
        await finish(cluster, name)
    done = await reach(cluster, "Completed")
    assert (done["succeeded"], done["failed"], done["running"]) == (3, 0, 0)
    assert done["minAvailable"] == 3
    assert done["taskStatusCount"] == {"a": {"phase": {"Succeeded": 2}}, "b": {"phase": {"Succeeded": 1}}}
    assert [each["status"] for each in done["conditions"]] == ["Pending", "Running", "Completed"]
    # The PodGroup and the objects of plugins are deleted, the pods are not.
    await until(lambda: empty(cluster, GROUPS))
    assert await cluster.get("/api/v1/namespaces/default/services/j") is None
    assert len(await pods(cluster)) == 3


async def test_no_pod_of_a_gang_that_does_not_fit_runs(cluster: World) -> None:
    # Three nodes of four cores.
    await submit(cluster, task(replicas=4, cpu="3"))
    text = await until(lambda: first(cluster, "PodGroupPending"))
    assert "default:j unschedulable" in text
    assert await phase(cluster) == "Pending"
    found = await pods(cluster)
    assert all("nodeName" not in pod["spec"] for pod in found.values())
    await cluster.merge(f"{JOBS}/j", {"spec": {"minAvailable": 3, "tasks": [task(replicas=3, cpu="3")]}})
    running_now = await reach(cluster, "Running")
    assert running_now["minAvailable"] == 3


async def test_a_failed_pod_restarts_the_job_up_to_max_retry(cluster: World) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    await submit(cluster, task("bad", 1, lasts="100ms", code=3), task("good", 1), policies=policies, maxRetry=2)
    failed = await reach(cluster, "Failed")
    assert failed["retryCount"] == 2
    assert failed["version"] >= 2
    # The failed pods of the last retry are kept; running ones were deleted.
    await until(lambda: names(cluster, ["j-bad-0"]))
    assert any("RestartJob" in each for each in await notes(cluster, "ExecuteAction"))


async def test_a_policy_for_an_exit_code(cluster: World) -> None:
    policies = [{"exitCode": 3, "action": "AbortJob"}, {"event": "PodEvicted", "action": "RestartJob"}]
    await submit(cluster, task("bad", 1), task("good", 1), policies=policies)
    await reach(cluster, "Running")
    await finish(cluster, "j-bad-0", 3)
    await reach(cluster, "Aborted")


async def test_restart_task_restarts_one_task(cluster: World) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartTask"}]
    await submit(cluster, task("a", 2, policies=policies), task("b", 1))
    await reach(cluster, "Running")
    before = {name: pod["metadata"]["uid"] for name, pod in (await pods(cluster)).items()}
    await cluster.client.send("DELETE", f"{PODS}/j-a-0")

    async def restarted() -> bool:
        now = {name: pod["metadata"]["uid"] for name, pod in (await pods(cluster)).items()}
        return len(now) == 3 and now["j-a-0"] != before["j-a-0"] and now["j-a-1"] != before["j-a-1"]

    await until(restarted)
    assert (await pods(cluster))["j-b-0"]["metadata"]["uid"] == before["j-b-0"]
    assert (await reach(cluster, "Running"))["retryCount"] == 1


async def test_a_completed_task_completes_the_job(cluster: World) -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    await submit(cluster, task("main", 1, policies=policies), task("helper", 2), minAvailable=3)
    await reach(cluster, "Running")
    await finish(cluster, "j-main-0")
    done = await reach(cluster, "Completed")
    assert done["succeeded"] == 1
    await until(lambda: names(cluster, ["j-main-0"]))


async def test_a_job_in_a_missing_queue_says_so(cluster: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.controllers.jobs.job_reconciler._BLOCKED_SECONDS", 0.2)
    cluster.without_admission()
    await submit(cluster, task(), queue="nowhere")

    async def reported() -> bool:
        state = (await status(cluster)).get("state", {})
        return (state.get("reason"), state.get("message")) == ("QueueNotFound", 'queue "nowhere" does not exist')

    await until(reported)
    assert await notes(cluster, "QueueNotFound") == ['queue "nowhere" does not exist']
    assert await cluster.items(GROUPS) == []
    await cluster.queue("nowhere")
    found = await reach(cluster, "Running")
    assert "message" not in found["state"]


async def test_jobs_of_a_queue_that_extends_to_other_clusters_are_marked(cluster: World) -> None:
    await cluster.queue("wide", extendClusters=[{"name": "other", "weight": 1}])
    await submit(cluster, task(replicas=1), queue="wide")
    await submit(cluster, task(replicas=1), name="plain")
    await reach(cluster, "Running")
    await reach(cluster, "Running", "plain")
    found = await pods(cluster)
    mark = "volcano.sh/job-forwarding"
    assert (await cluster.get(f"{JOBS}/j"))["metadata"]["annotations"][mark] == "true"
    metadata = found["j-t-0"]["metadata"]
    assert (metadata["annotations"][mark], metadata["labels"][mark]) == ("true", "true")
    assert mark not in found["plain-t-0"]["metadata"]["annotations"]
    assert mark not in (await cluster.get(f"{JOBS}/plain"))["metadata"].get("annotations", {})


async def test_suspend_and_resume(cluster: World) -> None:
    await submit(cluster, task(replicas=2))
    await reach(cluster, "Running")
    await cluster.command("AbortJob", f"{JOBS}/j")
    await reach(cluster, "Aborted")
    await until(lambda: names(cluster, []))
    assert await empty(cluster, COMMANDS)
    assert await empty(cluster, GROUPS)
    await cluster.command("ResumeJob", f"{JOBS}/j")
    again = await reach(cluster, "Running")
    assert again["retryCount"] == 1
    versions = {pod["metadata"]["annotations"]["volcano.sh/job-version"] for pod in (await pods(cluster)).values()}
    assert "0" not in versions
    assert any("Start to execute command AbortJob" in each for each in await notes(cluster, "CommandIssued"))


async def test_a_task_waits_for_its_dependency(cluster: World) -> None:
    await submit(
        cluster,
        task("first", 1, lasts="700ms"),
        task("second", 1, minAvailable=0, dependsOn={"name": ["first"]}),
        minAvailable=1,
    )
    await until(lambda: exists(cluster, "j-first-0"))
    await until(lambda: exists(cluster, "j-second-0"))
    first_pod, second = (await pods(cluster))["j-first-0"], (await pods(cluster))["j-second-0"]
    assert second["metadata"]["creationTimestamp"] >= first_pod["status"]["startTime"]


async def test_a_job_is_scaled(cluster: World) -> None:
    await submit(cluster, task(replicas=3, minAvailable=1), minAvailable=1)
    await until(lambda: names(cluster, ["j-t-0", "j-t-1", "j-t-2"]))
    await cluster.merge(f"{JOBS}/j", {"spec": {"tasks": [task(replicas=1, minAvailable=1)]}})
    await until(lambda: names(cluster, ["j-t-0"]))
    await cluster.merge(f"{JOBS}/j", {"spec": {"tasks": [task(replicas=2, minAvailable=1)]}})
    await until(lambda: names(cluster, ["j-t-0", "j-t-1"]))


async def test_a_finished_job_is_deleted_after_its_ttl(cluster: World) -> None:
    await submit(cluster, task(replicas=1, lasts="100ms"), ttlSecondsAfterFinished=1)
    await until(lambda: empty(cluster, JOBS))
    await until(lambda: names(cluster, []))


async def test_a_pod_that_is_pending_too_long(cluster: World) -> None:
    policies = [{"event": "PodPending", "action": "TerminateJob", "timeout": "1s"}]
    await submit(cluster, task(replicas=4, cpu="3"), policies=policies)
    await reach(cluster, "Terminated")
    assert any("Execute action TerminateJob after 1s" in each for each in await notes(cluster, "ExecuteAction"))


async def test_an_unknown_argument_of_a_plugin_is_reported(cluster: World) -> None:
    await submit(cluster, task(), plugins={"svc": ["--enable-networking"]})
    await reach(cluster, "Running")
    (note,) = await notes(cluster, "UnknownArgument")
    assert note.startswith("plugin svc: unknown argument '--enable-networking'")


async def test_validation_errors_are_reported(cluster: World) -> None:
    cluster.without_admission()
    await submit(cluster, task(replicas=1), minAvailable=2)
    found = await until(lambda: message(cluster))
    assert "greater than total replicas" in found
    assert await empty(cluster, PODS)
    await cluster.merge(f"{JOBS}/j", {"spec": {"minAvailable": 1}})
    await reach(cluster, "Running")


async def test_volumes_get_claims(cluster: World) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await submit(cluster, task(replicas=1), volumes=[{"mountPath": "/data", "volumeClaim": claim}])
    found = await until(lambda: cluster.items("/api/v1/namespaces/default/persistentvolumeclaims"))
    await until(lambda: exists(cluster, "j-t-0"))
    spec = (await pods(cluster))["j-t-0"]["spec"]
    volume = next(each for each in spec["volumes"] if "persistentVolumeClaim" in each)
    assert volume["persistentVolumeClaim"]["claimName"] == found[0]["metadata"]["name"]
    assert {"mountPath": "/data", "name": volume["name"]} in spec["containers"][0]["volumeMounts"]


async def test_a_missing_claim_is_reported(cluster: World) -> None:
    await submit(cluster, task(replicas=1), volumes=[{"mountPath": "/data", "volumeClaimName": "mine"}])
    text = await until(lambda: first(cluster, "PVCError"))
    assert "pvc mine is not found" in text
    assert await empty(cluster, GROUPS)


async def test_a_restarted_controller_continues(world: World) -> None:
    """A pod failed while no controller ran: its policy still applies."""
    policies = [{"event": "PodFailed", "action": "AbortJob"}]
    await submit(world, task(replicas=2), policies=policies, minAvailable=1)
    async with sessions(world):
        async with controllers(world):
            await reach(world, "Running")
        await finish(world, "j-t-0", 1)
        async with controllers(world):
            await reach(world, "Aborted")


async def exists(world: World, name: str) -> bool:
    return name in await pods(world)


async def first(world: World, reason: str) -> str:
    return next(iter(await notes(world, reason)), "")


async def message(world: World) -> str:
    found: str = (await status(world)).get("state", {}).get("message", "")
    return found
