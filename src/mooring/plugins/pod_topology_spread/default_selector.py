"""The selector implied by a pod's services and controller, for default constraints.

Default spread constraints apply to the pods that belong together: those that the same services select and the same
ReplicaSet, StatefulSet or ReplicationController created. Services are indexed, since a namespace may have thousands;
the controller is looked up, since its status changes with every pod.

"""

from __future__ import annotations

from mooring.api.core import ReplicationController, Service
from mooring.api.label_selectors import Selector, SelectorError, compile_selector, selector_from_labels
from mooring.api.meta import LabelSelector, OwnerReference
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.columns.terms import SelectorIndex
from mooring.framework import Handle, PodTemplate

#: A controller's labels or selector of its pods; None if there is no (known) controller.
Choice = dict[str, str] | LabelSelector | None
#: The selector of pods without a service and a controller.
_EVERYTHING = selector_from_labels({})


class DefaultSelectors:
    """Derives selectors, and caches them per template until a service or the controller changes."""

    def __init__(self, handle: Handle) -> None:
        self._controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        #: Namespace -> its services, by selector.
        self._services: dict[str, SelectorIndex[Service]] = {}
        #: Increases when a service's selector changes.
        self.version = 0
        services = handle.lister(Service)
        for service in services.list():
            self._service_changed(None, service)
        services.listen(self._service_changed)

    def of(self, template: PodTemplate) -> Selector:
        """Return the selector of a template; it matches everything if there is no service or controller."""
        if not template.pod.metadata.owner_references and template.namespace not in self._services:
            return _EVERYTHING
        choice = self._controllers_choice(template) if template.pod.metadata.owner_references else None
        known = template.cache.get(self)
        if isinstance(known, _Kept) and known.version == self.version and known.choice == choice:
            return known.selector
        selector = self._deduce(template, choice)
        template.cache[self] = _Kept(self.version, choice, selector)
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
            self.version += 1

    def _index(self, service: Service) -> SelectorIndex[Service]:
        return self._services.setdefault(service.namespace, SelectorIndex())


class _Kept:
    __slots__ = ("choice", "selector", "version")

    def __init__(self, version: int, choice: Choice, selector: Selector) -> None:
        self.version = version
        self.choice = choice
        self.selector = selector


def _controller(template: PodTemplate) -> OwnerReference | None:
    """Return the owner that manages the pods of a template."""
    return next((owner for owner in template.pod.metadata.owner_references if owner.controller), None)
