"""`mooring queue`, `mooring job` and `mooring explain job`, with the controllers on the embedded cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from tests.controllers.jobs.job_world import CONFIG, reach, submit, task
from tests.controllers.world import World
from tests.waiting import until

__all__ = ["CONFIG"]


async def mooring(world: World, *arguments: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, main, [*arguments, "--kubeconfig", str(world.kubeconfig)], catch_exceptions=False
    )


async def as_json(world: World, *arguments: str) -> Any:
    done = await mooring(world, *arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


async def test_queues_are_listed_closed_and_opened(cluster: World) -> None:
    await cluster.queue("q", weight=3, capability={"cpu": "6"})
    await until(lambda: cluster.state("q"))
    found = {each["name"]: each for each in await as_json(cluster, "queue", "list")}
    assert found["q"]["weight"] == 3
    assert found["q"]["state"] == "Open"
    assert {"root", "default"} <= found.keys()
    table = (await mooring(cluster, "queue", "list")).output
    assert table.splitlines()[1].split() == [
        *("NAME", "WEIGHT", "STATE", "PARENT", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "COMPLETED", "CPU", "MEMORY")
    ]
    assert (await mooring(cluster, "queue", "close", "q")).exit_code == 0
    await until(lambda: is_state(cluster, "q", "Closed"))
    assert "Queue q: Closed, weight 3" in (await mooring(cluster, "queue", "get", "q")).output
    assert (await mooring(cluster, "queue", "open", "q")).exit_code == 0
    await until(lambda: is_state(cluster, "q", "Open"))
    shown = yaml.safe_load((await mooring(cluster, "queue", "get", "q", "-o", "yaml")).output)
    assert shown["capability"] == {"cpu": "6"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["queue", "get", "nowhere"], "there is no queue nowhere; there are: default, root"),
        (["queue", "close", "nowhere"], "there is no queue nowhere"),
        (["queue", "close", "root"], "the root queue cannot be closed"),
        (["job", "view", "nowhere"], "there is no job default/nowhere"),
        (["job", "suspend", "a/b"], "there is no job a/b"),
        (["job", "wait", "x", "--for", "Done"], "use one of Pending"),
        (["explain", "job", "a/b/c"], "give NAMESPACE/NAME"),
    ],
)
async def test_missing_objects_are_named(cluster: World, arguments: list[str], text: str) -> None:
    await until(lambda: cluster.state("default"))
    done = await mooring(cluster, *arguments)
    assert done.exit_code != 0
    assert text in done.output
    assert "Traceback" not in done.output


async def test_a_waiting_job_is_explained_and_a_running_one_is_shown(cluster: World) -> None:
    await submit(cluster, task(replicas=1, cpu="1"), name="small")
    done = await mooring(cluster, "job", "wait", "small", "--for", "Running")
    assert done.exit_code == 0, done.output
    await submit(cluster, task(replicas=3, cpu="3500m"), name="big")

    async def explained() -> Any:
        found = await as_json(cluster, "explain", "job", "big")
        return found if found.get("gate") == "nodes" and found.get("reasons") else None

    why = await until(explained)
    assert why["minMember"] == 3
    assert why["members"] == {"Pending": 3}
    cpu = next(each for each in why["room"] if each["resource"] == "cpu")
    assert (cpu["needed"], cpu["cluster"]) == (10500, 12000)
    assert any("nodes are unavailable" in reason for reason in why["reasons"])
    text = (await mooring(cluster, "job", "view", "big")).output
    assert "nodes gate" in text
    assert "at least 3 must start together" in text
    rows = {each["name"]: each for each in await as_json(cluster, "job", "list")}
    assert (rows["small"]["phase"], rows["small"]["running"]) == ("Running", 1)
    assert rows["big"]["waiting"]
    assert await as_json(cluster, "explain", "job", "small") == {"waits": False}
    # Explaining a pod of a gang explains the gang.
    pod = await mooring(cluster, "explain", "pod", "big-t-0", "--scheduler", "https://127.0.0.1:1")
    assert "nodes gate" in pod.output


async def test_suspend_and_resume_a_job(cluster: World) -> None:
    await submit(cluster, task(replicas=1))
    await reach(cluster, "Running")
    assert "AbortJob requested" in (await mooring(cluster, "job", "suspend", "j")).output
    assert (await mooring(cluster, "job", "wait", "default/j", "--for", "Aborted")).exit_code == 0
    assert (await as_json(cluster, "explain", "job", "j"))["gate"] == "job"
    assert (await mooring(cluster, "job", "resume", "j")).exit_code == 0
    await reach(cluster, "Running")
    late = await mooring(cluster, "job", "wait", "j", "--for", "Failed", "--timeout", "0.5")
    assert late.exit_code == 1
    assert "is Running after 0.5 s, not Failed" in late.output


async def is_state(world: World, name: str, state: str) -> bool:
    return await world.state(name) == state
