"""Fake nodes: what they say of themselves and of the pods that are bound to them."""

from typing import Any

import pytest

from mooring.cluster.kubelet import seconds
from tests.cluster.conftest import PODS, STRATEGIC_PATCH, TABLE, Client, make, pod


async def _phase(client: Client, name: str, phase: str) -> Any:
    async def nested_field() -> Any:
        found = await client.get(f"{PODS}/{name}")
        return found if found["status"]["phase"] == phase else None

    return await client.wait(nested_field)


def _annotated(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    body = pod(name, **spec)
    body["metadata"]["annotations"] = annotations
    return body


async def test_a_bound_pod_runs(live: Client) -> None:
    """With addresses, conditions and running containers."""
    sidecar = {"name": "s", "image": "x", "restartPolicy": "Always"}
    await live.create(PODS, pod("p", initContainers=[{"name": "i", "image": "x"}, sidecar]))
    assert (await live.get(f"{PODS}/p"))["status"]["phase"] == "Pending"
    await live.bind("p", "node-1")
    status = (await _phase(live, "p", "Running"))["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    node = await live.get("/api/v1/nodes/node-1")
    assert status["hostIP"] == node["status"]["addresses"][0]["address"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    rows = (await live.get(PODS, accept=TABLE))["rows"]
    assert rows[0]["cells"][:4] == ["p", "2/2", "Running", "0"]


@pytest.mark.parametrize(
    ("annotations", "spec", "phase", "shown"),
    [
        ({"mooring.dev/run-for": "10ms"}, {"restartPolicy": "Never"}, "Succeeded", "Completed"),
        (
            {"mooring.dev/run-for": "10ms", "mooring.dev/exit-code": "1"},
            {"restartPolicy": "Never"},
            "Failed",
            "Error",
        ),
        (
            {},
            {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "command": ["sh", "-c", "sleep 0.01"]}],
            },
            "Succeeded",
            "Completed",
        ),
        ({"mooring.dev/run-for": "10ms"}, {"restartPolicy": "Always"}, "Running", "Running"),
    ],
)
async def test_pods_end_as_they_are_told(
    live: Client, annotations: dict[str, str], spec: dict[str, Any], phase: str, shown: str
) -> None:
    """By annotation or by their `sleep`; what always restarts goes on."""
    await live.create(PODS, _annotated("p", annotations, nodeName="node-0", **spec))
    await _phase(live, "p", phase)
    assert (await live.get(PODS, accept=TABLE))["rows"][0]["cells"][2] == shown


async def test_failing_containers_are_restarted(live: Client) -> None:
    """Where the policy says so."""
    notes = {"mooring.dev/run-for": "10ms", "mooring.dev/exit-code": "1"}
    await live.create(PODS, _annotated("p", notes, nodeName="node-0", restartPolicy="OnFailure"))

    async def restarted() -> bool:
        status = (await live.get(f"{PODS}/p"))["status"]
        return any(each["restartCount"] for each in status.get("containerStatuses", ()))

    await live.wait(restarted)


async def test_readiness_gates_keep_a_pod_from_being_ready(live: Client) -> None:
    """Until somebody says that their condition holds."""
    await live.create(PODS, pod("p", nodeName="node-0", readinessGates=[{"conditionType": "ex.io/ok"}]))
    running = await _phase(live, "p", "Running")
    conditions = running["status"]["conditions"]
    assert next(each["status"] for each in conditions if each["type"] == "Ready") == "False"
    await live.patch(
        f"{PODS}/p/status", {"status": {"conditions": [*conditions, {"type": "ex.io/ok", "status": "True"}]}}
    )

    async def ready() -> bool:
        found = (await live.get(f"{PODS}/p"))["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    await live.wait(ready)


async def test_deleted_pods_take_the_time_they_are_told(live: Client) -> None:
    """At most their grace period."""
    await live.create(
        PODS, _annotated("p", {"mooring.dev/terminate-after": "1h"}, nodeName="node-0", terminationGracePeriodSeconds=1)
    )
    await _phase(live, "p", "Running")
    await live.delete(f"{PODS}/p")
    assert (await live.get(PODS, accept=TABLE))["rows"][0]["cells"][2] == "Terminating"

    async def gone() -> bool:
        return (await live.ask("GET", f"{PODS}/p")).status == 404

    await live.wait(gone)


async def test_new_nodes_become_ready(live: Client) -> None:
    """Whoever makes them; what they say of themselves stays, and one can be left alone."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    await live.create("/api/v1/nodes", make("v1", "Node", "mine", status={"capacity": capacity}))
    off = make("v1", "Node", "off")
    off["metadata"]["annotations"] = {"mooring.dev/kubelet": "off"}
    await live.create("/api/v1/nodes", off)

    async def ready() -> Any:
        node = await live.get("/api/v1/nodes/mine")
        return node if node["status"].get("conditions") else None

    node = await live.wait(ready)
    assert node["status"]["allocatable"] == capacity
    assert "conditions" not in (await live.get("/api/v1/nodes/off"))["status"]
    assert [each["cells"][1] for each in (await live.get("/api/v1/nodes", accept=TABLE))["rows"]][-1] == "Unknown"


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("1.5s", 1.5), ("2m", 120), ("10ms", 0.01), ("x", None), ("", None)]
)
def test_durations(text: str, expected: float | None) -> None:
    """As annotations write them."""
    assert seconds(text) == expected


async def test_nodes_hold_leases(live: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One each, which goes with the node."""
    monkeypatch.setattr("mooring.cluster.kubelet._RENEW_EVERY", 0.05)
    await live.create("/api/v1/nodes", make("v1", "Node", "late"))
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/late"
    seen: set[str] = set()

    async def renewed() -> bool:
        answer = await live.ask("GET", path)
        if answer.status == 200:
            seen.add(answer.body["spec"]["renewTime"])
        return len(seen) > 1

    await live.wait(renewed)
    await live.delete("/api/v1/nodes/late")

    async def gone() -> bool:
        return (await live.ask("GET", path)).status == 404

    await live.wait(gone)


async def _exists(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 200


@pytest.mark.parametrize("hook", [{"sleep": {"seconds": 3600}}, {"exec": {"command": ["sh", "-c", "sleep 1h"]}}])
async def test_a_pre_stop_hook_delays_termination(live: Client, hook: dict[str, Any]) -> None:
    """At most by the grace period."""
    container = {"name": "c", "image": "x", "lifecycle": {"preStop": hook}}
    await live.create(PODS, pod("p", nodeName="node-0", containers=[container]))
    await live.create(PODS, pod("q", nodeName="node-0"))
    await _phase(live, "p", "Running")
    await _phase(live, "q", "Running")
    await live.delete(f"{PODS}/p")
    await live.delete(f"{PODS}/q")
    await live.wait(lambda: _gone(live, "q"))
    assert await _exists(live, f"{PODS}/p")
    await live.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    await live.wait(lambda: _gone(live, "p"))


async def _gone(client: Client, name: str) -> bool:
    return not await _exists(client, f"{PODS}/{name}")


async def test_capacity_that_is_added_later_is_allocatable(live: Client) -> None:
    path = "/api/v1/nodes/node-0"

    async def allocatable(expected: str | None, name: str = "example.com/boat") -> None:
        async def holds() -> bool:
            return (await live.get(path))["status"]["allocatable"].get(name) == expected

        await live.wait(holds)

    for amount in ("5", "3", None):
        await live.patch(f"{path}/status", {"status": {"capacity": {"example.com/boat": amount}}})
        await allocatable(amount)
    # An explicit amount stays.
    both = {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "60"}}
    await live.patch(f"{path}/status", {"status": both})
    await live.patch(f"{path}/status", {"status": {"capacity": {"example.com/boat": "1"}}})
    await allocatable("1")
    await allocatable("60", "cpu")


async def test_the_pod_of_a_helm_test_succeeds(live: Client) -> None:
    await live.create(PODS, _annotated("p", {"helm.sh/hook": "test"}, nodeName="node-0", restartPolicy="Never"))
    await _phase(live, "p", "Succeeded")


async def test_ephemeral_containers_run(live: Client) -> None:
    """`kubectl debug` waits for them."""
    await live.create(PODS, pod("p", nodeName="node-0"))
    await _phase(live, "p", "Running")
    containers = [{"name": "debugger", "image": "x", "terminationMessagePolicy": "File"}]
    await live.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": containers}}, STRATEGIC_PATCH)

    async def running() -> bool:
        found = (await live.get(f"{PODS}/p"))["status"].get("ephemeralContainerStatuses", ())
        return [(each["name"], "running" in each["state"]) for each in found] == [("debugger", True)]

    await live.wait(running)
