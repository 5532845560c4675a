"""PodGroups for pods that have none, on the embedded cluster."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import GROUPS, PODS, World, controllers
from tests.waiting import until

ANNOTATION = "scheduling.k8s.io/group-name"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"


async def test_a_pod_without_owner_gets_its_own_pod_group(world: World) -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true", "other": "x"}
    await world.queue("q")
    pod = await world.pod("p", cpu="1500m", annotations=annotations)
    async with controllers(world):
        name = await until(lambda: group_of(world, "p"))
    uid = pod["metadata"]["uid"]
    assert name == f"podgroup-{uid}"
    group = await world.get(f"{GROUPS}/{name}")
    assert group["spec"]["minMember"] == 1
    assert group["spec"]["queue"] == "q"
    assert group["spec"]["minResources"] == {
        "count/pods": "1",
        "cpu": "1500m",
        "pods": "1",
        "requests.cpu": "1500m",
    }
    assert group["status"]["phase"] == "Pending"
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    owner = group["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", uid, True)


async def test_pods_of_other_schedulers_and_pods_with_a_group_are_ignored(world: World) -> None:
    await world.pod("other", scheduler="default-scheduler")
    await world.pod("grouped", annotations={ANNOTATION: "mine"})
    async with controllers(world):
        await world.pod("last")
        await until(lambda: group_of(world, "last"))
    assert len(await world.items(GROUPS)) == 1
    assert await group_of(world, "other") is None
    assert await group_of(world, "grouped") == "mine"


async def test_the_pods_of_a_deployment_share_a_group_with_its_annotations(world: World) -> None:
    async with controllers(world):
        await world.post(DEPLOYMENTS, **workload("Deployment", replicas=3, least="2"))
        pods = await until(lambda: grouped(world, 3))
        names = {each["metadata"]["annotations"][ANNOTATION] for each in pods}
        assert len(names) == 1
        group = await world.get(f"{GROUPS}/{names.pop()}")
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["cpu"] == "2"
    assert group["metadata"]["annotations"]["volcano.sh/sla-waiting-time"] == "1h"
    assert group["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


async def test_the_group_of_a_stateful_set_follows_its_replicas(world: World) -> None:
    async with controllers(world):
        await world.post(SETS, **workload("StatefulSet", replicas=2, least="1", podManagementPolicy="Parallel"))
        pods = await until(lambda: grouped(world, 2))
        name = pods[0]["metadata"]["annotations"][ANNOTATION]
        key = "scheduling.volcano.sh/group-min-member"
        await world.merge(f"{SETS}/w", {"metadata": {"annotations": {key: "2"}}})
        await until(lambda: has_least(world, name, 2))
        await world.merge(f"{SETS}/w", {"spec": {"replicas": 0}})
        await until(lambda: is_gone(world, name))


async def test_a_namespace_annotation_sets_the_queue(world: World) -> None:
    await world.merge(
        "/api/v1/namespaces/default", {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "theirs"}}}
    )
    await world.queue("theirs")
    await world.pod("p")
    async with controllers(world):
        name = await until(lambda: group_of(world, "p"))
    assert (await world.get(f"{GROUPS}/{name}"))["spec"]["queue"] == "theirs"


async def test_the_group_is_deleted_with_its_pod(world: World) -> None:
    await world.pod("p")
    async with controllers(world):
        name = await until(lambda: group_of(world, "p"))
        await world.client.send("DELETE", f"{PODS}/p")
        await until(lambda: is_gone(world, name))


def workload(kind: str, *, replicas: int, least: str, **spec: Any) -> dict[str, Any]:
    annotations = {"scheduling.volcano.sh/group-min-member": least, "volcano.sh/sla-waiting-time": "1h"}
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "annotations": annotations},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": template, **spec},
    }


async def group_of(world: World, name: str) -> str | None:
    pod = await world.get(f"{PODS}/{name}")
    found: str | None = pod["metadata"].get("annotations", {}).get(ANNOTATION)
    return found


async def grouped(world: World, count: int) -> list[dict[str, Any]]:
    pods = await world.items(PODS)
    found = [each for each in pods if ANNOTATION in each["metadata"].get("annotations", {})]
    return found if len(found) == count else []


async def has_least(world: World, name: str, least: int) -> bool:
    return (await world.get(f"{GROUPS}/{name}"))["spec"]["minMember"] == least


async def is_gone(world: World, name: str) -> bool:
    return await world.get(f"{GROUPS}/{name}") is None


async def test_groups_of_kubernetes_jobs_complete_with_them(cluster: World) -> None:
    """Also if the job fails, as in Volcano."""
    for name, code in (("works", "0"), ("fails", "1")):
        annotations = {"mooring.dev/run-for": "50ms", "mooring.dev/exit-code": code}
        spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        template = {"metadata": {"annotations": annotations}, "spec": spec}
        await cluster.post(
            "/apis/batch/v1/namespaces/default/jobs",
            metadata={"name": name},
            spec={"parallelism": 1, "backoffLimit": 0, "template": template},
        )

    async def completed() -> bool:
        groups = await cluster.items(GROUPS)
        return [each["status"].get("phase") for each in groups] == ["Completed", "Completed"]

    await until(completed)
