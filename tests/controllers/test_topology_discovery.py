"""Discovery of HyperNodes from node labels: the configuration, names, tiers, and labels that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import ObjectMeta
from mooring.controllers.topology_discovery import (
    SOURCE_LABEL,
    NetworkTopology,
    TopologySettings,
    UfmSettings,
    discover,
    read_topologies,
)

#: The label source of Volcano's example.
VOLCANO = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: 10m
  credentials: {secretRef: {name: ufm-credentials, namespace: volcano-system}}
  config: {endpoint: "https://ufm-server:8080"}
- source: roce
  enabled: false
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      topologyA2:
      - nodeLabel: volcano.sh/tor
      - nodeLabel: kubernetes.io/hostname
      topologyA3:
      - nodeLabel: volcano.sh/hypercluster
      - nodeLabel: volcano.sh/hypernode
      - nodeLabel: kubernetes.io/hostname
"""
ZONES = NetworkTopology("Zone_1", ("rack", "zone"))


def test_volcanos_configuration_is_read_from_the_lowest_tier_to_the_highest() -> None:
    warnings: list[str] = []
    assert read_topologies(VOLCANO, warnings.append) == TopologySettings(
        (
            NetworkTopology("topologyA2", ("volcano.sh/tor",)),
            NetworkTopology("topologyA3", ("volcano.sh/hypernode", "volcano.sh/hypercluster")),
        ),
        UfmSettings("https://ufm-server:8080", "volcano-system", "ufm-credentials", verify=True, interval=600.0),
    )
    assert warnings == []
    assert read_topologies(VOLCANO.replace("enabled: true", "enabled: false"), warnings.append) == TopologySettings()
    enabled = VOLCANO.replace("source: roce\n  enabled: false", "source: roce\n  enabled: true")
    assert read_topologies(enabled, warnings.append)
    assert warnings == ["networkTopologyDiscovery[1]: the source roce is not supported; only label and ufm are"]
    assert read_topologies("", warnings.append) == TopologySettings()


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ("{t: [{nodeLabel: kubernetes.io/hostname}]}", "networkTopologyTypes.t: list the label of each tier"),
        ("{t: [{nodeLabel: a}, {nodeLabel: a}]}", "the label a occurs twice"),
        ("{t: [{nodeLabel: a/b/c}, {nodeLabel: h}]}", "'a/b/c' is not a label"),
        (f"{{t: [{{nodeLabel: {SOURCE_LABEL}}}, {{nodeLabel: h}}]}}", "is reserved"),
        (f"{{{'t' * 21}: [{{nodeLabel: a}}, {{nodeLabel: h}}]}}", "at most 20 characters"),
        ("{t.: [{nodeLabel: a}, {nodeLabel: h}]}", "a part of an object's name"),
        ("{t: [{nodeLabel: 7}]}", "Expected `str`, got `int`"),
        ("{T: [{nodeLabel: a}, {nodeLabel: h}], t: [{nodeLabel: b}, {nodeLabel: h}]}", "T and t are too similar"),
        (
            "{s: [{nodeLabel: a}, {nodeLabel: h}], t: [{nodeLabel: a}, {nodeLabel: b}, {nodeLabel: h}]}",
            "the label a is tier 1 of s and tier 2 of t",
        ),
    ],
)
def test_errors_name_the_field(types: str, error: str) -> None:
    source = f"{{source: label, enabled: true, config: {{networkTopologyTypes: {types}}}}}"
    with pytest.raises(ValueError, match=error):
        read_topologies(f"networkTopologyDiscovery: [{source}]", pytest.fail)


def test_two_label_sources_are_an_error() -> None:
    one = "{source: label, enabled: true, config: {networkTopologyTypes: {t: [{nodeLabel: a}, {nodeLabel: h}]}}}"
    with pytest.raises(ValueError, match=r"networkTopologyDiscovery\[1\]: the source label occurs twice"):
        read_topologies(f"networkTopologyDiscovery: [{one}, {one}]", pytest.fail)


Nodes = Mapping[str, Mapping[str, str]]


def shape(found: Mapping[str, HyperNode]) -> dict[str, tuple[int, list[str]]]:
    """Return the tier and the members of each HyperNode, named by the value of its label."""
    value = {name: each.labels[each.spec.tier_name] for name, each in found.items()}
    result = {}
    for name, each in found.items():
        exact = [(member.type, member.selector.exact_match) for member in each.spec.members]
        assert {kind for kind, _ in exact} == {"Node" if each.spec.tier == 1 else "HyperNode"}
        members = [match.name for _, match in exact if match is not None]
        assert members == sorted(members)
        result[value[name]] = each.spec.tier, sorted(value.get(member, member) for member in members)
    return result


def test_nodes_are_members_of_the_lowest_tier_and_hyper_nodes_of_the_others() -> None:
    nodes: Nodes = {
        "a": {"rack": "r1", "zone": "z", "region": "e"},
        "b": {"rack": "r1", "zone": "z", "region": "e"},
        "c": {"rack": "r2", "zone": "z", "region": "e"},
        "d": {"rack": "r3"},  # without a zone
        "e": {"zone": "z", "region": "e"},  # without a rack: in no HyperNode
    }
    found = discover(nodes.items(), [NetworkTopology("t", ("rack", "zone", "region"))], {})
    assert found.warnings == []
    expected = {"r1": (1, ["a", "b"]), "r2": (1, ["c"]), "r3": (1, ["d"]), "z": (2, ["r1", "r2"]), "e": (3, ["z"])}
    assert shape(found.hyper_nodes) == expected
    for name, each in found.hyper_nodes.items():
        assert name == each.name
        assert name.startswith(f"hypernode-t-tier{each.spec.tier}-")
        assert each.labels[SOURCE_LABEL] == "label"


def test_existing_names_are_kept_and_objects_of_others_are_left_alone() -> None:
    labels = {SOURCE_LABEL: "label", "rack": "r1"}
    volcanos = HyperNode(metadata=ObjectMeta(name="hypernode-zone-1-tier1-x7k2p", labels=labels))
    nodes = {"a": {"rack": "r1"}, "b": {"rack": "r2"}}
    found = discover(nodes.items(), [ZONES], {volcanos.name: volcanos}).hyper_nodes
    assert volcanos.name in found
    (other,) = found.keys() - {volcanos.name}
    foreign = HyperNode(metadata=ObjectMeta(name=other))
    again = discover(nodes.items(), [ZONES], {volcanos.name: volcanos, other: foreign})
    assert again.hyper_nodes.keys() == {volcanos.name}
    (warning,) = again.warnings
    assert f"HyperNode {other}, the name for rack=r2, was not created by discovery" in warning


def test_a_node_with_a_wrong_label_does_not_break_the_tree() -> None:
    nodes: Nodes = {
        "a": {"rack": "r1", "zone": "z1"},
        "b": {"rack": "r1", "zone": "z1"},
        "c": {"rack": "r1", "zone": "z2"},
    }
    found = discover(nodes.items(), [ZONES], {})
    assert shape(found.hyper_nodes) == {"r1": (1, ["a", "b", "c"]), "z1": (2, ["r1"])}
    (warning,) = found.warnings
    assert warning.endswith("those of most nodes are used: rack=r1")


def test_invalid_values_are_ignored_with_one_warning() -> None:
    nodes: Nodes = {f"n{i}": {"rack": value} for i, value in enumerate(["", "-", "x" * 64, "a b", "good"])}
    found = discover(nodes.items(), [ZONES], {})
    assert shape(found.hyper_nodes) == {"good": (1, ["n4"])}
    text = "nodes have empty or invalid labels, which are ignored: n0 (rack), n1 (rack), n2 (rack) and 1 more"
    assert found.warnings == [text]
