"""Defaults and validation of pod groups (scheduling.volcano.sh)."""

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.volcano import NetworkTopology, PodGroup
from mooring.apiserver.documents import Document
from mooring.apiserver.volcano_admission.jobs import TWO_TIERS
from mooring.apiserver.volcano_admission.queues import DEFAULT, QueueTree, group_queue_error

#: The annotation of a namespace with the queue of its pod groups.
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
_TIERS: Final = f"{TWO_TIERS}."


def set_group_defaults(document: Document, namespace_annotations: Mapping[str, str]) -> None:
    """Set the queue of a new pod group in the default queue to that of its namespace, in place."""
    spec = document.get("spec") or {}
    if spec.get("queue") == DEFAULT and QUEUE_ANNOTATION in namespace_annotations:
        spec["queue"] = namespace_annotations[QUEUE_ANNOTATION]


def group_errors(group: PodGroup, tree: QueueTree) -> list[str]:
    """Return the errors of a new pod group."""
    queue_error = group_queue_error(group.spec.queue, tree)
    return [*([queue_error] if queue_error else []), *_topology_errors(group)]


def _topology_errors(group: PodGroup) -> Iterator[str]:
    if _names_two_tiers(group.spec.network_topology):
        yield _TIERS
    for policy in group.spec.sub_group_policy:
        if _names_two_tiers(policy.network_topology):
            yield f"in subGroupPolicy '{policy.name}': {_TIERS}"
            return


def _names_two_tiers(topology: NetworkTopology | None) -> bool:
    return topology is not None and topology.highest_tier_allowed is not None and bool(topology.highest_tier_name)
