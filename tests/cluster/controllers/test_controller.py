"""The selection of controllers."""

import asyncio

import pytest

from mooring.cluster import EmbeddedCluster
from mooring.cluster.controllers.controller import disabled_controllers
from mooring.cluster.embedded import CONTROLLERS
from tests.cluster.conftest import Client, make, template
from tests.waiting import PATIENCE

NAMES = ("deployment-controller", "job-controller", "garbage-collector-controller")


@pytest.mark.parametrize(
    ("text", "disabled"),
    [
        ("*", ()),
        ("*,-deployment-controller", ("deployment-controller",)),
        ("*, -deployment,-job", ("deployment-controller", "job-controller")),
        ("-job,*", ("job-controller",)),
        ("job", ("deployment-controller", "garbage-collector-controller")),
        ("", NAMES),
    ],
)
def test_controllers_are_selected_as_in_kube_controller_manager(text: str, disabled: tuple[str, ...]) -> None:
    assert disabled_controllers(text, NAMES) == frozenset(disabled)


def test_an_unknown_controller_is_an_error() -> None:
    with pytest.raises(ValueError, match='"-nope" is not a controller: the controllers are deployment-controller, '):
        disabled_controllers("*,-nope", NAMES)


def test_controllers_have_different_names() -> None:
    names = [each.name for each in CONTROLLERS]
    assert len(set(names)) == len(names)


async def test_a_disabled_controller_does_nothing() -> None:
    cluster = EmbeddedCluster(controllers="*,-deployment")
    await cluster.start()
    client = Client(cluster)
    path = "/apis/apps/v1/namespaces/default"
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    try:
        await client.create(f"{path}/deployments", make("apps/v1", "Deployment", "d", spec=spec))
        await client.create(f"{path}/replicasets", make("apps/v1", "ReplicaSet", "r", spec=spec))

        async def replicas() -> bool:
            return bool((await client.get(f"{path}/replicasets/r"))["status"].get("replicas") == 1)

        async with asyncio.timeout(PATIENCE):
            await client.wait(replicas)
        # The ReplicaSet was created later, so a Deployment controller would have created another one by now.
        assert len((await client.get(f"{path}/replicasets"))["items"]) == 1
    finally:
        await client.close()
        await cluster.stop()
