"""CronJobs."""

import datetime
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.apiserver.cron_schedule import parse_schedule
from mooring.cluster import EmbeddedCluster
from tests.cluster.conftest import Client, make
from tests.cluster.reconciling import items

CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def _moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "moment", "latest", "following"),
    [
        ("*/1 * * * ?", "", "2026-11-17T10:00:30Z", "2026-11-17T10:00:00Z", "2026-11-17T10:01:00Z"),
        ("30 9 * * *", "", "2026-11-17T10:00:00Z", "2026-11-17T09:30:00Z", "2026-11-18T09:30:00Z"),
        ("0 0 29 2 *", "", "2026-11-17T10:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 12 * jan,FEB mon-fri", "", "2026-02-27T12:00:00Z", "2026-02-27T12:00:00Z", "2027-01-01T12:00:00Z"),
        # A day matches if one of the two day fields does, unless one of them is `*`.
        ("0 0 13 * fri", "", "2026-11-14T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"),
        ("@hourly", "", "2026-11-17T10:59:59Z", "2026-11-17T10:00:00Z", "2026-11-17T11:00:00Z"),
        ("5-20/10,50 * * * *", "", "2026-11-17T10:20:00Z", "2026-11-17T10:15:00Z", "2026-11-17T10:50:00Z"),
        ("0 8 * * *", "Asia/Tokyo", "2026-11-17T10:00:00Z", "2026-11-16T23:00:00Z", "2026-11-17T23:00:00Z"),
    ],
)
def test_schedules(schedule: str, zone: str, moment: str, latest: str, following: str) -> None:
    found = parse_schedule(schedule, zone)
    assert found.latest(_moment(moment)) == _moment(latest)
    assert found.after(_moment(moment)) == _moment(following)


@pytest.mark.parametrize(
    ("schedule", "zone", "message"),
    [
        ("* * * *", "", "expected exactly 5 fields, found 4"),
        ("@every 5", "", "failed to parse duration @every 5"),
        ("60 * * * *", "", "end of range \\(60\\) above maximum \\(59\\)"),
        ("* * 0 * *", "", "beginning of range \\(0\\) below minimum \\(1\\)"),
        ("5-1 * * * *", "", "beyond end of range"),
        ("*/0 * * * *", "", "step of range"),
        ("x * * * *", "", "failed to parse int from x"),
        ("* * * * *", "Nowhere/Land", "unknown time zone Nowhere/Land"),
        ("* * * * *", "../../etc/passwd", "unknown time zone"),
    ],
)
def test_wrong_schedules(schedule: str, zone: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_schedule(schedule, zone)


def test_a_schedule_that_never_comes() -> None:
    found = parse_schedule("0 0 31 2 *")
    assert found.after(0.0) == float("inf")
    assert found.latest(0.0) == float("-inf")


class _Clock:
    """Stands still shortly before a full minute, and runs from shortly after it once it is released."""

    def __init__(self) -> None:
        self._released: float | None = None

    def __call__(self) -> float:
        if self._released is None:
            return 1_800_000_059.9
        return 1_800_000_060.1 + time.monotonic() - self._released

    def release(self) -> None:
        self._released = time.monotonic()


@pytest.fixture
async def late() -> AsyncIterator[tuple[Client, _Clock]]:
    """A cluster whose clock stands still shortly before a full minute."""
    clock = _Clock()
    cluster = EmbeddedCluster(clock=clock)
    await cluster.start()
    cluster.add_nodes(1)
    client = Client(cluster)
    try:
        yield client, clock
    finally:
        await client.close()
        await cluster.stop()


def _cron_job(**spec: Any) -> dict[str, Any]:
    inner = {"restartPolicy": "Never", "nodeName": "node-0", "containers": [{"name": "c", "image": "x"}]}
    annotations = {"mooring.dev/run-for": spec.pop("run_for", "10ms")}
    template = {"spec": {"template": {"metadata": {"annotations": annotations}, "spec": inner}}}
    return make("batch/v1", "CronJob", "c", spec={"schedule": "*/1 * * * ?", "jobTemplate": template, **spec})


async def _count(client: Client, count: int) -> bool:
    return len(await items(client, JOBS)) == count


async def test_a_job_is_created_at_the_time(late: tuple[Client, _Clock]) -> None:
    client, clock = late
    await client.create(CRON_JOBS, _cron_job())
    assert await items(client, JOBS) == []
    clock.release()
    await client.wait(lambda: _count(client, 1))
    (job,) = await items(client, JOBS)
    assert job["metadata"]["name"] == f"c-{1_800_000_060 // 60}"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]

    async def succeeded() -> bool:
        status = (await client.get(f"{CRON_JOBS}/c"))["status"]
        return "lastSuccessfulTime" in status and "active" not in status and "lastScheduleTime" in status

    await client.wait(succeeded)


async def test_a_suspended_cron_job_creates_nothing(late: tuple[Client, _Clock]) -> None:
    client, clock = late
    await client.create(CRON_JOBS, _cron_job(suspend=True))
    other = _cron_job()
    other["metadata"]["name"] = "other"
    await client.create(CRON_JOBS, other)
    clock.release()
    await client.wait(lambda: _count(client, 1))
    assert (await items(client, JOBS))[0]["metadata"]["name"].startswith("other-")


@pytest.mark.parametrize(("policy", "names"), [("Forbid", {"old"}), ("Replace", {"c"}), ("Allow", {"old", "c"})])
async def test_concurrency(late: tuple[Client, _Clock], policy: str, names: set[str]) -> None:
    """A Job that still runs keeps the next one from starting, is replaced, or runs beside it."""
    client, clock = late
    cron_job = await client.create(CRON_JOBS, _cron_job(concurrencyPolicy=policy, run_for="1h"))
    reference = {key: cron_job[key] for key in ("apiVersion", "kind")}
    reference |= {"name": "c", "uid": cron_job["metadata"]["uid"], "controller": True}
    old = make("batch/v1", "Job", "old", spec=cron_job["spec"]["jobTemplate"]["spec"])
    old["metadata"]["ownerReferences"] = [reference]
    await client.create(JOBS, old)
    other = _cron_job()
    other["metadata"]["name"] = "other"
    await client.create(CRON_JOBS, other)
    clock.release()

    async def decided() -> bool:
        found = [each["metadata"]["name"] for each in await items(client, JOBS)]
        return {each.rpartition("-")[0] or each for each in found} == names | {"other"}

    await client.wait(decided)
