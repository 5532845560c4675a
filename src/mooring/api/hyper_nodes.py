"""Volcano's HyperNodes: the topology of a cluster's network, as a tree of domains with tiers."""

from typing import Final

from msgspec import field

from mooring.api.meta import Condition, KubeObject, LabelSelector, Model

TOPOLOGY_GROUP: Final = "topology.volcano.sh"
TOPOLOGY_VERSION: Final = f"{TOPOLOGY_GROUP}/v1alpha1"


class ExactMatch(Model, kw_only=True):
    """Selects one member by name."""

    name: str = ""


class RegexMatch(Model, kw_only=True):
    """Selects nodes whose names match a regular expression."""

    pattern: str = ""


class MemberSelector(Model, kw_only=True):
    """Selects the members of a HyperNode; exactly one field is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Model, kw_only=True):
    """Members of a HyperNode: nodes (``type: Node``) or HyperNodes of a lower tier (``type: HyperNode``)."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Model, kw_only=True):
    """The tier of a HyperNode and its members. The network within a lower tier is faster."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNodeStatus(Model, kw_only=True):
    """The status of a HyperNode."""

    conditions: tuple[Condition, ...] = ()
    node_count: int = 0


class HyperNode(KubeObject, kw_only=True):
    """A domain of the network: nodes below one switch, or several smaller domains."""

    api_version: str = field(default_factory=lambda: TOPOLOGY_VERSION)
    kind: str = field(default_factory=lambda: "HyperNode")
    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
