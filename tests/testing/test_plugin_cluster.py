"""What authors of plugins test with: a cluster of their own, and differences that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring import SchedulerError
from mooring.framework import Status
from mooring.testing import PluginCluster, check_run, make_node, make_pod, run_plugin
from mooring.testing.pytest_plugin import plugin_cluster, pytest_assertrepr_compare

__all__ = ["plugin_cluster"]  # the fixture
EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
NODE_NUMBER = EXAMPLES / "nodenumber" / "nodenumber.py"
PICK = """
from mooring.framework import Plugin

class Pick(Plugin):
    def filter(self, state, pod, node):
        return None if node.name == "node-{number}" else "another node"

    def score(self, state, pod, node):
        return len(node.name)
"""


def load(folder: Path, number: int) -> Path:
    (folder / "pick.py").write_text(PICK.format(number=number))
    return folder / "pick.py"


def test_a_plugin_places_pods_on_a_cluster(plugin_cluster: PluginCluster) -> None:
    plugin_cluster.start(plugin_files={"NodeNumber": NODE_NUMBER})
    plugin_cluster.add(make_pod("web-2").obj())
    assert plugin_cluster.node_of("web-2") == "node-2"
    explained = plugin_cluster.explain("web-2")
    assert explained is not None
    assert [row.name for row in plugin_cluster.plugins() if row.source != "built in"] == ["NodeNumber"]


def test_why_a_pod_is_nowhere(plugin_cluster: PluginCluster, tmp_path: Path) -> None:
    plugin_cluster.start(plugin_files={"Pick": load(tmp_path, 7)})
    plugin_cluster.add(make_pod("web").obj())
    assert plugin_cluster.why("web").startswith("0/3 nodes are available: 3 another node.")
    with pytest.raises(AssertionError, match=r"has no node after 0\.1 s: 0/3 nodes are available"):
        plugin_cluster.node_of("web", seconds=0.1)


def test_a_wrong_plugin_is_told_as_it_is_elsewhere(plugin_cluster: PluginCluster, tmp_path: Path) -> None:
    (tmp_path / "pick.py").write_text("class Pick: ...")
    with pytest.raises(SchedulerError, match="defines no plugin Pick"):
        plugin_cluster.start(plugin_files={"Pick": tmp_path / "pick.py"})


def test_differences_are_shown_by_node(tmp_path: Path) -> None:
    from mooring.loading import load_plugin

    nodes = [make_node(f"node-{number}").obj() for number in range(3)]
    run = run_plugin(load_plugin("Pick", load(tmp_path, 1)), make_pod("p").obj(), nodes=nodes)
    check_run(run, fits=["node-1"], rejected={"node-0": "another node", "node-2": "another node"}, scores={"node-1": 6})
    with pytest.raises(AssertionError) as differs:
        check_run(run, fits=["node-1", "node-2"], rejected={"node-0": "too small"}, scores={"node-1": 7})
    assert str(differs.value).splitlines() == [
        "verdicts differ on 2 of 3 nodes:",
        "  node    expected   got",
        "  node-2  fits       another node",
        "  node-0  too small  another node",
        "scores differ on 1 of 1 nodes:",
        "  node    expected  got",
        "  node-1  7         6",
    ]


def test_pytest_shows_differences_by_node() -> None:
    said = {"a": Status.unschedulable("full"), "b": Status(), "c": Status()}
    wanted = {"a": Status.unresolvable("full"), "b": Status()}
    assert pytest_assertrepr_compare("==", said, wanted) == [
        "verdicts differ on 2 of 3 nodes:",
        "  node  expected                            got",
        "  a     UnschedulableAndUnresolvable: full  full",
        "  c     -                                   fits",
    ]
    assert pytest_assertrepr_compare("==", {"a": 1}, {"a": 2}) is not None
    assert pytest_assertrepr_compare("==", {"a": "x"}, {"a": "y"}) is None
