"""Admission of Volcano's objects in the embedded cluster."""

from __future__ import annotations

from typing import Any

from mooring.controllers.definitions import DEFINITIONS
from tests.apiserver.volcano_admission.reviewing import group, job, pod, queue, task
from tests.cluster.conftest import MERGE_PATCH, PODS, Answer, Client

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = {QUEUES: ("scheduling.volcano.sh/v1beta1", "Queue"), GROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
         JOBS: ("batch.volcano.sh/v1alpha1", "Job"), PODS: ("v1", "Pod")}  # fmt: skip


async def define(client: Client) -> None:
    for definition in DEFINITIONS:
        await client.create(DEFINED, definition)


async def post(client: Client, path: str, document: dict[str, Any], namespace: str = "default") -> Answer:
    version, kind = NAMES[path]
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    body = {"apiVersion": version, "kind": kind, **document, "metadata": metadata}
    return await client.ask("POST", path.replace("/default/", f"/{namespace}/"), body)


async def test_defaults_are_stored(client: Client) -> None:
    await define(client)
    made = (await post(client, JOBS, job({"replicas": 2, "template": task()["template"]}))).body["spec"]
    assert (made["queue"], made["schedulerName"], made["minAvailable"]) == ("default", "volcano", 2)
    assert made["tasks"][0]["name"] == "default0"
    made = (await post(client, QUEUES, queue("q"))).body["spec"]
    assert (made["weight"], made["reclaimable"]) == (1, True)
    annotation = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}}
    await client.ask("PATCH", "/api/v1/namespaces/default", annotation, content=MERGE_PATCH)
    assert (await post(client, GROUPS, group())).body["spec"]["queue"] == "q"


async def test_invalid_objects_are_refused(client: Client) -> None:
    await define(client)
    await post(client, QUEUES, queue("p", deserved={"cpu": "4"}))
    await post(client, QUEUES, queue("c", parent="p", deserved={"cpu": "3"}))
    for path, document, message in (
        (JOBS, job(minAvailable=2), "job 'minAvailable' should not be greater than total replicas in tasks"),
        (JOBS, job(queue="none"), 'unable to find job queue: queue.scheduling.volcano.sh "none" not found'),
        (JOBS, job(queue="p"), "can only submit job to leaf queue, queue `p` has 1 child queues"),
        (GROUPS, group(queue="none"), "unable to find queue"),
        (QUEUES, queue("d", parent="p", deserved={"cpu": "2"}), "sum of children's deserved"),
        (PODS, pod({"volcano.sh/jdb-min-available": "0"}), "must be a positive integer"),
    ):
        answer = await post(client, path, document)
        assert answer.status == 400
        assert 'admission webhook "validate' in answer.message
        assert message in answer.message


async def test_updates_and_deletions_are_refused(client: Client) -> None:
    await define(client)
    for name, parent in (("root", ""), ("default", "root"), ("p", "root"), ("c", "p")):
        assert (await post(client, QUEUES, queue(name, **({"parent": parent} if parent else {})))).status == 201
    for name, message in (
        ("root", "`root` queue can not be deleted"),
        ("default", "`default` queue can not be deleted"),
        ("p", "queue p can not be deleted because it has 1 child queues: c"),
    ):
        answer = await client.ask("DELETE", f"{QUEUES}/{name}")
        assert (answer.status, message in answer.message) == (400, True)
    assert (await client.ask("DELETE", f"{QUEUES}/c")).status == 200
    assert (await client.ask("DELETE", f"{QUEUES}/p")).status == 200
    change = {"spec": {"capability": {"cpu": "1"}}}
    answer = await client.ask("PATCH", f"{QUEUES}/root", change, content=MERGE_PATCH)
    assert "root queue's resource attributes" in answer.message
    await post(client, JOBS, job())
    answer = await client.ask("PATCH", f"{JOBS}/j", {"spec": {"queue": "other"}}, content=MERGE_PATCH)
    assert "job updates may not change fields other than" in answer.message
    status = {"status": {"state": {"phase": "Running"}}}
    assert (await client.ask("PATCH", f"{JOBS}/j/status", status, content=MERGE_PATCH)).status == 200


async def test_system_namespaces_are_exempt(client: Client) -> None:
    await define(client)
    assert (await post(client, JOBS, job(queue="none"), namespace="kube-system")).status == 201
