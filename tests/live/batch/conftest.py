from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.cluster import EmbeddedCluster
from mooring.kube import Client, load_access
from tests.live.batch.batch_world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    cluster = EmbeddedCluster(admission=False)
    await cluster.start()
    cluster.add_nodes(3, capacity={"cpu": "4", "memory": "32Gi", "pods": "110"})
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    async with Client(load_access(kubeconfig=str(tmp_path / "kubeconfig"))) as client:
        yield World(client, tmp_path)
    await cluster.stop()
