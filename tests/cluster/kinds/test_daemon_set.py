"""DaemonSets."""

from typing import Any

from tests.cluster.conftest import PODS, STRATEGIC_PATCH, Client, make, template

DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"


SELECTOR = {"matchLabels": {"a": "b"}}


NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}


async def _pods(client: Client) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in (await client.get(PODS))["items"]}


async def until_daemons(client: Client, path: str, holds: Any, started: list[str] | None = None) -> Any:
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


async def test_daemon_sets_cover_the_nodes_that_fit(live: Client) -> None:
    """Selectors and taints count, cordons do not; a node that comes gets its pod, one that no longer fits loses it."""
    await live.patch("/api/v1/nodes/node-1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    await live.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": True}})
    inner = template(a="b")
    inner["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    await live.create(DAEMON_SETS, make("apps/v1", "DaemonSet", "d", spec={"selector": SELECTOR, "template": inner}))

    def ready(count: int) -> Any:
        return lambda each: each["status"].get("numberReady") == each["status"]["desiredNumberScheduled"] == count

    await until_daemons(live, f"{DAEMON_SETS}/d", ready(2))
    assert {each["spec"]["nodeName"] for each in (await _pods(live)).values()} == {"node-0", "node-2"}
    await live.patch("/api/v1/nodes/node-1", {"spec": {"taints": []}})
    done = await until_daemons(live, f"{DAEMON_SETS}/d", ready(3))
    assert done["status"] == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
    }
    await live.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {"kubernetes.io/os": "other"}}})
    await until_daemons(live, f"{DAEMON_SETS}/d", ready(2))
    assert {each["spec"]["nodeName"] for each in (await _pods(live)).values()} == {"node-0", "node-1"}


async def test_daemon_sets_roll_out(live: Client) -> None:
    """One node at a time, by default."""
    spec = {"selector": SELECTOR, "template": template(a="b")}
    await live.create(DAEMON_SETS, make("apps/v1", "DaemonSet", "d", spec=spec))
    await until_daemons(live, f"{DAEMON_SETS}/d", lambda each: each["status"].get("numberAvailable") == 3)
    await live.patch(f"{DAEMON_SETS}/d", NEW_IMAGE)
    least: list[int] = []

    def rolled_out(each: dict[str, Any]) -> bool:
        status = each["status"]
        least.append(status.get("numberAvailable", 0))
        return bool(status.get("updatedNumberScheduled") == status.get("numberAvailable") == 3)

    await until_daemons(live, f"{DAEMON_SETS}/d", rolled_out)
    assert min(least) >= 2
    assert {each["spec"]["containers"][0]["image"] for each in (await _pods(live)).values()} == {"new"}


REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


def daemon_set(**spec: Any) -> dict[str, Any]:
    return make("apps/v1", "DaemonSet", "d", spec={"selector": SELECTOR, "template": template(a="b"), **spec})


def is_rolled_out(document: dict[str, Any]) -> bool:
    status = document["status"]
    seen = status.get("observedGeneration") == document["metadata"]["generation"]
    return seen and status.get("updatedNumberScheduled") == status.get("numberAvailable") == 3


async def revisions_of(client: Client) -> dict[int, dict[str, Any]]:
    return {each["revision"]: each for each in (await client.get(REVISIONS))["items"]}


async def test_a_rollback_restarts_only_the_pods_that_were_updated(live: Client) -> None:
    """As in Kubernetes' own test of rollbacks. The revision of the old template gets the next number."""
    await live.create(DAEMON_SETS, daemon_set())
    await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    before = {name: each["metadata"]["uid"] for name, each in (await _pods(live)).items()}
    first = (await revisions_of(live))[1]
    assert first["metadata"]["labels"].keys() == {"a", "controller-revision-hash"}
    # The first new pod is never bound, so the rollout stops there.
    await live.patch(f"{DAEMON_SETS}/d", NEW_IMAGE, STRATEGIC_PATCH)

    async def stuck() -> bool:
        images = [each["spec"]["containers"][0]["image"] for each in (await _pods(live)).values()]
        return sorted(images) == ["busybox", "busybox", "new"]

    await live.wait(stuck)
    assert sorted(await revisions_of(live)) == [1, 2]
    await live.patch(f"{DAEMON_SETS}/d", first["data"], STRATEGIC_PATCH)
    await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    after = {name: each["metadata"]["uid"] for name, each in (await _pods(live)).items()}
    assert len(before.items() & after.items()) == 2
    assert {each["spec"]["containers"][0]["image"] for each in (await _pods(live)).values()} == {"busybox"}
    revisions = await revisions_of(live)
    assert sorted(revisions) == [2, 3]
    assert revisions[3]["metadata"]["uid"] == first["metadata"]["uid"]
