"""The definition of HyperNode (topology.volcano.sh), equivalent to Volcano's."""

from __future__ import annotations

from mooring.api.hyper_nodes import TOPOLOGY_GROUP
from mooring.controllers.definitions.structural_schema import (
    SUBDOMAIN,
    Schema,
    column,
    condition,
    definition,
    label_selector,
    listed,
    made_of,
    name,
    text,
)

_ANY_MEMBER = {"rule": "has(self.members)", "message": "member must have at least one member"}
_ONE_SELECTOR = (
    {
        "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
        "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
    },
    {
        "rule": "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) <= 1",
        "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
    },
)


def _members() -> Schema:
    selector = made_of(
        {
            "exactMatch": made_of({"name": name(minLength=1, pattern=SUBDOMAIN)}, required=("name",)),
            "regexMatch": made_of({"pattern": text(minLength=1)}, required=("pattern",)),
            "labelMatch": label_selector(),
        },
    )
    selector["x-kubernetes-validations"] = list(_ONE_SELECTOR)
    return listed(made_of({"type": text("Node", "HyperNode"), "selector": selector}, required=("type",)), minItems=1)


def _status() -> Schema:
    return made_of(
        {"conditions": listed(condition()), "nodeCount": {"type": "integer", "format": "int64", "minimum": 0}}
    )


HYPER_NODE = definition(
    TOPOLOGY_GROUP,
    "v1alpha1",
    "HyperNode",
    properties={
        "spec": made_of(
            {"tier": {"type": "integer", "minimum": 0}, "tierName": name(), "members": _members()},
            required=("tier",),
            **{"x-kubernetes-validations": [_ANY_MEMBER]},
        ),
        "status": _status(),
    },
    columns=(
        column("Tier", ".spec.tier"),
        column("TierName", ".spec.tierName"),
        column("NodeCount", ".status.nodeCount", "integer"),
        column("Age", ".metadata.creationTimestamp", "date"),
    ),
    short_names=("hn",),
    namespaced=False,
    status=True,
)
