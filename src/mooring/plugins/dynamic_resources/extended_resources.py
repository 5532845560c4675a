"""Extended resources that a DeviceClass provides: which class, and the requests of the claim for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.api.devices import (
    DEVICE_CLASS_PREFIX,
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from mooring.api.meta import ObjectMeta, OwnerReference, parse_time
from mooring.api.pod import Container, ContainerExtendedResourceRequest, Pod
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.api.resources import is_extended
from mooring.framework import Lister

#: The name of the claim for extended resources before it is created.
SPECIAL_NAME = "<extended-resources>"


def is_device_resource(name: str) -> bool:
    """Return whether a DeviceClass may provide a resource."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def device_resources(pod: Pod) -> tuple[str, ...]:
    """Return the resources that a pod requests and that a DeviceClass may provide."""
    return tuple(name for name, amount in pod.requests.items() if amount and is_device_resource(name))


class ExtendedResources:
    """The class of each extended resource that a DeviceClass provides."""

    def __init__(self, lister: Lister[DeviceClass]) -> None:
        self._classes: dict[str, DeviceClass] = {}
        #: Increases with every change.
        self.version = 0
        for each in lister.list():
            self._changed(None, each)
        lister.listen(self._changed)

    def get(self, resource: str) -> DeviceClass | None:
        """Return the class that provides a resource."""
        return self._classes.get(resource)

    def __bool__(self) -> bool:
        return bool(self._classes)

    def _changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self.version += 1
        if new is None:
            if old is not None:
                self._remove(old)
            return
        name = new.spec.extended_resource_name
        rival = self._classes.get(name) if name is not None else None
        if rival is not None and _loses(new, rival):
            return  # as upstream does, it does not get its implicit name either
        if old is not None:
            self._remove(old)
        if name is not None:
            self._classes[name] = new
        self._classes[DEVICE_CLASS_PREFIX + new.name] = new

    def _remove(self, old: DeviceClass) -> None:
        self._classes.pop(DEVICE_CLASS_PREFIX + old.name, None)
        if old.spec.extended_resource_name is not None:
            self._classes.pop(old.spec.extended_resource_name, None)


def _loses(new: DeviceClass, known: DeviceClass) -> bool:
    """Return whether a class does not replace another one for the same resource: the newer wins, then the name."""
    mine, theirs = _created(new), _created(known)
    return mine < theirs or (mine == theirs and new.name >= known.name)


def _created(item: DeviceClass) -> float:
    return parse_time(item.metadata.creation_timestamp) if item.metadata.creation_timestamp else float("-inf")


def special_claim(pod: Pod, uid: str) -> ResourceClaim:
    """Return the claim for a pod's extended resources, which exists in memory only."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=SPECIAL_NAME,
            generate_name=f"{pod.name}-extended-resources-",
            namespace=pod.namespace,
            uid=uid,
            annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            owner_references=(owner,),
        )
    )


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]
) -> tuple[tuple[DeviceRequest, ...], tuple[ContainerExtendedResourceRequest, ...]]:
    """Return the requests for some extended resources, and which request serves which container.

    Init containers reuse the devices of containers that start later. Of what they need in addition, only the largest
    request is made, because they run one after another.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    plain = [n for n, each in enumerate(pod.spec.init_containers) if not each.is_sidecar]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        class_name = classes[resource].name
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        for number, container in enumerate(containers):
            if number not in plain:
                lasting[number], more = _container_request(number, container, resource, class_name, ())
                mappings += more
        largest, first_mappings = _init_requests(plain, containers, resource, class_name, lasting)
        requests += [each for each in (largest, *lasting) if each is not None]
        mappings += first_mappings
    return tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings)


def _init_requests(
    plain: Sequence[int],
    containers: Sequence[Container],
    resource: str,
    class_name: str,
    lasting: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    largest: DeviceRequest | None = None
    names: set[str] = set()
    mappings: list[ContainerExtendedResourceRequest] = []
    for number in plain:
        made, more = _container_request(number, containers[number], resource, class_name, lasting[number:])
        mappings += more
        if made is not None:
            names.add(made.name)
            if largest is None or _count(largest) < _count(made):
                largest = made
    if largest is None:
        return None, mappings
    return largest, [
        ContainerExtendedResourceRequest(
            container_name=each.container_name, resource_name=each.resource_name, request_name=largest.name
        )
        if each.request_name in names
        else each
        for each in mappings
    ]


def _container_request(
    number: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """Return the request of a container for a resource, beyond what it can reuse, and its mappings."""
    asked = container.resources.requests
    wanted = _whole(asked[resource]) if resource in asked else 0
    mappings: list[ContainerExtendedResourceRequest] = []
    if not wanted:
        return None, mappings

    def mapped(request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=resource, request_name=request
        )

    have = 0
    for each in reusable:
        if each is not None:
            have += _count(each)
            mappings.append(mapped(each.name))
            if have >= wanted:
                return None, mappings
    name = f"container-{number}-request-{sorted(asked).index(resource)}"
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=wanted - have)
    mappings.append(mapped(name))
    return DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _whole(text: QuantityLike) -> int:
    """Return an amount if it is a whole number, otherwise 0."""
    amount = parse_quantity(text)
    whole = amount.scaled(0)
    same = not amount.exceeds(parse_quantity(whole)) and not parse_quantity(whole).exceeds(amount)
    return whole if same else 0
