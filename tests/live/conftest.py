"""An embedded cluster for tests of the live scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.cluster import EmbeddedCluster
from tests.live.embedded import Embedded


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Embedded]:
    cluster = EmbeddedCluster(controllers=False)
    await cluster.start()
    cluster.add_nodes(3)
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    yield Embedded(cluster, tmp_path / "kubeconfig")
    await cluster.stop()
