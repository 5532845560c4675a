"""What test/e2e/jobseq of Volcano 1.15.1 checks, on the embedded cluster.

| Upstream's case | Test |
|---|---|
| LifecyclePolicy of jobs and tasks (17 cases) | `test_the_lifecycles_that_volcanos_suite_checks` |
| Restart and abort a job when it is unschedulable | `test_a_job_that_loses_a_pod_and_cannot_replace_it` |
| Task Priority | `test_tasks_of_a_higher_priority_run_first` |
| SVC, SSh, disableNetworkPolicy, all plugins | `test_objects_of_job_plugins`; tests/controllers/jobs/plugins |
| MPI, MPI plugin, PyTorch, TensorFlow, TensorFlow plugin, Ray | `test_frameworks_run_and_complete` |
| Queue Command Close And Open, with hierarchy | tests/controllers/test_queues.py |
| Queue Job Status: pending, unknown | `test_phases_of_a_group_that_loses_pods`; tests/controllers/test_queues.py |
"""

from __future__ import annotations

import contextlib
from typing import Any

from mooring.kube import NotFound
from tests.controllers.jobs.job_world import finish, phase, pods, reach, status, submit, task
from tests.controllers.world import GROUPS, PODS, World
from tests.waiting import until

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


NODES = "/api/v1/nodes"
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


async def _taint(world: World, *taints: dict[str, str]) -> None:
    for node in await world.items(NODES):
        await world.merge(f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": list(taints)}})


async def _lose(world: World, job: str) -> None:
    """Delete the first pod of a job that runs. It may run again: see ``_delete_placed``."""
    if await _group(world, job) == "Running":
        await _delete_placed(world, f"{job}-t-0")


async def _delete_placed(world: World, *names: str) -> None:
    """Delete pods that have a node. New ones may get a node too: a scheduler may see a taint later than a new pod."""
    for name in names:
        pod = await world.get(f"{PODS}/{name}")
        if pod is not None and pod["spec"].get("nodeName"):
            with contextlib.suppress(NotFound):
                await world.client.send("DELETE", f"{PODS}/{name}")


async def _group(world: World, job: str) -> str:
    found = [each for each in await world.items(GROUPS) if each["metadata"]["name"].startswith(f"{job}-")]
    return found[0]["status"].get("phase", "") if found else ""


async def test_a_job_that_loses_a_pod_and_cannot_replace_it(cluster: World) -> None:
    for name, action in (("again", "RestartJob"), ("stop", "AbortJob")):
        policies = [{"event": "Unknown", "action": action}]
        await submit(cluster, task(replicas=2, cpu="10m"), name=name, policies=policies)
        await reach(cluster, "Running", name)
    await _taint(cluster, TAINT)

    async def ended() -> bool:
        await _lose(cluster, "again")
        await _lose(cluster, "stop")
        return (await phase(cluster, "again"), await phase(cluster, "stop")) == ("Pending", "Aborted")

    await until(ended)
    await _taint(cluster)
    restarted = await reach(cluster, "Running", "again")
    assert [each["status"] for each in restarted["conditions"]] == ["Restarting", "Pending", "Running"]


async def test_phases_of_a_group_that_loses_pods(cluster: World) -> None:
    await submit(cluster, task(replicas=2, cpu="10m"), name="some")
    await submit(cluster, task(replicas=2, cpu="10m"), name="all")
    await until(lambda: _has(cluster, some="Running", all="Running"))
    await _taint(cluster, TAINT)

    async def ended() -> bool:
        await _delete_placed(cluster, "some-t-0", "all-t-0", "all-t-1")
        return {name: await _group(cluster, name) for name in ("some", "all")} == {"some": "Unknown", "all": "Pending"}

    await until(ended)


async def _has(world: World, **wanted: str) -> bool:
    return {name: await _group(world, name) for name in wanted} == wanted


async def test_tasks_of_a_higher_priority_run_first(cluster: World) -> None:
    await cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", metadata={"name": "first"}, value=100)
    tasks = [task("second", 3, cpu="3"), task("first", 3, cpu="3")]
    tasks[1]["template"]["spec"]["priorityClassName"] = "first"
    await submit(cluster, *tasks, minAvailable=3)
    await reach(cluster, "Running")
    assert {name for name, each in (await pods(cluster)).items() if each["spec"].get("nodeName")} == {
        "j-first-0", "j-first-1", "j-first-2"
    }  # fmt: skip


async def test_objects_of_job_plugins(cluster: World) -> None:
    await submit(cluster, task(replicas=2), name="all", plugins={"ssh": ["--no-root"], "env": [], "svc": []})
    await submit(cluster, task(replicas=1), name="open", plugins={"svc": ["--disable-network-policy=true"]})
    await reach(cluster, "Running", "all")
    await reach(cluster, "Running", "open")
    place = "/api/v1/namespaces/default"
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    for path in (f"{place}/configmaps/all-svc", f"{place}/secrets/all-ssh", f"{place}/services/all",
                 f"{place}/services/open", f"{policies}/all"):  # fmt: skip
        assert await cluster.get(path) is not None, path
    assert await cluster.get(f"{policies}/open") is None
    pod = await cluster.get(f"{PODS}/all-t-1")
    assert {"all-svc", "all-ssh"} <= {each["name"] for each in pod["spec"]["volumes"]}
    variables = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
    assert {"VK_TASK_INDEX", "VC_TASK_INDEX", "VC_T_HOSTS", "VC_T_NUM"} <= variables


#: Plugin -> its arguments. The end of the task `main` completes the job.
FRAMEWORKS = {
    "mpi": ["--master=main", "--worker=rest", "--port=22"],
    "pytorch": ["--master=main", "--worker=rest", "--port=23456"],
    "tensorflow": ["--ps=rest", "--worker=main", "--port=2222"],
    "ray": ["--head=main", "--worker=rest", "--port=2345", "--headContainer=c", "--workerContainer=c"],
}


async def test_frameworks_run_and_complete(cluster: World) -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    for name, arguments in FRAMEWORKS.items():
        tasks = task("main", 1, cpu="100m", policies=policies), task("rest", 2, cpu="100m")
        await submit(cluster, *tasks, name=name, plugins={name: arguments, "svc": []}, minAvailable=3)
    for name in FRAMEWORKS:
        await reach(cluster, "Running", name)
        assert await cluster.get(f"/api/v1/namespaces/default/services/{name}") is not None
        await finish(cluster, f"{name}-main-0")
    for name in FRAMEWORKS:
        done = await reach(cluster, "Completed", name)
        assert [each["status"] for each in done["conditions"]] == ["Pending", "Running", "Completing", "Completed"]
