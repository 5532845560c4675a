"""What all workloads have in common, after Kubernetes' own conformance tests of sig-apps."""

from typing import Any

import pytest

from tests.cluster.conftest import PODS, Client, make, template
from tests.cluster.kinds.test_daemon_set import until_daemons
from tests.cluster.reconciling import items

APPS = "/apis/apps/v1/namespaces/default"
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def _workload(kind: str, **spec: Any) -> dict[str, Any]:
    given = {"selector": {"matchLabels": {"a": "b"}}, "template": template(a="b"), **spec}
    return make("apps/v1", kind, "w", spec=given)


def _is_ready(document: dict[str, Any]) -> bool:
    status = document["status"]
    return bool(status.get("numberReady") == 3 or status.get("readyReplicas") == 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_status_endpoints(live: Client, kind: str) -> None:
    """Conditions that others write to the status stay there when the controller writes it."""
    path = f"{APPS}/{kind.lower()}s"
    await live.create(path, _workload(kind))
    await until_daemons(live, f"{path}/w", _is_ready)
    extra = {"type": "StatusPatched", "status": "True", "lastTransitionTime": None}
    conditions = [*(await live.get(f"{path}/w"))["status"].get("conditions", ()), extra]
    change = {"metadata": {"annotations": {"patched": "yes"}}, "status": {"conditions": conditions}}
    patched = await live.patch(f"{path}/w/status", change)
    assert patched["metadata"]["annotations"]["patched"] == "yes"
    # A deleted pod makes the controller write the status.
    name = (await items(live, PODS))[0]["metadata"]["name"]
    await live.delete(f"{PODS}/{name}")
    version = patched["metadata"]["resourceVersion"]
    await until_daemons(live, f"{path}/w", lambda each: each["metadata"]["resourceVersion"] != version)
    await until_daemons(live, f"{path}/w", _is_ready)
    found = (await live.get(f"{path}/w"))["status"]["conditions"]
    assert [each["type"] for each in found if each["type"] == "StatusPatched"] == ["StatusPatched"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_collection_is_deleted_with_its_pods(live: Client, kind: str) -> None:
    path = f"{APPS}/{kind.lower()}s"
    body = _workload(kind)
    body["metadata"]["labels"] = {"e2e": "yes"}
    await live.create(path, body)
    await until_daemons(live, f"{path}/w", _is_ready)
    await live.delete(f"{path}?labelSelector=e2e=yes")
    assert (await live.get(path))["items"] == []

    async def gone() -> bool:
        return not await items(live, PODS)

    await live.wait(gone)


async def test_failed_pods_of_a_daemon_set_are_replaced(live: Client) -> None:
    path = f"{APPS}/daemonsets"
    await live.create(path, _workload("DaemonSet"))
    await until_daemons(live, f"{path}/w", _is_ready)
    failed = (await items(live, PODS))[0]["metadata"]
    await live.patch(f"{PODS}/{failed['name']}/status", {"status": {"phase": "Failed"}})

    async def replaced() -> bool:
        return failed["uid"] not in {each["metadata"]["uid"] for each in await items(live, PODS)}

    await live.wait(replaced)
    await until_daemons(live, f"{path}/w", _is_ready)


async def test_a_deployment_continues_the_revisions_of_an_adopted_replica_set(live: Client) -> None:
    """And deletes it when it is beyond the history limit."""
    revision = "deployment.kubernetes.io/revision"
    old = template(a="b", pod="httpd")
    body = make(
        "apps/v1",
        "ReplicaSet",
        "old",
        spec={"replicas": 1, "selector": {"matchLabels": old["metadata"]["labels"]}, "template": old},
    )
    body["metadata"] |= {"annotations": {revision: "3546343826724305832"}, "labels": {"a": "b", "pod": "httpd"}}
    await live.create(f"{APPS}/replicasets", body)
    await until_daemons(live, f"{APPS}/replicasets/old", _is_ready)
    await live.create(f"{APPS}/deployments", _workload("Deployment", revisionHistoryLimit=0))
    await until_daemons(
        live,
        f"{APPS}/deployments/w",
        lambda each: each["metadata"].get("annotations", {}).get(revision) == "3546343826724305833",
    )

    async def one_left() -> bool:
        await until_daemons(live, f"{APPS}/deployments/w", lambda _: True)
        return [each["metadata"]["name"] for each in await items(live, f"{APPS}/replicasets")] != ["old"] and len(
            await items(live, f"{APPS}/replicasets")
        ) == 1

    await live.wait(one_left)
