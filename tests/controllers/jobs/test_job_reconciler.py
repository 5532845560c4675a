"""Jobs on the embedded cluster, with batch sessions and fake kubelets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.config import load_config
from mooring.kube import load_access
from mooring.live import LiveScheduler
from mooring.live.batch.batch_settings import BatchSettings
from tests.controllers.running import running
from tests.controllers.world import COMMANDS, GROUPS, JOBS, PODS, World, controllers, until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[World]:
    """The world, with a scheduler and the controllers."""
    batch = BatchSettings(schedule_period=0.1)
    access = load_access(kubeconfig=str(world.kubeconfig))
    scheduler = LiveScheduler(load_config(CONFIG, source="test"), access, batch=batch)
    async with running(scheduler.run(), scheduler.ready), controllers(world):
        yield world


def task(
    name: str = "t", replicas: int = 2, *, lasts: str = "1h", code: int = 0, cpu: str = "1", **more: Any
) -> dict[str, Any]:
    """A task whose pods run for a duration and exit with a code. By default they outlive the test."""
    annotations = {"mooring.dev/run-for": lasts, "mooring.dev/exit-code": str(code)}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return {"name": name, "replicas": replicas, "template": template, **more}


async def submit(world: World, *tasks: dict[str, Any], name: str = "j", **spec: Any) -> None:
    await world.post(
        JOBS,
        apiVersion="batch.volcano.sh/v1alpha1",
        kind="Job",
        metadata={"name": name},
        spec={"tasks": list(tasks), **spec},
    )


async def status(world: World, name: str = "j") -> dict[str, Any]:
    found = await world.get(f"{JOBS}/{name}")
    return {} if found is None else found.get("status", {})


async def phase(world: World, name: str = "j") -> str:
    found: str = (await status(world, name)).get("state", {}).get("phase", "")
    return found


async def reach(world: World, wanted: str, name: str = "j") -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        found = await status(world, name)
        return found if found.get("state", {}).get("phase") == wanted else None

    found: dict[str, Any] = await until(reached)
    return found


async def pods(world: World) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in await world.items(PODS)}


async def notes(world: World, reason: str) -> list[str]:
    events = await world.items("/apis/events.k8s.io/v1/events")
    return [each.get("note", "") for each in events if each.get("reason") == reason]


async def finish(world: World, name: str, code: int = 0) -> None:
    """Finish a pod, as its kubelet would."""
    ended = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": code}}}  # fmt: skip
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}
    await world.merge(f"{PODS}/{name}/status", {"status": status})


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


async def test_a_job_in_a_missing_queue_says_so(cluster: World) -> None:
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
    batch = BatchSettings(schedule_period=0.1)
    scheduler = LiveScheduler(
        load_config(CONFIG, source="test"), load_access(kubeconfig=str(world.kubeconfig)), batch=batch
    )
    async with running(scheduler.run(), scheduler.ready):
        async with controllers(world):
            await reach(world, "Running")
        await finish(world, "j-t-0", 1)
        async with controllers(world):
            await reach(world, "Aborted")


async def empty(world: World, path: str) -> bool:
    return not await world.items(path)


async def names(world: World, wanted: list[str]) -> bool:
    return sorted(await pods(world)) == wanted


async def exists(world: World, name: str) -> bool:
    return name in await pods(world)


async def first(world: World, reason: str) -> str:
    return next(iter(await notes(world, reason)), "")


async def message(world: World) -> str:
    found: str = (await status(world)).get("state", {}).get("message", "")
    return found


# The conditions of a job at the end: its phases, each at its last place.
_RESTARTED = ("Restarting", "Pending", "Running")
_TERMINATED = ("Pending", "Running", "Terminating", "Terminated")
_ABORTED, _COMPLETED = ("Pending", "Running", "Aborting", "Aborted"), ("Pending", "Running", "Completing", "Completed")
#: What happens to a pod, the policies of the job and of its task, and the conditions. As in Volcano's suite.
LIFECYCLES: tuple[tuple[str, list[dict[str, Any]], list[dict[str, Any]], tuple[str, ...]], ...] = (
    ("fail", [{"event": "PodFailed", "action": "RestartJob"}], [], _RESTARTED),
    ("fail", [{"event": "PodFailed", "action": "TerminateJob"}], [], _TERMINATED),
    ("fail", [{"event": "PodFailed", "action": "AbortJob"}], [], _ABORTED),
    ("fail", [{"event": "PodFailed", "action": "RestartPod"},
              {"event": "PodEvicted", "action": "TerminateJob", "timeout": "5m"}], [], _RESTARTED),
    ("evict", [{"event": "PodEvicted", "action": "RestartJob"}], [], _RESTARTED),
    ("evict", [{"event": "PodEvicted", "action": "TerminateJob"}], [], _TERMINATED),
    ("evict", [{"event": "PodEvicted", "action": "AbortJob"}], [], _ABORTED),
    ("evict", [{"event": "*", "action": "RestartJob"}], [], _RESTARTED),
    ("succeed", [{"event": "TaskCompleted", "action": "CompleteJob"}], [], _COMPLETED),
    ("retry", [{"event": "TaskFailed", "action": "TerminateJob"}], [], _TERMINATED),
    ("fail", [{"exitCode": 3, "action": "RestartJob"}], [], _RESTARTED),
    ("evict", [{"events": ["PodEvicted", "PodFailed"], "action": "TerminateJob"}], [], _TERMINATED),
    ("fail", [], [{"event": "PodFailed", "action": "RestartJob"}], _RESTARTED),
    ("evict", [], [{"event": "PodEvicted", "action": "RestartJob"}], _RESTARTED),
    ("evict", [], [{"event": "PodEvicted", "action": "TerminateJob"}], _TERMINATED),
    ("succeed", [], [{"event": "TaskCompleted", "action": "CompleteJob"}], _COMPLETED),
    ("fail", [{"event": "PodFailed", "action": "AbortJob"}], [{"event": "PodFailed", "action": "RestartJob"}],
     _RESTARTED),
)  # fmt: skip


async def test_the_lifecycles_that_volcanos_suite_checks(cluster: World) -> None:
    """All at once, one job each."""
    for number, (trigger, policies, of_task, _) in enumerate(LIFECYCLES):
        tasks = [task("main", 1, cpu="10m", policies=of_task), task("other", 1, cpu="10m")]
        tasks[0]["template"]["spec"]["restartPolicy"] = "OnFailure" if trigger == "retry" else "Never"
        await submit(cluster, *tasks, name=f"j{number}", policies=policies)
    for number, (trigger, *_) in enumerate(LIFECYCLES):
        await reach(cluster, "Running", f"j{number}")
        pod = f"{PODS}/j{number}-main-0"
        if trigger == "evict":
            await cluster.client.send("DELETE", pod)
        elif trigger == "retry":
            container = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 3}
            await cluster.merge(f"{pod}/status", {"status": {"containerStatuses": [container]}})
        else:
            await finish(cluster, f"j{number}-main-0", 3 if trigger == "fail" else 0)
    different: dict[str, Any] = {}

    async def passed() -> bool:
        different.clear()
        for number, (*_, wanted) in enumerate(LIFECYCLES):
            phases = [each["status"] for each in (await status(cluster, f"j{number}"))["conditions"]]
            if tuple(phases) != wanted:
                different[f"j{number}"] = (phases, wanted)
        return not different

    try:
        await until(passed)
    except TimeoutError:
        assert not different
