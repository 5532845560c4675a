"""The Cluster view: columns, changes, groups, and the details of a node."""

from __future__ import annotations

import pytest

from mooring.dashboard.cluster_view import NO_GROUP, ClusterView
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.testing import make_node, make_pod
from tests.dashboard.scene import ZONE, engine_with, mixed, nodes, schedule


def test_columns_have_all_nodes_in_groups() -> None:
    found = ClusterView(mixed()).columns("", "")
    assert found["names"] == [f"node-{number}" for number in range(6)]
    assert found["group"] == ZONE
    assert found["groups"] == ["zone-a", "zone-b", "zone-c"]
    assert found["codes"] == [0, 1, 2, 0, 1, 2]
    assert sum(found["pods"]) == 4
    assert sum(found["use"]) == 4 * 125  # permille of 8 cores
    assert found["totals"]["cpu"]["texts"] == ["4", "48"]
    assert found["resources"] == ["cpu", "memory", "pods"]


def test_groups_can_be_switched_off() -> None:
    found = ClusterView(mixed()).columns(NO_GROUP, "")
    assert (found["group"], found["groups"], set(found["codes"])) == ("", [""], {0})


def test_nodes_without_the_label_are_a_group() -> None:
    view = ClusterView(engine_with(nodes(2), make_node("bare").unschedulable().taint("gpu").obj()))
    found = view.columns(ZONE, "memory")
    assert found["groups"][found["codes"][2]] == "(none)"
    assert found["use"][2] == -1
    assert found["flags"] == [0, 0, 3]


@pytest.mark.parametrize(("group", "resource"), [("nothing", ""), ("", "nothing")])
def test_unknown_names_are_errors(group: str, resource: str) -> None:
    with pytest.raises(HttpError, match="nothing"):
        ClusterView(mixed()).columns(group, resource)


def test_changes_have_only_rows_that_changed() -> None:
    engine = mixed()
    view = ClusterView(engine)
    assert view.changes()["rows"] is None
    assert view.changes()["rows"] == []
    engine.put(make_pod("late").req(cpu="2").node_selector({"kubernetes.io/hostname": "node-4"}).obj())
    schedule(engine)
    changes = view.changes()
    assert changes["rows"] == [4]
    assert view.values(changes, "cpu")["use"][0] >= 250
    engine.put(make_node("new").obj())
    assert view.values(changes, "cpu") == {"structure": -1}


def test_a_node_has_its_pods_and_why_it_is_not_feasible() -> None:
    engine = mixed()
    name = next(info.name for info in engine.cache.table.nodes if info.pod_count)
    found = ClusterView(engine).node(name)
    assert found["pods"][0]["pod"].startswith("default/web-")
    assert found["pods"][0]["requests"]["cpu"] == "1"
    assert {each["pod"]: each["plugin"] for each in found["rejections"]} == {
        "default/giant": "NodeResourcesFit",
        "default/picky": "NodeAffinity",
    }
    assert engine.cache.table.check() == []
    with pytest.raises(HttpError, match="no node"):
        ClusterView(engine).node("missing")
