"""`mooring job` and `mooring queue`: creating and deleting objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mooring.cli.main import main
from tests.controllers.world import GROUPS, JOBS, QUEUES, World, a_world

MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: second}
spec:
  tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]
"""


async def mooring(world: World, *arguments: str) -> Result:
    given = [*arguments, "--kubeconfig", str(world.kubeconfig)]
    return await asyncio.to_thread(CliRunner().invoke, main, given)


async def output(world: World, *arguments: str) -> str:
    done = await mooring(world, *arguments)
    assert done.exit_code == 0, done.output
    return done.output.strip()


async def test_jobs_and_queues_are_created_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST)
    (tmp_path / "other.yaml").write_text("kind: Pod\napiVersion: v1\n")
    async with a_world(tmp_path, nodes=0) as world:
        assert await output(world, "queue", "create", "research", "--weight", "4") == "queue research: created"
        assert (await world.get(f"{QUEUES}/research"))["spec"]["weight"] == 4
        run = ("job", "run", "first", "-r", "3", "-m", "2", "-R", "cpu=2", "-L", "", "-q", "research")
        assert await output(world, *run) == "job default/first: created"
        spec: dict[str, Any] = (await world.get(f"{JOBS}/first"))["spec"]
        assert (spec["minAvailable"], spec["queue"], spec["tasks"][0]["replicas"]) == (2, "research", 3)
        container = spec["tasks"][0]["template"]["spec"]["containers"][0]
        assert (container["image"], container["resources"]) == ("busybox", {"requests": {"cpu": "2"}, "limits": {}})
        assert await output(world, "job", "create", "-f", str(tmp_path / "job.yaml")) == "job default/second: created"
        assert "expected jobs" in (await mooring(world, "job", "create", "-f", str(tmp_path / "other.yaml"))).output
        assert "write amounts as in" in (await mooring(world, "job", "run", "x", "-R", "cpu")).output
        assert await output(world, "job", "delete", "first") == "job default/first: deleted"
        assert await world.get(f"{JOBS}/first") is None
        assert "there is no job default/first" in (await mooring(world, "job", "delete", "first")).output

        await world.group("g", queue="research")
        refused = await mooring(world, "queue", "delete", "research")
        assert "queue research cannot be deleted: it has pod groups: default/g" in refused.output
        await world.client.send("DELETE", f"{GROUPS}/g")
        assert await output(world, "queue", "delete", "research") == "queue research: deleted"
        assert "there is no queue research" in (await mooring(world, "queue", "delete", "research")).output
        assert "the default queue cannot be deleted" in (await mooring(world, "queue", "delete", "default")).output


async def test_the_options_of_vcctl_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MANIFEST)
    async with a_world(tmp_path, nodes=0) as world:
        assert await output(world, "queue", "create", "-n", "research") == "queue research: created"
        assert "the weight is 7" in await output(world, "queue", "operate", "-n", "research", "-a", "update", "-w", "7")
        assert (await world.get(f"{QUEUES}/research"))["spec"]["weight"] == 7
        for action, requested in (("close", "CloseQueue requested"), ("open", "OpenQueue requested")):
            assert requested in await output(world, "queue", "operate", "--name", "research", "--action", action)
        assert await output(world, "job", "run", "--name", "first", "-n", "default") == "job default/first: created"
        run = ("job", "run", "--filename", str(tmp_path / "job.yaml"))
        assert await output(world, *run) == "job default/second: created"
        assert await output(world, "job", "delete", "-N", "first") == "job default/first: deleted"
        assert await output(world, "queue", "delete", "--name", "research") == "queue research: deleted"
        for wrong, message in (
            (("job", "delete"), "Give one name"),
            (("job", "delete", "a", "--name", "b"), "Give one name"),
            (("job", "run"), "Give a name or --filename"),
            (("job", "run", "a", "-f", "b.yaml"), "Give a name or --filename"),
            (("queue", "operate", "a", "-a", "update"), "--weight belongs to"),
            (("queue", "operate", "a", "-a", "close", "-w", "2"), "--weight belongs to"),
            (("queue", "operate", "a", "-a", "update", "-w", "2"), "there is no queue a"),
        ):
            assert message in (await mooring(world, *wrong)).output
