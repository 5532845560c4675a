"""The selector that a pod's services and its controller imply, for constraints that come without one.

Default spread constraints are meant for the pods that belong together: those that the same services reach and the same
ReplicaSet, StatefulSet or ReplicationController made. Services are indexed, since a namespace may have thousands; the
controller is looked up, since its status changes with every pod.
"""

from __future__ import annotations

from mooring.api.core import ReplicationController, Service
from mooring.api.meta import LabelSelector, OwnerReference
from mooring.api.selectors import Selector, SelectorError, compile_selector, selector_from_labels
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.columns.terms import SelectorIndex
from mooring.framework import Handle, PodTemplate

#: What a controller says about its pods: labels to have, or a selector; None where there is no (known) controller.
Choice = dict[str, str] | LabelSelector | None


class DefaultSelectors:
    """Deduces selectors, and remembers them per template until a service or the controller changes."""

    def __init__(self, handle: Handle) -> None:
        self._controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        #: Namespace -> its services, by selector.
        self._services: dict[str, SelectorIndex[Service]] = {}
        #: Rises when a service starts or stops to reach pods.
        self._version = 0
        services = handle.lister(Service)
        for service in services.list():
            self._service_changed(None, service)
        services.listen(self._service_changed)

    def of(self, template: PodTemplate) -> Selector:
        """The selector for a pod's like; it takes everything if nothing is known about them."""
        choice = self._controllers_choice(template) if template.pod.metadata.owner_references else None
        known = template.cache.get(self)
        if isinstance(known, _Kept) and known.version == self._version and known.choice == choice:
            return known.selector
        selector = self._deduce(template, choice)
        template.cache[self] = _Kept(self._version, choice, selector)
        return selector

    def _deduce(self, template: PodTemplate, choice: Choice) -> Selector:
        labels: dict[str, str] = {}
        services = self._services.get(template.namespace)
        for service in services.candidates(template.labels) if services is not None else ():
            wanted = service.spec.selector or {}
            if selector_from_labels(wanted).matches(template.labels):
                labels |= wanted
        if isinstance(choice, dict):
            return selector_from_labels(labels | choice)
        selector = selector_from_labels(labels)
        if choice is None:
            return selector
        try:
            return selector.with_requirements(*compile_selector(choice).requirements)
        except SelectorError:
            return selector

    def _controllers_choice(self, template: PodTemplate) -> Choice:
        owner = _controller(template)
        if owner is None:
            return None
        group, _, version = owner.api_version.rpartition("/")
        match group, version, owner.kind:
            case "", "v1", "ReplicationController":
                controller = self._controllers.get(owner.name, template.namespace)
                return None if controller is None else controller.spec.selector
            case "apps", "v1", "ReplicaSet":
                replica_set = self._replica_sets.get(owner.name, template.namespace)
                return None if replica_set is None else replica_set.spec.selector
            case "apps", "v1", "StatefulSet":
                stateful_set = self._stateful_sets.get(owner.name, template.namespace)
                return None if stateful_set is None else stateful_set.spec.selector
        return None

    def _service_changed(self, old: Service | None, new: Service | None, /) -> None:
        before = None if old is None else old.spec.selector
        after = None if new is None else new.spec.selector
        if old is not None and before is not None:
            self._index(old).remove(selector_from_labels(before), old)
        if new is not None and after is not None:
            self._index(new).add(selector_from_labels(after), new)
        if before != after:
            self._version += 1

    def _index(self, service: Service) -> SelectorIndex[Service]:
        return self._services.setdefault(service.namespace, SelectorIndex())


class _Kept:
    __slots__ = ("choice", "selector", "version")

    def __init__(self, version: int, choice: Choice, selector: Selector) -> None:
        self.version = version
        self.choice = choice
        self.selector = selector


def _controller(template: PodTemplate) -> OwnerReference | None:
    """The owner that manages the pods of a template."""
    return next((owner for owner in template.pod.metadata.owner_references if owner.controller), None)
