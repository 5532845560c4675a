"""Claim plans: the requests of claims, compiled once for all claims with the same content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from mooring.api.devices import (
    ALL_DEVICES,
    EXACT_COUNT,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.capacity import Amount, consumption
from mooring.plugins.dynamic_resources.pools import DeviceContent
from mooring.plugins.dynamic_resources.selectors import SelectorError, Selectors
from mooring.releases import Release

if TYPE_CHECKING:
    from mooring.plugins.dynamic_resources.device_expressions import DerivedAttribute, Selector

#: Stand for the key and the name of a claim, and for a device and its name, in the messages of a plan.
CLAIM, CLAIM_NAME, DEVICE, DEVICE_NAME = "\0c", "\0n", "\0d", "\0e"
#: The limit of the API on the devices of a claim.
MOST_DEVICES: Final = 32
#: The limit of the API on the alternatives of a request; the first alternative scores as much.
MOST_ALTERNATIVES: Final = 8
_DERIVED_GATE: Final = "DRADerivedAttributes"


class AllocationError(ValueError):
    """The search has to stop: a selector fails, or a request cannot be handled.

    The text is kube-scheduler's, with placeholders for the claim and the device.
    """

    def __init__(self, text: str, claim: int = 0, device: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.text = text
        #: The number of the claim.
        self.claim = claim
        #: The pool and the place of the device.
        self.device = device

    def render(self, claims: Sequence[ResourceClaim], device: Callable[[tuple[int, int]], str]) -> str:
        """Return the text for some claims."""
        text = self.text
        if self.device is not None:
            full = device(self.device)
            text = text.replace(DEVICE, full).replace(DEVICE_NAME, full.rpartition("/")[2])
        claim = claims[self.claim]
        return text.replace(CLAIM, claim.key).replace(CLAIM_NAME, claim.name)


class RequestPlan:
    """A request, or an alternative of a prioritized list."""

    def __init__(
        self,
        request: ExactDeviceRequest | DeviceSubRequest,
        name: str,
        parent: str,
        device_class: DeviceClass | None,
        selectors: Selectors,
        release: Release,
    ) -> None:
        self.release = release
        self.has_capacity = allocator_features(release).consumable_capacity
        #: The name without the list.
        self.bare_name = name
        #: The name of the list or, outside of lists, of the request.
        self.base_name = parent or name
        self.alternative = name if parent else ""
        self.name = f"{parent}/{name}" if parent else name
        self.device_class = device_class
        self.takes_all = request.allocation_mode == ALL_DEVICES
        self.count = request.count
        self.admin = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations = request.tolerations
        requested = request.capacity.requests if request.capacity is not None and self.has_capacity else {}
        self.requested = {name: Amount.of(text) for name, text in requested.items()}
        self.problem = self._check(request)
        self._selectors = self._compile(request, selectors) if not self.problem else ()
        #: Full name -> the attribute that the request derives from others. The gate is on, or there is a problem.
        self._derived: dict[str, DerivedAttribute] = {}
        if not self.problem and release.enabled(_DERIVED_GATE):
            self._derived = {each.name: selectors.derived(each.expression) for each in request.derived_attributes}
        #: Content -> whether its devices can be selected, and what they would consume.
        self._selectable: dict[int, bool] = {}
        self._consumption: dict[int, dict[str, Amount] | None] = {}
        self._tolerated: dict[int, bool] = {}

    def _check(self, request: ExactDeviceRequest | DeviceSubRequest) -> str:
        """Return why the request cannot be handled."""
        where = f"claim {CLAIM}, request {self.bare_name}"
        is_refused = self.release.refuses_alpha_device_fields and not self.release.enabled(_DERIVED_GATE)
        if request.derived_attributes and is_refused:
            return f"{where}: cannot handle request with derived attributes, the feature is disabled"
        for number, selector in enumerate(request.selectors):
            if selector.cel is None:
                return f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
        name = request.device_class_name
        if not name:
            return f"{where}: missing device class name (unsupported request type?)"
        if self.device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{where}: could not retrieve device class {name}: {missing}"
        if request.allocation_mode not in (EXACT_COUNT, ALL_DEVICES):
            return f"{where}: unsupported count mode {request.allocation_mode}"
        return ""

    def _compile(
        self, request: ExactDeviceRequest | DeviceSubRequest, selectors: Selectors
    ) -> tuple[tuple[Selector, str, str], ...]:
        assert self.device_class is not None
        sources: tuple[tuple[str, tuple[DeviceSelector, ...]], ...] = (
            (f"class {self.device_class.name}", self.device_class.spec.selectors),
            (f"claim {CLAIM}", request.selectors),
        )
        return tuple(
            (
                selectors.of(text := each.cel.expression if each.cel is not None else ""),
                f"{where}: selector #{number}",
                text,
            )
            for where, given in sources
            for number, each in enumerate(given)
        )

    def selects(self, content: DeviceContent, claim: int, device: tuple[int, int]) -> bool:
        """Return whether the selectors of the class and of the request match. Raises AllocationError."""
        found = self._selectable.get(content.number)
        if found is None:
            found = self._selectable[content.number] = self._select(content, claim, device)
        return found

    def _select(self, content: DeviceContent, claim: int, device: tuple[int, int]) -> bool:
        for selector, where, _ in self._selectors:
            try:
                if not selector.matches(content):
                    return False
            except SelectorError as error:
                place = f" on device {DEVICE}" if error.names_device else ""
                raise AllocationError(f"{where}{place}: {error}", claim, device) from None
        return True

    def first_mismatch(self, content: DeviceContent) -> str:
        """Return the first selector that does not match, or that fails, for explanations; empty if all match."""
        for selector, where, text in self._selectors:
            try:
                if not selector.matches(content):
                    return f"{where} does not match: {text}"
            except SelectorError as error:
                return f"{where}: {error}"
        return ""

    def attribute(
        self, name: str, content: DeviceContent, claim: int, device: tuple[int, int]
    ) -> DeviceAttribute | None:
        """Return an attribute of a device, derived or its own, for a constraint. Raises AllocationError."""
        derived = self._derived.get(name)
        if derived is None:
            return content.attribute(name)
        if derived.error:
            raise AllocationError(f"compile derived attribute {name} failed: {derived.error}", claim, device)
        try:
            return derived.of(content)
        except SelectorError as error:
            text = f"evaluate derived attribute {name} on device {DEVICE} failed: {error}"
            raise AllocationError(text, claim, device) from None

    def consumption(self, content: DeviceContent) -> dict[str, Amount] | None:
        """Return what the request consumes of a device's capacity; None if the device cannot serve it.

        Raises CapacityError.
        """
        try:
            return self._consumption[content.number]
        except KeyError:
            found = self._consumption[content.number] = consumption(self.requested, content.capacities, self.release)
            return found

    def tolerates(self, content: DeviceContent) -> bool:
        """Return whether the request tolerates all taints of a device."""
        found = self._tolerated.get(content.number)
        if found is None:
            found = all(any(_tolerates(each, taint) for each in self.tolerations) for taint in content.taints)
            self._tolerated[content.number] = found
        return found

    def first_untolerated(self, content: DeviceContent) -> DeviceTaint | None:
        """Return the first taint of a device that the request does not tolerate, for explanations."""
        return next((each for each in content.taints if not any(_tolerates(t, each) for t in self.tolerations)), None)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


class ConstraintPlan:
    """A constraint of a claim."""

    def __init__(self, constraint: DeviceConstraint, release: Release) -> None:
        self.is_match = constraint.match_attribute is not None
        self.attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        is_distinct = constraint.distinct_attribute is not None and not allocator_features(release).is_oldest
        self.is_empty = not self.is_match and not is_distinct
        self._requests = frozenset(constraint.requests)

    def covers(self, request: RequestPlan) -> bool:
        """Return whether the constraint applies to a request."""
        names = self._requests
        return not names or request.base_name in names or (bool(request.alternative) and request.name in names)


def attribute_value(attribute: DeviceAttribute) -> tuple[str, object] | None:
    """Return the type and value of an attribute; None for a type that cannot be compared."""
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return None if attribute.version is None else ("version", attribute.version)


def attribute_values(attribute: DeviceAttribute) -> tuple[str, frozenset[object]] | None:
    """Return the type and the set of values of an attribute, which may be a list; None without a known value."""
    lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    scalars = (attribute.int_, attribute.bool_, attribute.string, attribute.version)
    for name, values in zip(("int", "bool", "string", "version"), lists, strict=True):
        if values:
            return name, frozenset(values)
    for name, value in zip(("int", "bool", "string", "version"), scalars, strict=True):
        if value is not None:
            return name, frozenset((value,))
    return None


class ClaimPlan:
    """The requests and constraints of a claim."""

    def __init__(
        self,
        spec: ResourceClaimSpec,
        classes: Callable[[str], DeviceClass | None],
        selectors: Selectors,
        release: Release,
    ) -> None:
        self.spec = spec
        self.release = release
        self.requests = tuple(_alternatives(each, classes, selectors, release) for each in spec.devices.requests)
        self.is_list = tuple(bool(each.first_available) for each in spec.devices.requests)
        self.constraints = tuple(ConstraintPlan(each, release) for each in spec.devices.constraints)


def _alternatives(
    request: DeviceRequest, classes: Callable[[str], DeviceClass | None], selectors: Selectors, release: Release
) -> tuple[RequestPlan, ...]:
    if request.first_available:
        plans = tuple(
            RequestPlan(each, each.name, request.name, classes(each.device_class_name), selectors, release)
            for each in request.first_available
        )
        named = [f"subrequest {each.name}" for each in request.first_available if each.capacity is not None]
    else:
        exact = request.exactly if request.exactly is not None else ExactDeviceRequest()
        plans = (RequestPlan(exact, request.name, "", classes(exact.device_class_name), selectors, release),)
        named = [f"request {request.name}"] if exact.capacity is not None else []
    features = allocator_features(release)
    if named and not features.consumable_capacity and not features.is_oldest:
        cause = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        plans[0].problem = f"claim {CLAIM}, {named[0]}: {cause}"  # before the problems of single alternatives
    return plans


def allocated_score(claim: ResourceClaim) -> int:
    """Return the score of the alternatives in an earlier allocation."""
    assert claim.status.allocation is not None
    chosen = {result.request for result in claim.status.allocation.devices.results}
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in chosen
    )
