"""CronJobs of Volcano: jobs by schedule, concurrency, history and status."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.controllers.manager import ControllerManager, ManagerSettings
from mooring.kube import load_access
from tests.controllers.running import running
from tests.controllers.world import JOBS, World
from tests.waiting import until

CRONS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/cronjobs"


class Clock:
    """Real time, and some time added."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
async def clock(world: World) -> AsyncIterator[Clock]:
    found = Clock()
    settings = ManagerSettings(qps=0)
    manager = ControllerManager(load_access(kubeconfig=str(world.kubeconfig)), settings, clock=found)
    async with running(manager.run(), manager.ready):
        yield found


async def create(world: World, **spec: Any) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    job = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    await world.post(
        CRONS,
        apiVersion="batch.volcano.sh/v1alpha1",
        kind="CronJob",
        metadata={"name": "c"},
        spec={"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": job}, **spec},
    )


async def later(world: World, clock: Clock, seconds: float = 60.0) -> None:
    """Let time pass, and change the CronJob, because reconciliations wait in real time."""
    clock.ahead += seconds
    await world.merge(f"{CRONS}/c", {"metadata": {"annotations": {"time": str(clock.ahead)}}})


async def names(world: World) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await world.items(JOBS))


async def status(world: World) -> dict[str, Any]:
    return dict((await world.get(f"{CRONS}/c")).get("status") or {})


async def has_jobs(world: World, count: int) -> bool:
    return len(await names(world)) == count and len((await status(world)).get("active", ())) <= count


async def events(world: World) -> set[str]:
    return {each["reason"] for each in await world.items("/api/v1/events")}


async def finish(world: World, name: str, phase: str = "Completed") -> None:
    state = {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await world.merge(f"{JOBS}/{name}/status", {"status": {"state": state}})


async def test_jobs_are_created_by_schedule(world: World, clock: Clock) -> None:
    await create(world)
    await later(world, clock)
    await until(lambda: has_jobs(world, 1))
    (name,) = await names(world)
    minute = int(name.removeprefix("c-"))
    job = await world.get(f"{JOBS}/{name}")
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"].endswith("00Z")
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    await until(lambda: _active(world, [name]))
    assert (await status(world))["lastScheduleTime"] == time.strftime("%Y-%m-%dT%H:%M:00Z", time.gmtime(minute * 60))
    await later(world, clock)
    await until(lambda: has_jobs(world, 2))
    await finish(world, name)
    await until(lambda: _succeeded(world))
    assert {"SuccessfulCreate", "SawCompletedJob"} <= await until(lambda: events(world))


async def _active(world: World, wanted: list[str]) -> bool:
    return [each["name"] for each in (await status(world)).get("active", ())] == wanted


async def _succeeded(world: World) -> bool:
    return (await status(world)).get("lastSuccessfulTime") == "2026-01-01T00:00:00Z"


async def test_finished_jobs_are_deleted_beyond_the_limit(world: World, clock: Clock) -> None:
    await create(world, successfulJobsHistoryLimit=1)
    for count in (1, 2):
        await later(world, clock)
        await until(lambda count=count: has_jobs(world, count))
    first, second = await names(world)
    await finish(world, first)
    await finish(world, second)
    await until(lambda: _only(world, second))


async def _only(world: World, name: str) -> bool:
    return await names(world) == [name]


@pytest.mark.parametrize(("policy", "kept"), [("Forbid", True), ("Replace", False)])
async def test_concurrency(world: World, clock: Clock, policy: str, kept: bool) -> None:
    await create(world, concurrencyPolicy=policy)
    await later(world, clock)
    await until(lambda: has_jobs(world, 1))
    (first,) = await names(world)
    await until(lambda: _active(world, [first]))
    await later(world, clock)
    await until(lambda: _has_event(world, f"{policy}Concurrent"))
    if kept:
        assert await names(world) == [first]
    else:
        await until(lambda: _replaced(world, first))


async def _has_event(world: World, reason: str) -> bool:
    return reason in await events(world)


async def _replaced(world: World, first: str) -> bool:
    found = await names(world)
    return len(found) == 1 and found != [first]


async def test_a_suspended_or_invalid_one_creates_nothing(world: World, clock: Clock) -> None:
    world.without_admission()
    await create(world, schedule="61 * * * *")
    await until(lambda: _has_event(world, "UnParseableCronJobSchedule"))
    await world.merge(f"{CRONS}/c", {"spec": {"schedule": "* * * * *", "timeZone": "Nowhere/City"}})
    await until(lambda: _has_event(world, "InvalidTimeZone"))
    await world.merge(f"{CRONS}/c", {"spec": {"timeZone": "Europe/Berlin", "suspend": True}})
    await later(world, clock)
    assert await names(world) == []
    await world.merge(f"{CRONS}/c", {"spec": {"suspend": False}})
    await until(lambda: has_jobs(world, 1))


async def test_intervals_start_at_the_creation_and_the_last_job(world: World, clock: Clock) -> None:
    await create(world, schedule="@every 5m")
    await later(world, clock, 240)
    assert await names(world) == []
    await later(world, clock, 90)
    await until(lambda: has_jobs(world, 1))
    await later(world, clock, 300)
    await until(lambda: has_jobs(world, 2))


async def test_only_the_last_of_many_missed_times_counts(world: World, clock: Clock) -> None:
    clock.ahead = 3 * 3600.0
    await create(world)
    await until(lambda: _has_event(world, "TooManyMissedTimes"))
    await until(lambda: has_jobs(world, 1))
