"""Permissions: what a plugin needs to be allowed, as rules of a role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.framework.custom_resources import CustomResource
from mooring.framework.declared import declared_kinds
from mooring.framework.plugin import Plugin

#: What an informer does.
READING = ("get", "list", "watch")


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule of a ClusterRole: ``Rule(("metrics.k8s.io",), ("nodes",), ("get", "list"))``."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(value) for name, value in shown.items()}


def rules_of(classes: Iterable[type[Plugin]]) -> tuple[Rule, ...]:
    """What plugins need: to read the custom resources that they declare, and what they ask for."""
    classes = tuple(classes)
    resources: dict[str, set[str]] = {}
    for kind in declared_kinds(classes):
        if issubclass(kind, CustomResource):
            resources.setdefault(kind.declaration.group, set()).add(kind.declaration.plural)
    found = [Rule((group,), tuple(sorted(names)), READING) for group, names in sorted(resources.items())]
    found += [rule for cls in classes for rule in cls.permissions]
    return tuple(dict.fromkeys(found))
