"""The stories with kubectl, on the embedded cluster and on a real one."""

from __future__ import annotations

import pytest

from tests.docs.stories import STORIES, tell
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane.parts import binary


@pytest.mark.parametrize("story", STORIES)
def test_it_holds_on_the_embedded_cluster(built: None, story: str) -> None:
    done = tell(story, KUBECTL=str(binary("kubectl")))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("story", STORIES)
def test_it_holds_on_a_real_api_server(cluster: Cluster, story: str) -> None:
    """And leaves nothing behind."""
    done = tell(story, "--kubeconfig", str(cluster.plane.kubeconfig()), KUBECTL=str(binary("kubectl")))
    assert done.returncode == 0, done.stdout
    assert "as the story says" in done.stdout
    assert cluster.api.items("/api/v1/nodes") == []
    assert cluster.api.items("/api/v1/namespaces/default/pods") == []
