"""Nodes."""

from typing import Any

from tests.cluster.conftest import PODS, Client, pod
from tests.cluster.reconciling import until


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404


async def _there(client: Client, path: str) -> bool:
    return not await _gone(client, path)


async def test_nodes_are_tainted_for_what_is_wrong_with_them(live: Client) -> None:
    """Cordoned, not ready; and a NoExecute taint drives pods away that do not put up with it."""
    await live.create(PODS, pod("p", nodeName="node-0"))
    await live.create(PODS, pod("q", nodeName="node-0", tolerations=[{"operator": "Exists"}]))
    await live.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": True}})

    def has(*wanted: str) -> Any:
        return lambda node: sorted(each["key"] for each in node["spec"].get("taints", ())) == sorted(wanted)

    await until(live, "/api/v1/nodes/node-0", has("node.kubernetes.io/unschedulable"), bind=False)
    await live.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": None}})
    await until(live, "/api/v1/nodes/node-0", has(), bind=False)
    await live.patch("/api/v1/nodes/node-0", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
    await live.wait(lambda: _gone(live, f"{PODS}/p"))
    assert await _there(live, f"{PODS}/q")


async def test_pods_of_a_node_that_is_gone_go_too(live: Client) -> None:
    """After a moment, in case it comes back."""
    await live.create(PODS, pod("p", nodeName="node-0"))
    await live.delete("/api/v1/nodes/node-0")
    await live.wait(lambda: _gone(live, f"{PODS}/p"))
