"""JobFlows create jobs in the order of their dependencies; JobTemplates list their jobs."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import JOBS, World, controllers
from tests.waiting import until

BASE = "/apis/flow.volcano.sh/v1alpha1/namespaces/default"
HEAD = {"apiVersion": "flow.volcano.sh/v1alpha1"}


async def template(world: World, name: str) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": pod}]}
    await world.post(f"{BASE}/jobtemplates", **HEAD, kind="JobTemplate", metadata={"name": name}, spec=spec)


async def flow(world: World, *steps: dict[str, Any], **spec: Any) -> None:
    body = {"flows": list(steps), "jobRetainPolicy": "retain", **spec}
    await world.post(f"{BASE}/jobflows", **HEAD, kind="JobFlow", metadata={"name": "f"}, spec=body)


def step(name: str, *targets: str) -> dict[str, Any]:
    return {"name": name, **({"dependsOn": {"targets": list(targets)}} if targets else {})}


async def jobs(world: World, *wanted: str) -> bool:
    return sorted(each["metadata"]["name"] for each in await world.items(JOBS)) == sorted(wanted)


async def phase(world: World, wanted: str) -> dict[str, Any] | None:
    found: dict[str, Any] = (await world.get(f"{BASE}/jobflows/f")).get("status") or {}
    return found if found.get("state", {}).get("phase") == wanted else None


async def set_phase(world: World, name: str, wanted: str) -> None:
    await world.merge(f"{JOBS}/{name}/status", {"status": {"state": {"phase": wanted}}})


async def test_jobs_follow_their_dependencies(world: World) -> None:
    async with controllers(world):
        for name in "abc":
            await template(world, name)
        await flow(world, step("a"), step("b", "a"), step("c", "a", "b"), jobRetainPolicy="delete")
        await until(lambda: jobs(world, "f-a"))
        made = await world.get(f"{JOBS}/f-a")
        marks = {"volcano.sh/createdByJobTemplate": "default.a", "volcano.sh/createdByJobFlow": "default.f"}
        assert (made["metadata"]["labels"], made["metadata"]["annotations"]) == (marks, marks)
        await until(lambda: phase(world, "Pending"))
        await set_phase(world, "f-a", "Running")
        await until(lambda: phase(world, "Running"))
        await set_phase(world, "f-a", "Completed")
        await until(lambda: jobs(world, "f-a", "f-b"))
        await set_phase(world, "f-b", "Completed")
        await until(lambda: jobs(world, "f-a", "f-b", "f-c"))
        listed = await until(lambda: world.get(f"{BASE}/jobtemplates/c"))
        await until(lambda: _lists(world, "c", ["f-c"]))
        assert listed["kind"] == "JobTemplate"
        await set_phase(world, "f-c", "Completed")
        status = await until(lambda: phase(world, "Succeed"))
        assert status["completedJobs"] == ["f-a", "f-b", "f-c"]
        history = [each["state"] for each in status["jobStatusList"][0]["runningHistories"]]
        assert history == ["Pending", "Running", "Completed"]
        await until(lambda: jobs(world))


async def _lists(world: World, name: str, wanted: list[str]) -> bool:
    found = await world.get(f"{BASE}/jobtemplates/{name}")
    return bool((found.get("status") or {}).get("jobDependsOnList") == wanted)


async def test_a_flow_that_waits_for_its_template_has_no_status(world: World) -> None:
    """As in Volcano: its suite changes such a flow right after its creation, which a written status would refuse."""
    async with controllers(world):
        await flow(world, step("lost"))

        async def reported() -> bool:
            return any("does not exist" in each["message"] for each in await world.items("/api/v1/events"))

        await until(reported)
        assert not (await world.get(f"{BASE}/jobflows/f")).get("status")


async def test_a_failed_job_fails_the_flow_and_a_missing_template_is_reported(world: World) -> None:
    async with controllers(world):
        await template(world, "a")
        await flow(world, step("a"), step("lost"))

        async def reported() -> bool:
            found = await world.items("/api/v1/events")
            return any(each["message"] == 'JobTemplate "lost" does not exist' for each in found)

        await until(reported)
        await until(lambda: jobs(world, "f-a"))
        await set_phase(world, "f-a", "Failed")
        status = await until(lambda: phase(world, "Failed"))
        assert status["failedJobs"] == ["f-a"]
