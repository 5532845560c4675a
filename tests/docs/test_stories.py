"""The stories on an embedded cluster, on a machine without kubectl. On a real one `make e2e` tells them."""

from __future__ import annotations

import pytest

from tests.docs.stories import STORIES, tell


@pytest.mark.parametrize("story", STORIES)
def test_it_holds(story: str) -> None:
    done = tell(story, KUBECTL="", HELM="")
    assert done.returncode == 0, done.stdout
    assert "as the story says" in done.stdout
    assert "kubectl" not in done.stdout


def test_it_fails_where_the_cluster_cannot_be_reached() -> None:
    done = tell("s4", "--kubeconfig", "/nonexistent")
    assert done.returncode == 1
    assert "/nonexistent: no such file" in done.stdout
    assert "Traceback" not in done.stdout
    assert tell("s4", "--nonsense").returncode == 2
