"""Discovery of HyperNodes from node labels, and the configuration of all sources (volcano-controller.conf)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mooring.api.hyper_nodes import ExactMatch, HyperNode, HyperNodeMember, HyperNodeSpec, MemberSelector
from mooring.api.label_validation import label_key_errors, label_value_errors
from mooring.api.meta import ObjectMeta
from mooring.api.yaml_reader import read_documents
from mooring.apiserver.object_names import dns_subdomain
from mooring.config.durations import SECOND, DurationError, parse_duration

#: The label of discovered HyperNodes, and its value for those from node labels. Only these are changed and deleted.
SOURCE_LABEL: Final = "volcano.sh/network-topology-source"
SOURCE: Final = "label"
#: The value for HyperNodes from a UFM server.
UFM: Final = "ufm"
#: The maximum number of discovered HyperNodes.
MAX_HYPER_NODES: Final = 10_000
_MAX_NAME: Final = 20
#: The interval between two requests to a server, in seconds, as in Volcano, and the minimum.
_DEFAULT_INTERVAL, _MIN_INTERVAL = 3600.0, 1.0
_MAX_TIERS: Final = 16
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")


class NetworkTopology(msgspec.Struct, frozen=True):
    """A type of topology: its name, and the node label of each tier, the lowest tier first."""

    name: str
    labels: tuple[str, ...]

    def prefix(self, tier: int) -> str:
        """Return the beginning of the names of the HyperNodes of a tier."""
        return f"hypernode-{_NOT_IN_NAMES.sub('-', self.name.lower())}-tier{tier}-"


class _NodeLabel(msgspec.Struct, rename="camel"):
    node_label: str


class _LabelConfig(msgspec.Struct, rename="camel"):
    network_topology_types: dict[str, list[_NodeLabel]] = {}


class UfmSettings(msgspec.Struct, frozen=True):
    """The settings of discovery from a UFM server: its URL, the Secret with the credentials, and the interval."""

    endpoint: str
    secret_namespace: str
    secret_name: str
    verify: bool = True
    #: In seconds.
    interval: float = 3600.0


class TopologySettings(msgspec.Struct, frozen=True):
    """The sources of HyperNodes: types of topology by node labels, and a UFM server."""

    topologies: tuple[NetworkTopology, ...] = ()
    ufm: UfmSettings | None = None


class _SecretRef(msgspec.Struct):
    name: str
    namespace: str


class _Credentials(msgspec.Struct, rename="camel"):
    secret_ref: _SecretRef | None = None


class _UfmConfig(msgspec.Struct, rename="camel"):
    endpoint: str = ""
    insecure_skip_verify: bool = False


class _Source(msgspec.Struct):
    source: str
    enabled: bool = False
    interval: str | int = 0
    credentials: _Credentials | None = None
    config: dict[str, Any] = {}


class _Config(msgspec.Struct, rename="camel"):
    network_topology_discovery: list[_Source] = []


def read_topologies(text: str, warn: Callable[[str], None]) -> TopologySettings:
    """Read volcano-controller.conf. Raises ValueError with the field of an error.

    ``warn`` is called for each source that is enabled but not supported, and for settings that are not secure.
    """
    document = next(iter(read_documents(text)), None)
    found: list[NetworkTopology] = []
    ufm: UfmSettings | None = None
    seen: set[str] = set()
    for index, each in enumerate(msgspec.convert(document or {}, _Config).network_topology_discovery):
        field = f"networkTopologyDiscovery[{index}]"
        if not each.enabled:
            continue
        if each.source not in (SOURCE, UFM):
            warn(f"{field}: the source {each.source} is not supported; only {SOURCE} and {UFM} are")
        elif each.source in seen:
            raise ValueError(f"{field}: the source {each.source} occurs twice; use one of them")
        elif each.source == UFM:
            ufm = _ufm(each, field, warn)
        else:
            types = msgspec.convert(each.config, _LabelConfig).network_topology_types
            found = [_topology(name, [label.node_label for label in labels]) for name, labels in types.items()]
        seen.add(each.source)
    _check_together(found)
    return TopologySettings(tuple(found), ufm)


def _ufm(source: _Source, field: str, warn: Callable[[str], None]) -> UfmSettings:
    config = msgspec.convert(source.config, _UfmConfig)
    secret = None if source.credentials is None else source.credentials.secret_ref
    if secret is None or not secret.name or not secret.namespace:
        raise ValueError(f"{field}.credentials.secretRef: name the Secret with the keys username and password")
    endpoint = config.endpoint.rstrip("/")
    if "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    where = urlsplit(endpoint)
    if where.scheme not in ("http", "https") or not where.hostname or "@" in where.netloc or where.query:
        raise ValueError(
            f"{field}.config.endpoint: write the URL of the UFM server, such as https://ufm.example.com, without a user"
        )
    if where.scheme == "http":
        warn(f"{field}.config.endpoint: the credentials are sent without encryption; use https")
    elif config.insecure_skip_verify:
        warn(f"{field}.config.insecureSkipVerify: anybody can answer for the UFM server and read the credentials")
    return UfmSettings(
        endpoint=endpoint,
        secret_namespace=secret.namespace,
        secret_name=secret.name,
        verify=not config.insecure_skip_verify,
        interval=_interval(source.interval, field),
    )


def _interval(value: str | int, field: str) -> float:
    """Return the seconds of an interval; a number is in nanoseconds, as in Volcano."""
    try:
        seconds = (parse_duration(value) if isinstance(value, str) else value) / SECOND
    except DurationError as error:
        raise ValueError(f"{field}.interval: {error}") from None
    if seconds <= 0:
        return _DEFAULT_INTERVAL
    return max(seconds, _MIN_INTERVAL)


def _topology(name: str, labels: list[str]) -> NetworkTopology:
    """Return a type of topology. The last label is that of single nodes, which are no HyperNodes."""
    field = f"networkTopologyTypes.{name}"
    topology = NetworkTopology(name, tuple(reversed(labels[:-1])))
    if len(name) > _MAX_NAME or dns_subdomain(f"{topology.prefix(1)}0"):
        raise ValueError(
            f"{field}: the name must have at most {_MAX_NAME} characters and be a part of an object's name"
        )
    if not 2 <= len(labels) <= _MAX_TIERS + 1:
        raise ValueError(
            f"{field}: list the label of each tier from the highest to the lowest, at most {_MAX_TIERS}, "
            "and at last kubernetes.io/hostname"
        )
    for label in labels:
        if errors := label_key_errors(label):
            raise ValueError(f"{field}: {label!r} is not a label: {errors[0]}")
        if label == SOURCE_LABEL or labels.count(label) > 1:
            reason = "is reserved" if label == SOURCE_LABEL else "occurs twice"
            raise ValueError(f"{field}: the label {label} {reason}; remove it")
    return topology


def _check_together(topologies: Iterable[NetworkTopology]) -> None:
    tiers: dict[str, tuple[int, str]] = {}
    prefixes: dict[str, str] = {}
    for each in topologies:
        other = prefixes.setdefault(each.prefix(1), each.name)
        if other != each.name:
            raise ValueError(f"networkTopologyTypes: the names {other} and {each.name} are too similar; rename one")
        for tier, label in enumerate(each.labels, 1):
            known, name = tiers.setdefault(label, (tier, each.name))
            if known != tier:
                raise ValueError(
                    f"networkTopologyTypes: the label {label} is tier {known} of {name} and tier {tier} of "
                    f"{each.name}; use different labels"
                )


class Discovery(msgspec.Struct, frozen=True):
    """The HyperNodes that follow from the labels of nodes, by name, and what is wrong with the labels."""

    hyper_nodes: dict[str, HyperNode]
    warnings: list[str]


class _Found:
    """A HyperNode while it is discovered."""

    __slots__ = ("label", "members", "parents", "tier", "value")

    def __init__(self, tier: int, label: str, value: str) -> None:
        self.tier, self.label, self.value = tier, label, value
        self.members: set[str] = set()
        #: How many nodes name each parent.
        self.parents: Counter[str] = Counter()


def discover(
    nodes: Iterable[tuple[str, Mapping[str, str]]],
    topologies: Iterable[NetworkTopology],
    existing: Mapping[str, HyperNode],
) -> Discovery:
    """Return the HyperNodes of nodes, given by name and labels. Names of existing HyperNodes are reused.

    A HyperNode has one parent. If its nodes disagree, the parent of most nodes counts, so that a single node with a
    wrong label does not break the tree.
    """
    topologies = tuple(topologies)
    names = _Names(existing)
    found: dict[str, _Found] = {}
    invalid: set[str] = set()
    for node, labels in sorted(nodes, key=lambda each: each[0]):
        for topology in topologies:
            below: _Found | None = None
            for tier, label in enumerate(topology.labels, 1):
                value = labels.get(label)
                if value is None:
                    break
                if not value or label_value_errors(value):
                    invalid.add(f"{node} ({label})")
                    break
                name = names.of(topology, tier, label, value)
                if name is None:
                    break
                at = found.setdefault(name, _Found(tier, label, value))
                if below is None:
                    at.members.add(node)
                else:
                    below.parents[name] += 1
                below = at
    warnings = list(names.warnings)
    if invalid:
        warnings.append(f"nodes have empty or invalid labels, which are ignored: {some_of(invalid)}")
    _join(found, warnings)
    return Discovery({name: _hyper_node(name, each) for name, each in found.items() if each.members}, warnings)


def _join(found: Mapping[str, _Found], warnings: list[str]) -> None:
    """Make each HyperNode a member of its parent, from the lowest tier to the highest."""
    disputed = set()
    for name, each in sorted(found.items(), key=lambda item: (item[1].tier, item[0])):
        if len(each.parents) > 1:
            disputed.add(f"{each.label}={each.value}")
        if each.parents and each.members:
            parent = min(each.parents, key=lambda other: (-each.parents[other], other))
            found[parent].members.add(name)
    if disputed:
        text = "nodes of one HyperNode have different labels of the tier above; those of most nodes are used"
        warnings.append(f"{text}: {some_of(disputed)}")


def _hyper_node(name: str, found: _Found) -> HyperNode:
    labels = {SOURCE_LABEL: SOURCE, found.label: found.value}
    return hyper_node(name, found.tier, found.members, labels, tier_name=found.label)


def hyper_node(
    name: str, tier: int, members: Iterable[str], labels: dict[str, str], *, tier_name: str = ""
) -> HyperNode:
    """Return a HyperNode; its members are nodes in tier 1, and HyperNodes above."""
    kind = "Node" if tier == 1 else "HyperNode"
    selectors = [MemberSelector(exact_match=ExactMatch(name=each)) for each in sorted(members)]
    named = tuple(HyperNodeMember(type=kind, selector=each) for each in selectors)
    return HyperNode(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=named),
    )


class _Names:
    """The names of HyperNodes by label and value. A name never changes once the HyperNode exists."""

    def __init__(self, existing: Mapping[str, HyperNode]) -> None:
        self._existing = existing
        self._names: dict[tuple[str, str], str | None] = {}
        self._taken: set[str] = set()
        self._discovered: dict[tuple[str, str], list[str]] = {}
        self.warnings: list[str] = []
        for name, each in sorted(existing.items()):
            if each.labels.get(SOURCE_LABEL) == SOURCE:
                for pair in each.labels.items():
                    self._discovered.setdefault(pair, []).append(name)

    def of(self, topology: NetworkTopology, tier: int, label: str, value: str) -> str | None:
        """Return the name; None if an object that was not discovered has it."""
        pair = (label, value)
        if pair not in self._names:
            self._names[pair] = self._new(topology.prefix(tier), pair)
        return self._names[pair]

    def _new(self, prefix: str, pair: tuple[str, str]) -> str | None:
        known = (name for name in self._discovered.get(pair, ()) if name.startswith(prefix))
        name = next((each for each in known if each not in self._taken), None)
        if name is None:
            name = prefix + hashlib.sha256("=".join(pair).encode()).hexdigest()[:16]
            other = self._existing.get(name)
            if name in self._taken or (other is not None and other.labels.get(SOURCE_LABEL) != SOURCE):
                text = f"HyperNode {name}, the name for {'='.join(pair)}, was not created by discovery"
                self.warnings.append(f"{text} and is not changed; delete it")
                return None
        self._taken.add(name)
        return name


def some_of(values: set[str]) -> str:
    """Return the first values of a set as text."""
    first = sorted(values)[:3]
    more = len(values) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
