"""Jobs on the embedded cluster: a world with a scheduler and the controllers, and helpers that submit jobs to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mooring.config import load_config
from mooring.kube import load_access
from mooring.live import LiveScheduler
from mooring.live.batch.batch_settings import BatchSettings
from tests.controllers.running import running
from tests.controllers.world import JOBS, PODS, World, controllers
from tests.waiting import until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""


@contextlib.asynccontextmanager
async def sessions(world: World) -> AsyncIterator[None]:
    """Run a scheduler."""
    batch = BatchSettings(schedule_period=0.1)
    access = load_access(kubeconfig=str(world.kubeconfig))
    scheduler = LiveScheduler(load_config(CONFIG, source="test"), access, batch=batch)
    async with running(scheduler.run(), scheduler.ready):
        yield


@contextlib.asynccontextmanager
async def scheduling(world: World) -> AsyncIterator[None]:
    """Run a scheduler and the controllers."""
    async with sessions(world), controllers(world):
        yield


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


async def empty(world: World, path: str) -> bool:
    return not await world.items(path)


async def names(world: World, wanted: list[str]) -> bool:
    return sorted(await pods(world)) == wanted
