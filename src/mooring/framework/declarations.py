"""What a plugin class declares: the kinds that it reads, the events that requeue its pods, the permissions it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.codec import KINDS
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.custom_resources import CustomResource, event_name
from mooring.framework.events import ActionType, ClusterEvent, Hint, QueueingHint
from mooring.framework.listers import Lister
from mooring.framework.plugin import Plugin, Rule
from mooring.releases import Release

#: (apiVersion, kind) -> the classes that its objects are decoded into; several if several plugins declare the kind.
CustomKinds = Mapping[tuple[str, str], tuple[type[CustomResource], ...]]


def declared_listers(cls: type) -> dict[str, Lister[Any]]:
    """Return the listers that a plugin class declares, by attribute."""
    found: dict[str, Lister[Any]] = {}
    for owner in reversed(cls.__mro__):
        for name, member in vars(owner).items():
            if isinstance(member, Lister):
                found[name] = member
            else:
                found.pop(name, None)
    return found


def declared_kinds(classes: Iterable[type[Plugin]], release: Release | None = None) -> tuple[type[KubeObject], ...]:
    """Return the kinds that plugin classes read through listers, without duplicates.

    With a release, kinds whose feature gate is off are omitted.
    """
    listers = (lister for cls in classes for lister in declared_listers(cls).values())
    kinds = (each.kind for each in listers if release is None or not each.gate or release.enabled(each.gate))
    return tuple(dict.fromkeys(kind for kind in kinds if kind is not None))


def permitted_kinds(classes: Iterable[type[Plugin]]) -> tuple[type[KubeObject], ...]:
    """Return the kinds that the permissions of plugin classes must include, because the classes read them."""
    listers = (lister for cls in classes for lister in declared_listers(cls).values())
    kinds = (lister.kind for lister in listers if not lister.permitted_by)
    return tuple(dict.fromkeys(kind for kind in kinds if kind is not None))


def custom_kinds(classes: Iterable[type[Plugin]]) -> CustomKinds:
    """Return the custom resources that plugin classes read, by apiVersion and kind."""
    found: dict[tuple[str, str], tuple[type[CustomResource], ...]] = {}
    for kind in declared_kinds(classes):
        if issubclass(kind, CustomResource):
            key = (kind.declaration.api_version, kind.declaration.kind)
            found[key] = (*found.get(key, ()), kind)
    return found


def declared_events(plugin: Plugin, registered: Iterable[ClusterEvent]) -> list[ClusterEvent]:
    """Return the events that requeue a plugin's pods because of its listers, unless it registers for the kind."""
    named = {event.resource for event in registered}
    found = []
    for lister in declared_listers(type(plugin)).values():
        if lister.kind is None or not lister.events or event_name(lister.kind) in named:
            continue
        found.append(ClusterEvent(event_name(lister.kind), ActionType(lister.events), _hint(plugin, lister)))
    return found


def _hint(plugin: Plugin, lister: Lister[Any]) -> QueueingHint:
    kind, method = lister.kind, lister.hint
    assert kind is not None

    def hint(pod: Pod, old: Any, new: Any) -> Hint:
        # Another plugin may declare another class for the same resource; ignore its objects.
        if not isinstance(old if new is None else new, kind):
            return Hint.SKIP
        if method is None:
            return Hint.QUEUE
        answer: Hint = method(plugin, pod, old, new)
        return answer

    return hint


def check_listers(cls: type) -> list[tuple[str, str]]:
    """Return the errors in the listers of a plugin class: attribute and message."""
    problems = []
    for name, lister in declared_listers(cls).items():
        kind = lister.kind
        if kind in (Node, Pod):
            use = "self.handle.nodes" if kind is Node else "self.handle.pods"
            problems.append((name, f"'{name} = Lister({kind.__name__})': read {use}, which every plugin has"))
        elif not (isinstance(kind, type) and issubclass(kind, KubeObject)):
            text = f"'{name} = Lister(...)': give it the class of a custom resource, or a kind of mooring.api"
            problems.append((name, text))
        elif kind is CustomResource or not (issubclass(kind, CustomResource) or kind in KINDS.values()):
            text = f"'{name} = Lister({kind.__name__})': declare the kind as a subclass of CustomResource"
            problems.append((name, text))
    return problems


#: The verbs of an informer.
READING = ("get", "list", "watch")


def rules_of(classes: Iterable[type[Plugin]]) -> tuple[Rule, ...]:
    """Return the RBAC rules of plugins: to read the custom resources they list, and what they declare."""
    classes = tuple(classes)
    resources: dict[str, set[str]] = {}
    for kind in permitted_kinds(classes):
        if issubclass(kind, CustomResource):
            resources.setdefault(kind.declaration.group, set()).add(kind.declaration.plural)
    found = [Rule((group,), tuple(sorted(names)), READING) for group, names in sorted(resources.items())]
    found += [rule for cls in classes for rule in cls.permissions]
    return tuple(dict.fromkeys(found))
