"""Installing the definitions: idempotent, and without changing definitions that others installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.cluster import EmbeddedCluster
from mooring.controllers.definitions import DEFINITIONS, MANAGED_BY
from mooring.controllers.definitions.installer import install
from mooring.kube import Client, Invalid, load_access
from tests.controllers.world import JOBS, QUEUES, World

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_install_is_idempotent(tmp_path: Path) -> None:
    cluster = EmbeddedCluster()
    await cluster.start()
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    try:
        async with Client(load_access(kubeconfig=str(tmp_path / "kubeconfig"))) as client:
            assert {each.outcome for each in await install(client, dry_run=True)} == {"created"}
            assert (await client.send("GET", PATH))["items"] == []
            assert {each.outcome for each in await install(client)} == {"created"}
            assert {each.outcome for each in await install(client)} == {"unchanged"}
            # As if Volcano had installed it.
            name = "queues.scheduling.volcano.sh"
            await client.send(
                "PATCH",
                f"{PATH}/{name}",
                {"metadata": {"labels": {MANAGED_BY: "Helm"}}},
                type="application/merge-patch+json",
            )
            outcomes = {each.name: each.outcome for each in await install(client)}
            assert outcomes.pop(name) == "kept"
            assert set(outcomes.values()) == {"unchanged"}
    finally:
        await cluster.stop()


def test_print_definitions() -> None:
    result = CliRunner().invoke(main, ["batch", "install", "-o", "yaml"])
    assert result.exit_code == 0
    assert list(yaml.safe_load_all(result.output)) == list(DEFINITIONS)
    assert "&id" not in result.output


async def test_the_server_applies_defaults_and_limits(world: World) -> None:
    await world.post(QUEUES, apiVersion="scheduling.volcano.sh/v1beta1", kind="Queue", metadata={"name": "q"}, spec={})
    assert (await world.get(f"{QUEUES}/q"))["spec"]["weight"] == 1
    with pytest.raises(Invalid, match="65535"):
        await world.queue("heavy", weight=70000)
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    with pytest.raises(Invalid, match="tasks"):
        await world.post(JOBS, **job, spec={"tasks": []})
    template = {"spec": {"containers": [{"name": "c", "image": "i", "command": ["x"], "tty": True}]}}
    made = await world.post(JOBS, **job, spec={"tasks": [{"replicas": 1, "template": template}]})
    assert made["spec"]["maxRetry"] == 3
    assert made["spec"]["queue"] == "default"
    assert made["spec"]["tasks"][0]["template"] == template
