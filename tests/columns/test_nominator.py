"""Nominated pods by node."""

from __future__ import annotations

from mooring.columns.nominator import Nominator
from mooring.columns.table import NodeTable
from mooring.testing import make_pod


def test_a_pod_has_one_nomination() -> None:
    nominator, table = Nominator(), NodeTable()
    info = table.add_pod(make_pod("p").obj(), "elsewhere")
    assert not nominator
    nominator.add(info, "a")
    nominator.add(info, "b")
    assert nominator
    assert nominator.node_of(info.pod.uid) == "b"
    assert list(nominator.nodes()) == ["b"]
    assert list(nominator.on_node("b")) == [info]
    assert not list(nominator.on_node("a"))
    nominator.remove(info.pod.uid)
    nominator.remove(info.pod.uid)
    assert not nominator
    assert nominator.node_of(info.pod.uid) is None
