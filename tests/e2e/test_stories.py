"""The stories with kubectl and helm, on the embedded cluster and on a real one."""

from __future__ import annotations

from typing import Final

import pytest

from tests.docs.stories import STORIES, tell
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane.parts import binary

TOOLS: Final = {"KUBECTL": str(binary("kubectl")), "HELM": str(binary("helm"))}


@pytest.mark.parametrize("story", STORIES)
def test_it_holds_on_the_embedded_cluster(built: None, helm_built: None, story: str) -> None:
    done = tell(story, **TOOLS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("story", STORIES)
def test_it_holds_on_a_real_api_server(cluster: Cluster, helm_built: None, story: str) -> None:
    """And leaves nothing behind."""
    done = tell(story, "--kubeconfig", str(cluster.plane.kubeconfig()), **TOOLS)
    assert done.returncode == 0, done.stdout
    assert "as the story says" in done.stdout
    assert cluster.api.items("/api/v1/nodes") == []
    assert cluster.api.items("/api/v1/namespaces/default/pods") == []
