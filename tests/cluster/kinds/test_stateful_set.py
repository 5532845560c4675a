"""StatefulSets."""

from typing import Any

from tests.cluster.conftest import PODS, STRATEGIC_PATCH, Client, make, template

STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"


CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


SELECTOR = {"matchLabels": {"a": "b"}}


NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}


async def _pods(client: Client) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in (await client.get(PODS))["items"]}


async def _until(client: Client, path: str, holds: Any, started: list[str] | None = None) -> Any:
    """Wait until an object is as it should be; meanwhile every pod is bound, to its own node if it has one."""

    async def nested_field() -> Any:
        for name, pod in (await _pods(client)).items():
            if not pod["spec"].get("nodeName"):
                if started is not None:
                    started.append(name)
                await client.bind(name, _node(pod))
        answer = await client.ask("GET", path)
        return answer.body if answer.status == 200 and holds(answer.body) else None

    return await client.wait(nested_field)


def _node(pod: dict[str, Any]) -> str:
    affinity = pod["spec"].get("affinity")
    if not affinity:
        return "node-0"
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _stateful_set(**spec: Any) -> dict[str, Any]:
    given = {"replicas": 3, "serviceName": "s", "selector": SELECTOR, "template": template(a="b"), **spec}
    return make("apps/v1", "StatefulSet", "s", spec=given)


def _is_done(document: dict[str, Any]) -> bool:
    status, wanted = document["status"], document["spec"]["replicas"]
    counts = {status.get(key, 0) for key in ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")}
    seen = status.get("observedGeneration") == document["metadata"]["generation"]
    return seen and counts == {wanted} and status["currentRevision"] == status["updateRevision"]


async def test_stateful_sets_start_in_order_with_claims_of_their_own(live: Client) -> None:
    """The next pod is made when the one before it is ready; names, labels and claims bear its number."""
    claim = make("v1", "PersistentVolumeClaim", "data")
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await live.create(STATEFUL_SETS, _stateful_set(volumeClaimTemplates=[claim]))
    started: list[str] = []
    await _until(live, f"{STATEFUL_SETS}/s", _is_done, started)
    assert started == ["s-0", "s-1", "s-2"]
    second = (await _pods(live))["s-1"]
    assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("s-1", "s")
    assert second["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert second["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}
    claims = [each["metadata"]["name"] for each in (await live.get(CLAIMS))["items"]]
    assert claims == ["data-s-0", "data-s-1", "data-s-2"]


async def test_stateful_sets_shrink_and_roll_from_the_last(live: Client) -> None:
    """A partition keeps the first ones as they are."""
    await live.create(STATEFUL_SETS, _stateful_set(podManagementPolicy="Parallel"))
    await _until(live, f"{STATEFUL_SETS}/s", _is_done)
    partition = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
    await live.patch(f"{STATEFUL_SETS}/s", {"spec": {**NEW_IMAGE["spec"], **partition}})
    await _until(live, f"{STATEFUL_SETS}/s", lambda each: each["status"].get("updatedReplicas") == 1)
    images = {name: each["spec"]["containers"][0]["image"] for name, each in (await _pods(live)).items()}
    assert images == {"s-0": "busybox", "s-1": "busybox", "s-2": "new"}
    await live.patch(f"{STATEFUL_SETS}/s", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    started: list[str] = []
    await _until(live, f"{STATEFUL_SETS}/s", _is_done, started)
    assert started == ["s-1", "s-0"]
    await live.patch(f"{STATEFUL_SETS}/s", {"spec": {"replicas": 1}})
    await _until(live, f"{STATEFUL_SETS}/s", _is_done)
    assert list(await _pods(live)) == ["s-0"]


async def test_pods_below_the_partition_keep_the_old_revision(live: Client) -> None:
    """Also if they are deleted, as in Kubernetes' own test of canary updates; a rollback goes back to it."""
    await live.create(STATEFUL_SETS, _stateful_set(podManagementPolicy="Parallel"))
    first = await _until(live, f"{STATEFUL_SETS}/s", _is_done)
    partition = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
    await live.patch(f"{STATEFUL_SETS}/s", {"spec": {**NEW_IMAGE["spec"], **partition}}, STRATEGIC_PATCH)
    updated = await _until(live, f"{STATEFUL_SETS}/s", lambda each: each["status"].get("updatedReplicas") == 1)
    status = updated["status"]
    assert status["currentRevision"] == first["status"]["currentRevision"] != status["updateRevision"]
    uids = {name: each["metadata"]["uid"] for name, each in (await _pods(live)).items()}
    for name in ("s-0", "s-2"):
        await live.delete(f"{PODS}/{name}")
        await _until(live, f"{PODS}/{name}", lambda each: each["metadata"]["uid"] not in uids.values())
    images = {name: each["spec"]["containers"][0]["image"] for name, each in (await _pods(live)).items()}
    assert images == {"s-0": "busybox", "s-1": "busybox", "s-2": "new"}
    path = f"/apis/apps/v1/namespaces/default/controllerrevisions/{status['currentRevision']}"
    await live.patch(f"{STATEFUL_SETS}/s", (await live.get(path))["data"], STRATEGIC_PATCH)
    done = await _until(live, f"{STATEFUL_SETS}/s", _is_done)
    assert done["status"]["currentRevision"] == first["status"]["currentRevision"]
    assert (await live.get(path))["revision"] == 3
    images = {name: each["spec"]["containers"][0]["image"] for name, each in (await _pods(live)).items()}
    assert set(images.values()) == {"busybox"}
