"""Pod templates: the compiled parts that equal pods share.

Pods of one controller differ only in their names. Their requests, ports, terms and selectors are compiled once per
template, and results that plugins cache for one pod are reused for the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

import msgspec

from mooring.api.meta import ObjectMeta, plain_mapping
from mooring.api.node_selectors import RequiredNodeAffinity, required_node_affinity
from mooring.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from mooring.api.resources import RequestRules, container_host_ports, placed_pod_requests
from mooring.columns.terms import PodAffinityTerms, affinity_terms
from mooring.releases import Release

if TYPE_CHECKING:
    from mooring.columns.counters import PodCounter, TermCounter

T = TypeVar("T")
HostPort = tuple[str, str, int]
#: What decisions may depend on, except name, node and priority, encoded: the labels of a pod, since the API server adds
#: the zone of the node when it binds a pod; a part of the constraints; and the rest.
TemplateKey: TypeAlias = tuple[bytes, bytes, bytes]
#: Selectors, tolerations and so on, encoded; the host ports; and special requests and restart rules, encoded.
ConstraintsKey: TypeAlias = tuple[bytes, tuple[HostPort, ...], bytes]

_encode = msgspec.msgpack.Encoder().encode
_labels = plain_mapping(ObjectMeta, "labels")
_node_selector = plain_mapping(PodSpec, "node_selector")
_overhead = plain_mapping(PodSpec, "overhead")
_requests = plain_mapping(ResourceRequirements, "requests")
_allocated_resources = plain_mapping(PodStatus, "allocated_resources")
_CACHE = "_mooring_template"
_numbers = itertools.count(1)
_template_numbers = itertools.count(1)
#: The maximum number of cached templates without placed pods, and the maximum size of their keys. A template takes
#: about ten times the size of its key.
_KEEP_IDLE = 4096
_KEEP_IDLE_BYTES = 8 * 2**20
#: The lowest amount whose opposite fits into 64 bits.
_LOWEST: Final = 1 - 2**63
#: The start of the types of conditions of a pod that is being resized.
_RESIZE: Final = "PodResize"
#: Requests of these resources are not part of the constraints.
_AMOUNTS_ONLY: Final = frozenset(("cpu", "memory", "ephemeral-storage"))


class PodConstraints:
    """What pods require of a node except amounts of cpu, memory and storage: selectors, tolerations, ports, volumes.

    Templates with equal constraints share one, so that they share the results of plugins that read nothing else
    (``Plugin.template_part``). Labels, images, affinity between pods, and the namespace are not part of it.

    It has no cache of its own: pods refer to it, and the garbage collector does not find cycles through pods.
    """

    __slots__ = ("__weakref__", "key", "templates")

    def __init__(self, key: ConstraintsKey) -> None:
        self.key = key
        #: How many templates have these constraints.
        self.templates = 0


class PodTemplate:
    """The parts that equal pods share, compiled once: requests, ports, labels and selectors. See ``handle.template``.

    Attributes:
        pod: A pod of this template; read only what all its pods share.
        namespace: The namespace of the pods.
        labels: The labels of the pods.
        requests: The requests by resource: millicores for cpu, whole units for the rest, rounded up.
        nonzero: The requests of cpu and memory, with defaults of 100m and 200Mi for containers without requests.
        host_ports: The address, protocol and port of every host port.
        cache: A cache for plugins, with the plugin as (part of) the key. ``kept`` is simpler.
        constraints: What the pods require of a node except amounts. Templates with equal constraints share it.
    """

    __slots__ = (
        "__weakref__",
        "_affinity",
        "_exact_namespaces",
        "_key",
        "_requirement",
        "_resource_key",
        "cache",
        "constraints",
        "counters",
        "counters_epoch",
        "host_ports",
        "namespace",
        "nonzero",
        "number",
        "placed",
        "pod",
        "registry_number",
        "requests",
        "scalars",
        "term_counters",
        "terminating",
    )

    # Set by the registry.
    constraints: PodConstraints
    _key: TemplateKey  # unique in the registry

    def __init__(self, pod: Pod, release: Release, rules: RequestRules) -> None:
        self._start(pod)
        requests, nonzero = placed_pod_requests(pod, rules)
        self.requests: dict[str, int] = _negatable(requests)
        self.nonzero: tuple[int, int] = (max(nonzero.get("cpu", 0), _LOWEST), max(nonzero.get("memory", 0), _LOWEST))
        ports = container_host_ports(pod)
        self.host_ports: tuple[HostPort, ...] = (
            tuple((port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port) for port in ports)
            if ports
            else ()
        )
        self._affinity: PodAffinityTerms | None = None
        self._exact_namespaces = release.namespace_selector_is_exact
        self._requirement: RequiredNodeAffinity | None = None
        self._resource_key = b""

    def _start(self, pod: Pod) -> None:
        """Set what no other template shares."""
        # A copy, since the pod refers to its template and the garbage collector does not track pods.
        self.pod = msgspec.structs.replace(pod)
        #: The pods' namespace.
        self.namespace = pod.metadata.namespace or "default"
        self.cache: dict[object, object] = {}
        #: A number that no other template has.
        self.number = next(_template_numbers)
        # The registry owns the following.
        #: The registry that created the template, since a pod may be in several tables. A number avoids a reference.
        self.registry_number = 0
        # The node table owns the following.
        #: Row -> pods of this template, and those of them that are terminating. Dictionaries of numbers, which the
        #: garbage collector does not track, as all that a template has many of.
        self.placed: dict[int, int] = {}
        #: See ``placed``.
        self.terminating: dict[int, int] = {}
        #: The counters that count pods of this template, and the version of the table's counters when they were found.
        self.counters: tuple[PodCounter, ...] = ()
        #: See ``counters``.
        self.counters_epoch = -1
        #: The counters of this template's affinity terms.
        self.term_counters: tuple[TermCounter, ...] | None = None
        #: The amounts by slot, for resources that a node offers.
        self.scalars: dict[int, int] = {}

    def relabelled(self, pod: Pod) -> PodTemplate:
        """Return the template of a pod that differs by its labels only. It shares what was compiled."""
        other = PodTemplate.__new__(PodTemplate)
        other._start(pod)
        other.requests, other.nonzero, other.host_ports = self.requests, self.nonzero, self.host_ports
        other._affinity, other._exact_namespaces = self._affinity, self._exact_namespaces
        other._requirement, other._resource_key = self._requirement, self._resource_key
        other.constraints, other.scalars = self.constraints, self.scalars
        return other

    def differs_by_labels(self, other: PodTemplate) -> bool:
        """Return whether another template of the registry differs by its labels only."""
        return self._key[1:] == other._key[1:]

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the pods, read-only."""
        return self.pod.metadata.labels

    @property
    def affinity(self) -> PodAffinityTerms:
        """The pod's compiled affinity and anti-affinity terms."""
        if self._affinity is None:
            self._affinity = affinity_terms(self.pod, exact_namespaces=self._exact_namespaces)
        return self._affinity

    def share_affinity(self, other: PodTemplate) -> None:
        """Use the compiled affinity of another template if the terms are equal: the API server labels bound pods."""
        if self._affinity is not None or other._affinity is None or self.namespace != other.namespace:
            return
        if self._exact_namespaces == other._exact_namespaces and self.pod.spec.affinity == other.pod.spec.affinity:
            self._affinity = other._affinity

    @property
    def node_requirement(self) -> RequiredNodeAffinity:
        """The compiled nodeSelector and required node affinity."""
        if self._requirement is None:
            self._requirement = required_node_affinity(self.pod)
        return self._requirement

    @property
    def resource_key(self) -> bytes:
        """A key that is equal for templates with equal requests."""
        if not self._resource_key:
            self._resource_key = resource_key(self.pod)
        return self._resource_key

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached value of a key; ``make`` computes it on first use.

        ``template.kept(self, lambda: compile(pod))`` computes once per template what depends on the template only.
        """
        value = self.cache.get(key)
        if value is None:
            value = self.cache[key] = make()
        return value  # type: ignore[return-value]  # the key implies the type


class TemplateListener(Protocol):
    """A cache that refers to templates."""

    def template_dropped(self, template: PodTemplate) -> None:
        """Drop what belongs to a template."""


class TemplateRegistry:
    """The templates of pods. Equal pods share one."""

    def __init__(self, prepare: Callable[[PodTemplate], None], release: Release) -> None:
        self._release = release
        self._rules = RequestRules.of(release)
        #: The rules for pods on a node.
        self._placed_rules = RequestRules.of(release, claims=True)
        self._templates: dict[TemplateKey, PodTemplate] = {}
        self._constraints: dict[ConstraintsKey, PodConstraints] = {}
        self._number = next(_numbers)
        #: The template that was found last by its key: the next pod is often of the same controller.
        self._last: PodTemplate | None = None
        self._prepare = prepare
        self._evict_at = 2 * _KEEP_IDLE
        self._bytes = 0
        self._evict_at_bytes = 2 * _KEEP_IDLE_BYTES
        #: Notified when a template is dropped, so that they drop it too.
        self.listeners: WeakSet[TemplateListener] = WeakSet()

    def of(self, pod: Pod) -> PodTemplate:
        """Return the pod's template."""
        attributes = pod.__dict__
        known: PodTemplate | None = attributes.get(_CACHE)
        if known is not None and known.registry_number == self._number:
            return known
        last = self._last
        if (
            last is not None
            and _labels(last.pod.metadata) == _labels(pod.metadata)
            and last.registry_number == self._number
            and _alike(last.pod, pod)
        ):
            attributes[_CACHE] = last
            return last
        key = template_key(pod)
        template = self._templates.get(key)
        if template is None:
            template = PodTemplate(pod, self._release, self._placed_rules if pod.spec.node_name else self._rules)
            template._key = key
            template.constraints = self._constraints_of(template)
            self._prepare(template)
            self._add(template)
        self._last = attributes[_CACHE] = template
        return template

    def of_update(self, old: Pod, new: Pod) -> PodTemplate:
        """Return the template of a new version of a pod: without its key if nothing that the key contains differs."""
        if not _alike(old, new):
            return self.of(new)
        template = self.of(old)
        if template.registry_number != self._number:  # it is too large to be kept
            return self.of(new)
        labels = _labels(new.metadata)
        if _labels(template.pod.metadata) != labels:
            template = self._relabelled(template, _encode(labels), new)
        new.__dict__[_CACHE] = template
        return template

    def _relabelled(self, known: PodTemplate, labels: bytes, pod: Pod) -> PodTemplate:
        """Return the template of a pod that differs from those of a known one by its labels only."""
        _, constraints, rest = known._key
        key = labels, constraints, rest
        template = self._templates.get(key)
        if template is None:
            template = known.relabelled(pod)
            template._key = key
            template.constraints.templates += 1
            self._add(template)
        return template

    def _add(self, template: PodTemplate) -> None:
        template.registry_number = self._number
        self._templates[template._key] = template
        self._bytes += _size(template._key)
        if len(self._templates) > self._evict_at or self._bytes > self._evict_at_bytes:
            self._evict()

    def _constraints_of(self, template: PodTemplate) -> PodConstraints:
        """Return the constraints of a new template."""
        key = constraints_key(template)
        constraints = self._constraints.get(key)
        if constraints is None:
            constraints = self._constraints[key] = PodConstraints(key)
        constraints.templates += 1
        return constraints

    def _drop(self, template: PodTemplate) -> None:
        """Drop what belongs to a template that is no longer registered."""
        template.registry_number = 0  # a pod that still refers to it looks up a new one
        constraints = template.constraints
        constraints.templates -= 1
        if not constraints.templates:
            del self._constraints[constraints.key]
        for listener in self.listeners:
            listener.template_dropped(template)

    def _evict(self) -> None:
        """Drop the oldest templates without pods. The cost is amortized, so that many distinct pods stay cheap."""
        kept = size = 0
        for key in [key for key in reversed(self._templates) if not self._templates[key].placed]:
            length = _size(key)
            kept, size = kept + 1, size + length
            if kept > _KEEP_IDLE or size > _KEEP_IDLE_BYTES:
                self._drop(self._templates.pop(key))
                self._bytes -= length
        self._evict_at = 2 * max(_KEEP_IDLE, len(self._templates))
        self._evict_at_bytes = 2 * max(_KEEP_IDLE_BYTES, self._bytes)

    def renew(self) -> None:
        """Prepare all templates again, because a resource was assigned a slot. Pods look up their template again."""
        self._number = next(_numbers)
        for template in self._templates.values():
            template.registry_number = self._number
            template.cache.clear()
            self._prepare(template)

    def forget_answers(self) -> None:
        """Clear the results that plugins cached with templates, because plugins were replaced."""
        for template in self._templates.values():
            template.cache.clear()

    def __len__(self) -> int:
        return len(self._templates)


def _alike(one: Pod, other: Pod) -> bool:
    """Return whether pods differ at most in their labels, and in what the key of a template does not contain."""
    mine, theirs = one.metadata, other.metadata
    return (
        one.spec == other.spec
        and mine.namespace == theirs.namespace
        and mine.owner_references == theirs.owner_references
        and not _has_given(one)
        and not _has_given(other)
    )


def _size(key: TemplateKey) -> int:
    labels, constraints, rest = key
    return len(labels) + len(constraints) + len(rest)


def template_key(pod: Pod) -> TemplateKey:
    """Return a key of everything that decisions may depend on, except name, node and priority."""
    spec, metadata = pod.spec, pod.metadata
    affinity = spec.affinity
    near = far = nodes = None
    if affinity is not None:
        near, far, nodes = affinity.pod_affinity, affinity.pod_anti_affinity, affinity.node_affinity
    constraints = (
        _node_selector(spec),
        nodes,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.volumes,
        spec.resource_claims,
        spec.host_network,
        spec.host_users,
    )
    rest: list[object] = [
        metadata.namespace or "default",
        metadata.owner_references,
        spec.containers,
        spec.init_containers,
        near,
        far,
        _overhead(spec),
        spec.resources,
    ]
    if _has_given(pod):
        rest += _given(pod)
    return _encode(_labels(metadata)), _encode(constraints), _encode(rest)


def constraints_key(template: PodTemplate) -> ConstraintsKey:
    """Return a key of everything that plugins with ``template_part = "constraints"`` read of a pod."""
    spec = template.pod.spec
    special = _special(spec.containers)
    if spec.init_containers or _overhead(spec):
        special += [_special(spec.init_containers), _overhead(spec)]
    return template._key[1], template.host_ports, _encode(special) if special else b""


def _special(containers: Iterable[Container]) -> list[object]:
    """Return the restart rules of containers, and their requests of other resources than cpu, memory and storage."""
    return [
        (
            {name: asked for name, asked in _requests(container.resources).items() if name not in _AMOUNTS_ONLY},
            container.restart_policy,
            container.restart_policy_rules,
        )
        for container in containers
        if container.restart_policy_rules or not _AMOUNTS_ONLY.issuperset(_requests(container.resources))
    ]


def resource_key(pod: Pod) -> bytes:
    """Return a key of everything that a pod's requests depend on."""
    spec = pod.spec
    parts: list[object] = [_overhead(spec), spec.resources]
    parts += [_requests(container.resources) for container in spec.containers]
    if spec.init_containers:
        parts += [(_requests(container.resources), container.restart_policy) for container in spec.init_containers]
    if _has_given(pod):
        parts += [[container.name for container in spec.containers], spec.init_containers, *_given(pod)]
    return _encode(parts)


def _has_given(pod: Pod) -> bool:
    """Return whether the node has reported resources that it allocated (pods can be resized in place)."""
    status = pod.status
    if (
        status.container_statuses
        or status.init_container_statuses
        or status.resources is not None
        or _allocated_resources(status)
        or (status.node_allocatable_resource_claim_statuses and pod.spec.node_name)
    ):
        return True
    for condition in status.conditions:
        if condition.type.startswith(_RESIZE):
            return True
    return False


def _given(pod: Pod) -> list[object]:
    """Return the resources that the node has allocated."""
    status = pod.status
    return [
        [(c.name, c.allocated_resources, c.resources) for c in status.container_statuses],
        [(c.name, c.allocated_resources, c.resources) for c in status.init_container_statuses],
        status.resources,
        status.allocated_resources,
        [each for each in status.conditions if each.type.startswith(_RESIZE)],
        # While a pod waits, its devices are those of an attempt that failed.
        status.node_allocatable_resource_claim_statuses if pod.spec.node_name else (),
    ]


def _negatable(amounts: dict[str, int]) -> dict[str, int]:
    """Return amounts that can be subtracted: a request of 2^63 overflows to -2^63, which has no opposite."""
    for amount in amounts.values():
        if amount < _LOWEST:
            return {name: max(amount, _LOWEST) for name, amount in amounts.items()}
    return amounts
