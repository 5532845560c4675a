"""ResourceQuotas."""

from typing import Any

import pytest

from tests.cluster.conftest import PODS, Client, make, pod, template

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SERVICES = "/api/v1/namespaces/default/services"


async def _used(client: Client, expected: dict[str, str], name: str = "q") -> None:
    async def holds() -> bool:
        status = (await client.get(f"{QUOTAS}/{name}")).get("status", {})
        return bool(status.get("used") == expected)

    try:
        await client.wait(holds)
    except TimeoutError:
        raise AssertionError(f"{(await client.get(f'{QUOTAS}/{name}'))['status']} is not {expected}") from None


async def _quota(client: Client, name: str = "q", *, used: dict[str, str] | None = None, **spec: Any) -> None:
    await client.create(QUOTAS, make("v1", "ResourceQuota", name, spec=spec))
    await _used(client, used or dict.fromkeys(spec["hard"], "0"), name)


def _sized(name: str, **resources: Any) -> dict[str, Any]:
    return pod(name, nodeName="node-0", containers=[{"name": "c", "image": "x", "resources": resources}])


async def test_pods_and_their_requests_are_limited(live: Client) -> None:
    await _quota(live, hard={"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"})
    amounts = {"requests": {"cpu": "400m", "memory": "1Mi"}, "limits": {"memory": "256Mi"}}
    answer = await live.ask("POST", PODS, pod("plain"))
    assert (answer.status, answer.message) == (
        403,
        'pods "plain" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c',
    )
    await live.create(PODS, _sized("a", **amounts))
    await _used(live, {"pods": "1", "requests.cpu": "400m", "limits.memory": "256Mi"})
    await live.create(PODS, _sized("b", **amounts))
    answer = await live.ask("POST", PODS, _sized("d", **amounts))
    assert (answer.status, answer.message) == (
        403,
        (
            'pods "d" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=400m, '
            "used: pods=2,requests.cpu=800m, limited: pods=2,requests.cpu=1"
        ),
    )
    await live.delete(f"{PODS}/a")
    await _used(live, {"pods": "1", "requests.cpu": "400m", "limits.memory": "256Mi"})
    await live.create(PODS, _sized("d", **amounts))


async def test_finished_pods_are_not_counted(live: Client) -> None:
    """Except by count/pods."""
    await _quota(live, hard={"pods": "1", "count/pods": "5"})
    body = pod("p", nodeName="node-0", restartPolicy="Never")
    body["metadata"]["annotations"] = {"mooring.dev/run-for": "10ms"}
    await live.create(PODS, body)
    await _used(live, {"pods": "0", "count/pods": "1"})
    await live.create(PODS, pod("q"))


async def test_objects_are_counted(live: Client) -> None:
    """With what exists already. A rejected or invalid object is not charged, nor one of a dry run."""
    await live.create(MAPS, make("v1", "ConfigMap", "a"))
    hard = {"configmaps": "3", "count/deployments.apps": "1", "services.nodeports": "2"}
    await _quota(live, hard=hard, used={"configmaps": "2", "count/deployments.apps": "0", "services.nodeports": "0"})
    assert (await live.ask("POST", f"{MAPS}?dryRun=All", make("v1", "ConfigMap", "b"))).status == 201
    assert (await live.ask("POST", MAPS, make("v1", "ConfigMap", "B"))).status == 422
    assert (await live.ask("POST", MAPS, make("v1", "ConfigMap", "a"))).status == 409
    await live.create(MAPS, make("v1", "ConfigMap", "b"))
    answer = await live.ask("POST", MAPS, make("v1", "ConfigMap", "c"))
    assert (answer.status, answer.message) == (
        403,
        (
            'configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: '
            "configmaps=3"
        ),
    )
    service = make("v1", "Service", "s", spec={"ports": [{"port": 80}]})
    await live.create(SERVICES, service)
    await live.patch(f"{SERVICES}/s", {"spec": {"type": "NodePort"}})
    await _used(live, {"configmaps": "3", "count/deployments.apps": "0", "services.nodeports": "1"})
    await live.patch(f"{SERVICES}/s", {"spec": {"type": "ClusterIP"}})
    await _used(live, {"configmaps": "3", "count/deployments.apps": "0", "services.nodeports": "0"})


async def test_storage_is_limited(live: Client) -> None:
    fast = "fast.storageclass.storage.k8s.io/"
    hard = {"requests.storage": "10Gi", f"{fast}persistentvolumeclaims": "1"}
    await _quota(live, hard=hard)

    def claim(name: str, size: str, **spec: str) -> dict[str, Any]:
        spec_of = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
        return make("v1", "PersistentVolumeClaim", name, spec=spec_of)

    await live.create(CLAIMS, claim("a", "6Gi", storageClassName="fast"))
    assert (await live.ask("POST", CLAIMS, claim("b", "1Gi", storageClassName="fast"))).status == 403
    assert (await live.ask("POST", CLAIMS, claim("b", "5Gi"))).status == 403
    await live.create(CLAIMS, claim("b", "4Gi"))
    await _used(live, {"requests.storage": "10Gi", f"{fast}persistentvolumeclaims": "1"})


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, {}, {"containers": _sized("p", requests={"cpu": "1"})["spec"]["containers"]}),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 100}, {}),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}},
            {"priorityClassName": "system-node-critical"},
            {},
        ),
    ],
)  # fmt: skip
async def test_scopes_select_pods(
    live: Client, spec: dict[str, Any], inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    await _quota(live, hard={"pods": "1"}, **spec)
    await live.create(PODS, pod("out", **outside))
    await live.create(PODS, pod("in", **inside))
    await _used(live, {"pods": "1"})
    assert (await live.ask("POST", PODS, pod("in-2", **inside))).status == 403
    await live.create(PODS, pod("out-2", **outside))


async def test_a_deployment_reports_an_exceeded_quota(live: Client) -> None:
    """And goes on when the quota is raised."""
    await _quota(live, hard={"pods": "1"})
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    await live.create(path, make("apps/v1", "Deployment", "d", spec=spec))

    async def failure() -> str:
        found = (await live.get(f"{path}/d"))["status"].get("conditions", ())
        return next((str(each["message"]) for each in found if each["type"] == "ReplicaFailure"), "")

    async def failure_is_gone() -> bool:
        return not await failure()

    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in await live.wait(failure)
    await live.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "5"}}})
    before = live.cluster.store.version
    await live.patch(f"{path}/d", {"spec": {"paused": False, "replicas": 3}})
    await _used(live, {"pods": "3"})
    assert await live.wait(failure_is_gone)
    assert live.cluster.store.version < before + 100


async def test_many_deletions_are_counted_right(live: Client) -> None:
    await _quota(live, hard={"pods": "100"})
    for number in range(30):
        await live.create(PODS, pod(f"p{number}"))
    await live.delete(PODS)
    await live.create(PODS, pod("last"))
    await _used(live, {"pods": "1"})
