"""Pod templates: equal pods share one."""

from __future__ import annotations

from mooring.framework import NodeTable
from mooring.testing import make_pod


def table_of(*nodes) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.add_node(node)
    return table


def test_equal_pods_share_a_template():
    table = table_of()
    one, two = (make_pod(name).label(app="x").req(cpu="1").obj() for name in ("one", "two"))
    other = make_pod("other").label(app="y").req(cpu="1").obj()
    assert table.template(one) is table.template(two)
    assert table.template(one) is not table.template(other)
