"""What happens by itself: workloads make their pods, owners take what they own along, budgets are counted."""

from typing import Any

from tests.cluster.conftest import PODS, Client, make, pod, template

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SELECTOR = {"matchLabels": {"a": "b"}}


async def _items(client: Client, path: str) -> list[dict[str, Any]]:
    return list((await client.get(path))["items"])


async def _bind_all(client: Client) -> None:
    """A scheduler that puts everything on one node."""
    for each in await _items(client, f"{PODS}?fieldSelector=spec.nodeName%3D"):
        await client.bind(each["metadata"]["name"], "node-0")


async def _until(client: Client, path: str, holds: Any, *, bind: bool = True) -> Any:
    """Wait until an object is as it should be; meanwhile every pod is bound."""

    async def look() -> Any:
        if bind:
            await _bind_all(client)
        answer = await client.ask("GET", path)
        return answer.body if answer.status == 200 and holds(answer.body) else None

    return await client.wait(look)


def _deployment(**spec: Any) -> dict[str, Any]:
    return make(
        "apps/v1", "Deployment", "d", spec={"replicas": 3, "selector": SELECTOR, "template": template(a="b"), **spec}
    )


def _rolled_out(document: dict[str, Any]) -> bool:
    status, wanted = document["status"], document["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == document["metadata"]["generation"]
        and status.get("updatedReplicas", 0)
        == status.get("replicas", 0)
        == status.get("availableReplicas", 0)
        == wanted
    )


async def test_replica_sets_have_as_many_pods_as_they_want(live: Client) -> None:
    """Up and down, with orphans adopted."""
    body = pod("orphan")
    body["metadata"]["labels"] = {"a": "b"}
    await live.create(PODS, body)
    spec = {"replicas": 3, "selector": SELECTOR, "template": template(a="b")}
    await live.create(REPLICA_SETS, make("apps/v1", "ReplicaSet", "r", spec=spec))
    await _until(live, f"{REPLICA_SETS}/r", lambda each: each["status"].get("readyReplicas") == 3)
    pods = await _items(live, PODS)
    assert len(pods) == 3
    assert "orphan" in {each["metadata"]["name"] for each in pods}
    assert {each["metadata"]["ownerReferences"][0]["name"] for each in pods} == {"r"}
    await live.patch(f"{REPLICA_SETS}/r", {"spec": {"replicas": 1}})
    await _until(live, f"{REPLICA_SETS}/r", lambda each: each["status"] == {**each["status"], "replicas": 1})
    await live.wait(lambda: _exactly(live, 1))


async def _exactly(client: Client, count: int) -> bool:
    return len(await _items(client, PODS)) == count


async def test_deployments_roll_out_and_back(live: Client) -> None:
    """A new template makes a new set; the old one stays for a way back."""
    await live.create(DEPLOYMENTS, _deployment())
    first = await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert [each["type"] for each in first["status"]["conditions"]] == ["Available", "Progressing"]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", image)
    second = await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert second["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    sizes = sorted(each["spec"]["replicas"] for each in await _items(live, REPLICA_SETS))
    assert sizes == [0, 3]
    assert {each["spec"]["containers"][0]["image"] for each in await _items(live, PODS)} == {"new"}
    back = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", back)
    third = await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert third["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(await _items(live, REPLICA_SETS)) == 2


async def test_a_roll_out_keeps_pods_serving(live: Client) -> None:
    """Never fewer than allowed, never more than the surge."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await live.create(DEPLOYMENTS, _deployment(replicas=4, strategy=rolling))
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    seen: list[tuple[int, int]] = []

    def note(document: dict[str, Any]) -> bool:
        seen.append((document["status"].get("availableReplicas", 0), document["status"].get("replicas", 0)))
        return _rolled_out(document)

    await live.patch(
        f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}
    )
    await _until(live, f"{DEPLOYMENTS}/d", note)
    assert min(available for available, _ in seen) >= 3
    assert max(replicas for _, replicas in seen) <= 5


async def test_recreate_stops_before_it_starts(live: Client) -> None:
    """Old pods are all gone before the first new one is there."""
    await live.create(DEPLOYMENTS, _deployment(replicas=2, strategy={"type": "Recreate"}))
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    version = (await live.get(PODS))["metadata"]["resourceVersion"]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", image)
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    kinds: list[tuple[str, str]] = []
    async with live.watch(f"{PODS}?watch=true&resourceVersion={version}") as stream:
        while len([1 for kind, _ in kinds if kind == "ADDED"]) < 2:
            kind, each = await stream.event()
            kinds.append((kind, each["spec"]["containers"][0]["image"]))
    gone = [index for index, event in enumerate(kinds) if event == ("DELETED", "busybox")]
    made = [index for index, event in enumerate(kinds) if event == ("ADDED", "new")]
    assert len(gone) == 2
    assert max(gone) < min(made)


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
    done = await _until(live, f"{JOBS}/j", _ended("Complete"))
    assert done["status"]["succeeded"] == 5
    assert done["status"]["completionTime"]
    pods = await _items(live, PODS)
    assert [each["status"]["phase"] for each in pods] == ["Succeeded"] * 5
    assert not any(each["metadata"].get("finalizers") for each in pods)


async def test_indexed_jobs_give_each_pod_its_number(live: Client) -> None:
    """Every index is done once."""
    await live.create(JOBS, _job(completions=3, parallelism=3, completionMode="Indexed"))
    done = await _until(live, f"{JOBS}/j", _ended("Complete"))
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (3, "0-2")
    labels = [each["metadata"]["labels"] for each in await _items(live, PODS)]
    assert sorted(each["batch.kubernetes.io/job-completion-index"] for each in labels) == ["0", "1", "2"]


async def test_jobs_give_up_after_their_limit(live: Client) -> None:
    """And say why."""
    await live.create(JOBS, _job(backoffLimit=0, annotations={"mooring.dev/exit-code": "3"}))
    failed = await _until(live, f"{JOBS}/j", _ended("Failed"))
    assert failed["status"]["failed"] == 1
    assert failed["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    state = (await _items(live, PODS))[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (3, "Error")


async def test_suspended_jobs_wait(live: Client) -> None:
    """Until they are resumed."""
    await live.create(JOBS, _job(suspend=True))
    await _until(live, f"{JOBS}/j", _ended("Suspended"))
    assert await _items(live, PODS) == []
    await live.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
    await _until(live, f"{JOBS}/j", _ended("Complete"))


async def test_what_is_owned_goes_with_its_owner(live: Client) -> None:
    """In the background by default, first when so asked, not at all when orphaned."""
    await live.create(DEPLOYMENTS, _deployment())
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    await live.delete(f"{DEPLOYMENTS}/d")
    await live.wait(lambda: _exactly(live, 0))
    assert await _items(live, REPLICA_SETS) == []

    await live.create(DEPLOYMENTS, _deployment())
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    marked = await live.delete(f"{DEPLOYMENTS}/d", options)
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await live.wait(lambda: _gone(live, f"{DEPLOYMENTS}/d"))
    assert await _items(live, PODS) == []

    await live.create(DEPLOYMENTS, _deployment())
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    await live.delete(f"{DEPLOYMENTS}/d", {**options, "propagationPolicy": "Orphan"})
    await live.wait(lambda: _gone(live, f"{DEPLOYMENTS}/d"))
    orphaned = await _items(live, REPLICA_SETS)
    assert len(orphaned) == 1
    assert "ownerReferences" not in orphaned[0]["metadata"]
    assert len(await _items(live, PODS)) == 3


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404


async def test_namespaces_go_with_all_that_is_in_them(live: Client) -> None:
    """Nothing can be created there meanwhile, and each new one has a service account."""
    await live.create("/api/v1/namespaces", make("v1", "Namespace", "x"))
    await live.wait(lambda: _there(live, "/api/v1/namespaces/x/serviceaccounts/default"))
    held = {**make("v1", "ConfigMap", "c"), "metadata": {"name": "c", "finalizers": ["ex.io/f"]}}
    await live.create("/api/v1/namespaces/x/configmaps", held)
    await live.create("/api/v1/namespaces/x/pods", pod("p"))
    marked = await live.delete("/api/v1/namespaces/x")
    assert marked["status"]["phase"] == "Terminating"
    answer = await live.ask("POST", "/api/v1/namespaces/x/pods", pod("q"))
    assert answer.message == (
        'pods "q" is forbidden: unable to create new content in namespace x because it is being terminated'
    )
    await live.wait(lambda: _gone(live, "/api/v1/namespaces/x/pods/p"))
    assert await _there(live, "/api/v1/namespaces/x")
    await live.patch("/api/v1/namespaces/x/configmaps/c", {"metadata": {"finalizers": None}})
    await live.wait(lambda: _gone(live, "/api/v1/namespaces/x"))


async def _there(client: Client, path: str) -> bool:
    return not await _gone(client, path)


async def test_budgets_say_how_many_may_go(live: Client) -> None:
    """Percentages are of what the controllers want, and evictions through the API respect it all."""
    await live.create(DEPLOYMENTS, _deployment(replicas=4))
    await live.create(
        BUDGETS, make("policy/v1", "PodDisruptionBudget", "x", spec={"maxUnavailable": "50%", "selector": SELECTOR})
    )
    budget = await _until(live, f"{BUDGETS}/x", lambda each: each["status"].get("currentHealthy") == 4)
    status = budget["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 2, 2)
    assert status["conditions"][0]["reason"] == "SufficientPods"


async def test_claims_find_or_get_a_volume(live: Client) -> None:
    """The smallest that fits is taken; a class makes one; one that waits for a node waits."""
    for name, size in (("small", "1Gi"), ("fits", "5Gi"), ("large", "50Gi")):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "storageClassName": "s",
        }
        await live.create(VOLUMES, make("v1", "PersistentVolume", name, spec=spec))
    await live.create(CLAIMS, _claim("manual", "s"))
    bound = await _until(live, f"{CLAIMS}/manual", lambda each: each["status"]["phase"] == "Bound")
    assert (bound["spec"]["volumeName"], bound["status"]["capacity"]) == ("fits", {"storage": "5Gi"})
    assert (await live.get(f"{VOLUMES}/fits"))["status"]["phase"] == "Bound"

    classes = "/apis/storage.k8s.io/v1/storageclasses"
    for name, mode in (("now", "Immediate"), ("later", "WaitForFirstConsumer")):
        await live.create(
            classes, make("storage.k8s.io/v1", "StorageClass", name, provisioner="ex.io/p", volumeBindingMode=mode)
        )
    await live.create(CLAIMS, _claim("now", "now"))
    made = await _until(live, f"{CLAIMS}/now", lambda each: each["status"]["phase"] == "Bound")
    assert made["spec"]["volumeName"] == f"pvc-{made['metadata']['uid']}"
    await live.create(CLAIMS, _claim("later", "later"))
    await live.patch(f"{CLAIMS}/later", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0"}}})
    await _until(live, f"{CLAIMS}/later", lambda each: each["status"]["phase"] == "Bound")
    await live.delete(f"{CLAIMS}/now")
    await live.wait(lambda: _gone(live, f"{VOLUMES}/{made['spec']['volumeName']}"))
    await live.delete(f"{CLAIMS}/manual")
    await _until(live, f"{VOLUMES}/fits", lambda each: each["status"]["phase"] == "Released")


def _claim(name: str, kind: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "storageClassName": kind}
    return make("v1", "PersistentVolumeClaim", name, spec=spec)


async def test_a_claim_in_use_outlives_its_deletion(live: Client) -> None:
    """Until the pod that uses it is gone."""
    await live.create(CLAIMS, _claim("c", ""))
    await live.create(
        PODS, pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], nodeName="node-0")
    )
    await live.delete(f"{CLAIMS}/c")
    assert (await live.get(f"{CLAIMS}/c"))["metadata"]["deletionTimestamp"]
    await live.delete(f"{PODS}/p")
    await live.wait(lambda: _gone(live, f"{CLAIMS}/c"))


async def test_nodes_are_tainted_for_what_is_wrong_with_them(live: Client) -> None:
    """Cordoned, not ready; and a NoExecute taint drives pods away that do not put up with it."""
    await live.create(PODS, pod("p", nodeName="node-0"))
    await live.create(PODS, pod("q", nodeName="node-0", tolerations=[{"operator": "Exists"}]))
    await live.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": True}})

    def has(*wanted: str) -> Any:
        return lambda node: sorted(each["key"] for each in node["spec"].get("taints", ())) == sorted(wanted)

    await _until(live, "/api/v1/nodes/node-0", has("node.kubernetes.io/unschedulable"), bind=False)
    await live.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": None}})
    await _until(live, "/api/v1/nodes/node-0", has(), bind=False)
    await live.patch("/api/v1/nodes/node-0", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
    await live.wait(lambda: _gone(live, f"{PODS}/p"))
    assert await _there(live, f"{PODS}/q")


async def test_pods_of_a_node_that_is_gone_go_too(live: Client) -> None:
    """After a moment, in case it comes back."""
    await live.create(PODS, pod("p", nodeName="node-0"))
    await live.delete("/api/v1/nodes/node-0")
    await live.wait(lambda: _gone(live, f"{PODS}/p"))


async def test_controllers_write_events(live: Client) -> None:
    """In the form of both groups."""
    await live.create(DEPLOYMENTS, _deployment(replicas=1))
    await _until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    events = await _items(live, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DDeployment")
    assert [each["reason"] for each in events] == ["ScalingReplicaSet"]
    same = await _items(
        live, "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.kind%3DDeployment"
    )
    assert same[0]["note"] == events[0]["message"]
    assert same[0]["apiVersion"] == "events.k8s.io/v1"
