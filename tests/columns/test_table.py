"""The node table: rows, pods, changes, and a random comparison with a table built from scratch."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.api.label_selectors import EVERYTHING, compile_selector
from mooring.api.pod import Pod, PodStatus
from mooring.columns.pod_columns import start_of
from mooring.columns.terms import PodTerm
from mooring.framework import Nodes, NodeTable
from mooring.testing import make_node, make_pod, selector


def table_of(*nodes) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.add_node(node)
    return table


def test_amounts_follow_pods():
    table = table_of(make_node("a").capacity(cpu="4", memory="8Gi", pods="10").obj())
    pod = make_pod("p").req(cpu="1500m", memory="1Gi").obj()
    table.add_pod(pod, "a")
    nodes = Nodes(table)
    assert nodes.requested("cpu").tolist() == [1500]
    assert nodes.free("memory").tolist() == [7 << 30]
    assert nodes.pod_count.tolist() == [1]
    assert table.nodes[0].free("cpu") == 2500
    table.remove_pod(pod.uid)
    assert nodes.requested("cpu").tolist() == [0]


def test_extended_resources_get_columns_of_their_own():
    names = [f"example.com/r{number}" for number in range(20)]
    table = table_of(make_node("a").capacity(dict.fromkeys(names, "3")).obj())
    table.add_pod(make_pod("p").req({names[7]: "2"}).obj(), "a")
    nodes = Nodes(table)
    assert [int(nodes.allocatable(name)[0]) for name in names] == [3] * 20
    assert int(nodes.free(names[7])[0]) == 1
    assert nodes.allocatable("example.com/unheard-of").tolist() == [0]


def test_resources_that_no_node_offers_get_no_column():
    table = table_of(make_node("a").capacity(cpu="4").obj())
    shape = table.requested.shape
    for number in range(100):
        table.add_pod(make_pod(f"p{number}").req({f"example.com/r{number}": "2"}).obj(), "a")
    assert table.requested.shape == shape
    assert Nodes(table).requested("example.com/r7").tolist() == [2]
    assert table.nodes[0].requested("example.com/r7") == 2
    assert Nodes(table).allocatable("example.com/r7").tolist() == [0]


def test_a_resource_that_a_node_offers_later_counts_the_pods_before():
    table = table_of(make_node("a").capacity(cpu="4").obj(), make_node("b").capacity(cpu="4").obj())
    pod, cursor = make_pod("p").req({"example.com/gpu": "2"}).obj(), table.cursor()
    table.add_pod(pod, "a")
    cursor.advance()
    table.add_node(make_node("b").capacity({"cpu": "4", "example.com/gpu": "8"}).obj())
    assert cursor.changed(10) == [0, 1]
    assert Nodes(table).requested("example.com/gpu").tolist() == [2, 0]
    assert int(table.pod_columns.amounts[0, table.slots["example.com/gpu"]]) == 2
    assert table.check() == []
    table.remove_pod(pod.uid)
    assert Nodes(table).requested("example.com/gpu").tolist() == [0, 0]


def test_a_resource_that_a_node_offers_later_counts_pods_whose_template_was_evicted(monkeypatch):
    monkeypatch.setattr("mooring.columns.templates._KEEP_IDLE_BYTES", 0)
    table = table_of(make_node("a").capacity(cpu="4").obj())
    pod = make_pod("p").req({"example.com/gpu": "2"}).obj()
    table.template(pod)
    table.templates._evict_at_bytes = 0
    table.template(make_pod("other").label(app="other").obj())
    assert len(table.templates) == 0
    table.add_node(make_node("b").capacity({"example.com/gpu": "8"}).obj())
    table.add_pod(pod, "b")
    assert Nodes(table).requested("example.com/gpu").tolist() == [0, 2]
    assert table.check() == []


def test_label_keys_that_no_node_has_get_no_column():
    table = table_of(make_node("a").label(zone="z").obj())
    column = table.label("rack")
    assert table.label("rack") is column
    assert Nodes(table).codes("rack").tolist() == [-1]
    for number in range(100):
        table.label(f"key-{number}")
    assert table.label_keys() == []
    assert list(table._unused_labels) == ["rack"]


def test_a_column_follows_its_key_when_nodes_get_and_lose_it():
    table = table_of(make_node("a").obj())
    column = table.label("rack")
    table.add_node(make_node("b").label(rack="r1").obj())
    assert table.label("rack") is column
    assert [column.values[code] if code >= 0 else None for code in Nodes(table).codes(column)] == [None, "r1"]
    table.update_node(make_node("b").label(row="1").obj())
    assert Nodes(table).codes(column).tolist() == [-1, -1]
    assert table.label("rack") is column
    for number in range(200):  # more rows than there is capacity for
        table.add_node(make_node(f"n{number}").obj())
    assert Nodes(table).codes(column).tolist() == [-1] * 202
    table.update_node(make_node("a").label(rack="r2").obj())
    assert int((Nodes(table).codes(column) >= 0).sum()) == 1
    assert table.check() == []


def test_removing_a_node_moves_the_last_row_into_its_place():
    table = table_of(*(make_node(name).label(zone=name).obj() for name in "abc"))
    table.add_pod(make_pod("p").req(cpu="1").obj(), "c")
    table.label("zone")
    table.remove_node("a")
    assert table.row_of == {"b": 1, "c": 0}
    assert table.nodes[0].name == "c"
    assert int(table.pod_count[0]) == 1
    assert table.check() == []


def test_pods_wait_for_a_node_that_is_not_known():
    table = table_of()
    table.add_pod(make_pod("p").req(cpu="1").node("late").obj())
    assert len(table.pod_columns) == 0
    table.add_node(make_node("late").capacity(cpu="2").obj())
    assert Nodes(table).requested("cpu").tolist() == [1000]
    table.remove_node("late")
    assert len(table) == 0
    table.add_node(make_node("late").capacity(cpu="2").obj())
    assert Nodes(table).requested("cpu").tolist() == [1000]


@pytest.mark.parametrize(
    ("change", "counts_otherwise"),
    [
        ({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}, False),
        ({"metadata": {"labels": {"app": "other"}}}, True),
        ({"metadata": {"annotations": {"a": "b"}}}, True),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True),
        ({"spec": {"priority": 7}}, True),
    ],
)
def test_only_what_counts_changes_a_row(change, counts_otherwise):
    table = NodeTable()
    table.add_node(make_node("n").obj())
    pod = make_pod("p").req(cpu="1").node("n").obj()
    table.add_pod(pod)
    before = table.changes.position
    raw = msgspec.to_builtins(pod)
    for part, fields in change.items():
        raw[part] = raw.get(part, {}) | fields
    changed = msgspec.convert(raw, Pod)
    table.add_pod(changed)
    assert (table.changes.position != before) is counts_otherwise
    assert table.pods[pod.uid].pod is changed
    assert table.pod_columns.starts[0] == start_of(changed)
    assert table.check() == []


def test_a_pod_that_only_gets_labels_stays_where_it_is(monkeypatch):
    """The API server labels every pod with the zone of its node when it is bound."""
    table = table_of(*(make_node(f"n{number}").label(zone=f"z{number % 3}").obj() for number in range(6)))
    with_zone = table.counters.counter((PodTerm(frozenset({"default"}), compile_selector(selector({"zone": "z1"}))),))
    pods = [make_pod(f"p{number}").label(app="a").req(cpu="1") for number in range(6)]
    for number, pod in enumerate(pods):
        table.add_pod(pod.node(f"n{number}").obj())
    infos = list(table.pods.values())
    removed: list[str] = []
    remove = table.remove_pod
    monkeypatch.setattr(table, "remove_pod", lambda uid: removed.append(uid) or remove(uid))
    for number, pod in enumerate(pods):
        before = table.changes.position
        table.add_pod(pod.label(app="a", zone=f"z{number % 3}").node(f"n{number}").obj())
        # Plugins of users may read the labels of pods.
        assert table.changes.rows[before - table.changes.position] == number
    # Only those that a counter counts otherwise are removed and added.
    assert removed == [infos[1].pod.uid, infos[4].pod.uid]
    assert dict(with_zone.rows.items()) == {1: 1, 4: 1}
    assert len({info.template for info in table.pods.values()}) == len(table.templates) - 1 == 3
    assert table.check() == []


def test_other_labels_change_no_row_if_nothing_reads_them():
    table = table_of(make_node("n").obj())
    table.marks_labels = False
    pod = make_pod("p").label(app="a").req(cpu="1")
    table.add_pod(pod.node("n").obj())
    before = table.changes.position
    table.add_pod(pod.label(app="a", zone="z").node("n").obj())
    assert table.changes.position == before
    assert table.pods[pod.obj().uid].labels == {"app": "a", "zone": "z"}
    assert table.check() == []
    table.add_pod(pod.label(app="a", zone="z").priority(1).node("n").obj())
    assert table.changes.position > before


def test_a_heartbeat_leaves_the_row_alone():
    node = make_node("a").capacity(cpu="1").obj()
    table = table_of(node)
    before = table.changes.position
    table.update_node(make_node("a").capacity(cpu="1").obj())
    assert table.changes.position == before
    table.update_node(make_node("a").capacity(cpu="2").obj())
    assert table.changes.position == before + 1


ZONES, APPS, NAMES = ("z1", "z2", None), ("web", "db", "cache"), tuple(f"n{i}" for i in range(6))


def term(app: str | None, namespaces: set[str], *, by_label: str | None = None) -> PodTerm:
    chosen = compile_selector(selector({"app": app})) if app else EVERYTHING
    chooser = compile_selector(selector({"team": by_label}) if by_label else None)
    return PodTerm(frozenset(namespaces), chosen, chooser)


def test_pods_of_a_list_are_added_together_or_none_of_them():
    """Those with host ports, or with a listener, are returned: they need more steps."""
    table = table_of(make_node("a").capacity(cpu="64").obj())
    pods = [make_pod(f"p{number}").req(cpu="1").node("a").obj() for number in range(20)]
    broken = msgspec.structs.replace(pods[10], status=PodStatus(start_time="yesterday"))
    with pytest.raises(ValueError, match="not a timestamp"):
        table.add_pods([*pods[:10], broken])
    assert (len(table.pods), table.pod_count[0], len(table.pod_columns)) == (0, 0, 0)

    cursor = table.cursor()
    cursor.advance()
    open_port = make_pod("q").port(80).node("a").obj()
    assert table.add_pods([*pods, open_port]) == [open_port]
    assert cursor.changed(100) == [0]
    assert (len(table.pods), table.pod_count[0], int(Nodes(table).requested("cpu")[0])) == (20, 20, 20_000)
    assert table.check() == []


class TableMachine(RuleBasedStateMachine):
    """Random events; after each the table must equal one built from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.count = 0

    @rule(
        name=st.sampled_from(NAMES),
        zone=st.sampled_from(ZONES),
        rack=st.booleans(),
        gpus=st.sampled_from([0, 0, 8]),
        cpu=st.integers(1, 64),
        tainted=st.booleans(),
    )
    def put_node(self, name, zone, rack, gpus, cpu, tainted):
        node = make_node(name).capacity(cpu=str(cpu), memory="8Gi", pods="20").image(f"img{cpu % 3}", size=cpu * 1000)
        if zone:
            node = node.label(zone=zone)
        if rack:
            node = node.label(rack="r")
        if gpus:
            node = node.capacity({"cpu": str(cpu), "memory": "8Gi", "pods": "20", "example.com/gpu": str(gpus)})
        if tainted:
            node = node.taint("dedicated", str(cpu % 2))
        self.table.add_node(node.obj())

    @rule(name=st.sampled_from(NAMES))
    def remove_node(self, name):
        if name in self.table.row_of:
            self.table.remove_node(name)

    @rule(
        name=st.sampled_from(NAMES),
        app=st.sampled_from(APPS),
        namespace=st.sampled_from(["one", "two"]),
        port=st.sampled_from([0, 80, 81]),
        kind=st.sampled_from(["plain", "anti", "near", "soft", "rack", "gpu"]),
        leaving=st.booleans(),
    )
    def add_pod(self, name, app, namespace, port, kind, leaving):
        self.table.add_pod(self.pod(name, app, namespace, port, kind, leaving))

    @rule(
        names=st.lists(st.sampled_from(NAMES), max_size=24),
        app=st.sampled_from(APPS),
        port=st.sampled_from([0, 0, 80]),
        kinds=st.sampled_from([["plain"], ["soft"], ["plain", "gpu"], ["anti", "rack", "near"]]),
        leaving=st.booleans(),
    )
    def add_pods(self, names, app, port, kinds, leaving):
        pods = [
            self.pod(name, app, "one", port, kinds[number % len(kinds)], leaving) for number, name in enumerate(names)
        ]
        for pod in self.table.add_pods(pods):
            self.table.add_pod(pod)
        assert {pod.uid for pod in pods} <= self.table.pods.keys()

    def pod(self, name, app, namespace, port, kind, leaving):
        self.count += 1
        pod = make_pod(f"p{self.count}", namespace).label(app=app).req(cpu="100m").node(name)
        if port:
            pod = pod.port(port)
        if kind == "anti":
            pod = pod.pod_anti_affinity("zone", {"app": app})
        elif kind == "near":
            pod = pod.pod_affinity("zone", {"app": app})
        elif kind == "rack":
            pod = pod.pod_anti_affinity("rack", {"app": app})
        elif kind == "gpu":
            pod = pod.req({"example.com/gpu": "1"})
        elif kind == "soft":
            pod = pod.preferred_pod_affinity(5, "zone", {"app": app})
        if leaving:
            pod = pod.terminating()
        return pod.obj()

    @rule(
        data=st.data(),
        app=st.sampled_from(APPS),
        zone=st.sampled_from(["z1", "z2"]),
        leaving=st.sampled_from([0, 0, 1]),
    )
    def label_pod(self, data, app, zone, leaving):
        if self.table.pods:
            old = self.table.pods[data.draw(st.sampled_from(sorted(self.table.pods)))].pod
            metadata = msgspec.structs.replace(old.metadata, labels={"app": app, "topology.kubernetes.io/zone": zone})
            if leaving:
                metadata = msgspec.structs.replace(metadata, deletion_timestamp="2026-01-01T00:00:00Z")
            self.table.add_pod(msgspec.structs.replace(old, metadata=metadata))

    @rule(data=st.data())
    def remove_pod(self, data):
        if self.table.pods:
            self.table.remove_pod(data.draw(st.sampled_from(sorted(self.table.pods))))

    @rule(name=st.sampled_from(["one", "two"]), team=st.sampled_from(["red", "blue", None]))
    def set_namespace(self, name, team):
        self.table.set_namespace(name, {"team": team} if team else None)

    @rule(app=st.sampled_from([*APPS, None]), living=st.booleans(), by_label=st.sampled_from([None, "red"]))
    def count_pods(self, app, living, by_label):
        counter = self.table.counters.counter((term(app, {"one"}, by_label=by_label),), living_only=living)
        counter.by_domain("zone")
        counter.by_domain("rack")

    @invariant()
    def equals_a_rebuild(self):
        assert self.table.check() == []


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_check_finds_a_wrong_column():
    table = table_of(make_node("a").capacity(cpu="1").obj())
    table.requested[0, 0] = np.int64(7)
    assert table.check() == ["node a: requested cpu is 7 instead of 0"]
