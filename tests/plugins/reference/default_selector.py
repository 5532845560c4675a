"""The selector that services and the controller of a pod imply, found by looking at all of them."""

from __future__ import annotations

import contextlib

from mooring.api.label_selectors import Selector, SelectorError, compile_selector, selector_from_labels
from mooring.api.pod import Pod
from tests.plugins.reference.cluster import Cluster


def default_selector(pod: Pod, cluster: Cluster) -> Selector:
    labels: dict[str, str] = {}
    for service in cluster.services:
        wanted = service.spec.selector
        if service.namespace != pod.namespace or wanted is None:
            continue
        if all(pod.labels.get(key) == value for key, value in wanted.items()):
            labels.update(wanted)
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return selector_from_labels(labels)
    kind = (owner.api_version, owner.kind)
    if kind == ("v1", "ReplicationController"):
        for controller in cluster.controllers:
            if controller.name == owner.name and controller.namespace == pod.namespace:
                labels.update(controller.spec.selector or {})
        return selector_from_labels(labels)
    selector = selector_from_labels(labels)
    owners = {("apps/v1", "ReplicaSet"): cluster.replica_sets, ("apps/v1", "StatefulSet"): cluster.stateful_sets}
    for each in owners.get(kind, []):
        if each.name == owner.name and each.namespace == pod.namespace:
            with contextlib.suppress(SelectorError):
                selector = selector.with_requirements(*compile_selector(each.spec.selector).requirements)
    return selector
