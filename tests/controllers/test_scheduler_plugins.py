"""PodGroups and ElasticQuotas of scheduler-plugins: phases, and both controllers on the embedded cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mooring.controllers import scheduler_plugins
from mooring.controllers.manager import ControllerManager, ManagerSettings
from mooring.controllers.scheduler_plugins import Counts, next_phase
from mooring.framework.custom_definitions import definition_of
from mooring.kube import load_access
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup
from tests.controllers.running import running
from tests.controllers.world import PODS, World
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default"


@pytest.mark.parametrize(
    ("phase", "counts", "after"),
    [
        ("", Counts(9, 9), "Pending"),
        ("Pending", Counts(2), "Pending"),
        ("Pending", Counts(3, 3), "Scheduling"),
        ("Scheduling", Counts(3), "Scheduling"),
        ("Scheduling", Counts(3, 2), "Scheduling"),
        ("Scheduling", Counts(3, 3), "Running"),
        ("Scheduling", Counts(3, 1, 2), "Running"),
        ("Scheduling", Counts(2, 2), "Pending"),
        ("Running", Counts(3, 1, 1), "Scheduling"),
        ("Running", Counts(3, 1, 1, 1), "Failed"),
        ("Running", Counts(4, 2, 0, 1), "Failed"),
        ("Scheduling", Counts(4, 1, 0, 1), "Scheduling"),
        ("Running", Counts(3, 0, 3), "Finished"),
        ("Running", Counts(4, 0, 3, 1), "Finished"),
        ("Finished", Counts(), "Finished"),
        ("Failed", Counts(3, 3), "Failed"),
    ],
)
def test_next_phase(phase: str, counts: Counts, after: str) -> None:
    assert next_phase(phase, 3, counts) == after


@contextlib.asynccontextmanager
async def controllers(world: World) -> AsyncIterator[None]:
    reconcilers = await scheduler_plugins.served_reconcilers(world.client)
    access = load_access(kubeconfig=str(world.kubeconfig))
    manager = ControllerManager(access, ManagerSettings(qps=0), reconcilers=reconcilers)
    async with running(manager.run(), manager.ready):
        yield


async def define(world: World) -> None:
    for kind in (PodGroup, ElasticQuota):
        await world.post(DEFINITIONS, **definition_of(kind))


async def make(world: World, plural: str, kind: str, **spec: Any) -> None:
    about = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "it"}}
    await world.post(f"{API}/{plural}", **about, spec=spec)


async def run_pod(world: World, name: str, cpu: str = "1", **metadata: Any) -> None:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec = {"nodeName": "node-0", "containers": [{"name": "app", "image": "app", "resources": resources}],
            "overhead": {}, "terminationGracePeriodSeconds": 0}  # fmt: skip
    await world.post(PODS, apiVersion="v1", kind="Pod", metadata={"name": name, **metadata}, spec=spec)


async def status(world: World, plural: str) -> dict[str, Any]:
    found = await world.get(f"{API}/{plural}/it")
    return dict(found.get("status") or {})


async def test_only_controllers_of_served_kinds_run(world: World) -> None:
    assert await scheduler_plugins.served_reconcilers(world.client) == ()
    await define(world)
    assert await scheduler_plugins.served_reconcilers(world.client) == (
        scheduler_plugins.SchedulerPluginsPodGroupReconciler,
        scheduler_plugins.ElasticQuotaReconciler,
    )


async def test_a_pod_group_passes_through_its_phases(world: World) -> None:
    await define(world)
    await make(world, "podgroups", "PodGroup", minMember=2)
    async with controllers(world):

        async def is_now(**wanted: Any) -> bool:
            return wanted.items() <= (await status(world, "podgroups")).items()

        await until(lambda: is_now(phase="Pending"))
        for number in range(2):
            await run_pod(world, f"a-{number}", labels={LABEL: "it"})
        await until(lambda: is_now(phase="Running", running=2))
        await world.client.send("DELETE", f"{PODS}/a-0")
        await until(lambda: is_now(phase="Pending", running=1))


def test_occupied_by_names_the_owners_of_the_first_pod() -> None:
    def member(name: str, *owners: str) -> scheduler_plugins.GroupPod:
        references = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner} for owner in owners]
        return msgspec.convert({"metadata": {"name": name, "ownerReferences": references}}, scheduler_plugins.GroupPod)

    members = {pod.key: pod for pod in (member("b", "later"), member("a", "train", "app"))}
    assert scheduler_plugins._owners(members) == "default/app,default/train"
    assert scheduler_plugins._owners({"a": member("a")}) == ""
    assert scheduler_plugins._owners({}) == ""


async def test_a_quota_shows_the_usage_of_running_pods(world: World) -> None:
    await define(world)
    await make(world, "elasticquotas", "ElasticQuota", min={"cpu": "4", "nvidia.com/gpu": 1}, max={"memory": "9Gi"})
    async with controllers(world):

        async def used(**wanted: str) -> bool:
            return (await status(world, "elasticquotas")).get("used") == {"nvidia.com/gpu": "0", **wanted}

        await until(lambda: used(cpu="0", memory="0"))
        await run_pod(world, "a", cpu="1500m")
        await run_pod(world, "b")
        await until(lambda: used(cpu="2500m", memory="2Gi"))
        await world.client.send("DELETE", f"{PODS}/b")
        await until(lambda: used(cpu="1500m", memory="1Gi"))
