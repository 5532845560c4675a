"""Jobs."""

from typing import Any

from tests.cluster.conftest import PODS, Client, make, template
from tests.cluster.reconciling import items, until

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def _job(**spec: Any) -> dict[str, Any]:
    inner = template()
    inner["spec"]["restartPolicy"] = "Never"
    inner["metadata"]["annotations"] = {"mooring.dev/run-for": "10ms", **spec.pop("annotations", {})}
    return make("batch/v1", "Job", "j", spec={"template": inner, **spec})


def _ended(kind: str) -> Any:
    return lambda job: any(each["type"] == kind for each in job["status"].get("conditions", ()))


async def test_jobs_run_to_completion(live: Client) -> None:
    """So many in all, so many at once; what ended is counted once."""
    await live.create(JOBS, _job(completions=5, parallelism=2))
    done = await until(live, f"{JOBS}/j", _ended("Complete"))
    assert done["status"]["succeeded"] == 5
    assert done["status"]["completionTime"]
    pods = await items(live, PODS)
    assert [each["status"]["phase"] for each in pods] == ["Succeeded"] * 5
    assert not any(each["metadata"].get("finalizers") for each in pods)


async def test_indexed_jobs_give_each_pod_its_number(live: Client) -> None:
    """Every index is done once."""
    await live.create(JOBS, _job(completions=3, parallelism=3, completionMode="Indexed"))
    done = await until(live, f"{JOBS}/j", _ended("Complete"))
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (3, "0-2")
    labels = [each["metadata"]["labels"] for each in await items(live, PODS)]
    assert sorted(each["batch.kubernetes.io/job-completion-index"] for each in labels) == ["0", "1", "2"]


async def test_jobs_give_up_after_their_limit(live: Client) -> None:
    """And say why."""
    await live.create(JOBS, _job(backoffLimit=0, annotations={"mooring.dev/exit-code": "3"}))
    failed = await until(live, f"{JOBS}/j", _ended("Failed"))
    assert failed["status"]["failed"] == 1
    assert failed["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    state = (await items(live, PODS))[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (3, "Error")


async def test_suspended_jobs_wait(live: Client) -> None:
    """Until they are resumed."""
    await live.create(JOBS, _job(suspend=True))
    await until(live, f"{JOBS}/j", _ended("Suspended"))
    assert await items(live, PODS) == []
    await live.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
    await until(live, f"{JOBS}/j", _ended("Complete"))


async def test_jobs_adopt_and_release_pods(live: Client) -> None:
    """As Kubernetes' own test does: without its labels a pod is released, with them an orphan is adopted."""
    spec = {"template": {**template(), "spec": {**template()["spec"], "restartPolicy": "Never"}}, "parallelism": 1}
    spec["template"]["metadata"] = {"annotations": {"mooring.dev/run-for": "1h"}}
    await live.create(JOBS, make("batch/v1", "Job", "j", spec=spec))
    await until(live, f"{JOBS}/j", lambda each: each["status"].get("ready") == 1)
    (before,) = await items(live, PODS)
    path, labels = f"{PODS}/{before['metadata']['name']}", before["metadata"]["labels"]
    await live.patch(path, {"metadata": {"ownerReferences": None}})
    await until(live, path, lambda each: each["metadata"].get("ownerReferences"))
    await live.patch(path, {"metadata": {"labels": dict.fromkeys(labels)}})
    released = await until(live, path, lambda each: "ownerReferences" not in each["metadata"])
    assert "finalizers" not in released["metadata"]
