"""Matching of a pod's unbound claims with free volumes, per group of nodes.

Claims are matched in order of size, smallest first, and each takes the smallest sufficient volume that is left. The
reachable volumes depend on the node, so matching runs once for each group of nodes that the volumes' affinities do not
distinguish.

"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mooring.api.label_selectors import Selector, SelectorError, compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework import Nodes
from mooring.plugins.volume_binding.volume_index import NodeGroups, VolumeEntry, VolumeIndex, storage_of
from mooring.plugins.volumes.pod_volumes import claim_class


class MatchError(ValueError):
    """A claim cannot be matched; the text is kube-scheduler's."""


class Candidates(NamedTuple):
    """The candidate volumes of a claim: those that refer to it, and free ones, smallest first."""

    claim: PersistentVolumeClaim
    claimed: list[VolumeEntry]
    free: list[VolumeEntry]


class Match(NamedTuple):
    """The volume of a claim in each group of nodes; missing groups have none."""

    claim: PersistentVolumeClaim
    volumes: dict[int, VolumeEntry]


def match_claims(
    claims: Iterable[PersistentVolumeClaim], index: VolumeIndex, nodes: Nodes
) -> tuple[NodeGroups, list[Match]]:
    """Match the claims in order and return their volumes. Raises MatchError."""
    ordered = sorted(claims, key=lambda claim: storage_of(claim.spec.resources.requests))
    candidates = [candidates_of(claim, index) for claim in ordered]
    entries = (entry for each in candidates for entry in (*each.claimed, *each.free))
    keys = {entry.reach.keys for entry in entries if entry.reach is not None}
    groups = NodeGroups(nodes, {key for some in keys for key in some})
    matches: list[Match] = []
    for each in candidates:
        matches.append(Match(each.claim, _choose(each, groups, _Taken(matches) if matches else None)))
    return groups, matches


def candidates_of(claim: PersistentVolumeClaim, index: VolumeIndex) -> Candidates:
    """Return the volumes that satisfy a claim, ignoring their node affinity."""
    spec, class_name = claim.spec, claim_class(claim)
    selector = _selector(claim)
    size, mode = storage_of(spec.resources.requests), spec.volume_mode or "Filesystem"
    attributes, modes = spec.volume_attributes_class_name or "", frozenset(spec.access_modes)
    claimed = [
        entry
        for entry in index.claimed(class_name, claim.namespace, claim.name)
        if entry.capacity >= size
        and entry.mode == mode
        and entry.attributes_class == attributes
        and is_bound_to(entry.volume, claim)
    ]
    free = [
        entry
        for entry in index.free(class_name, size)
        if entry.mode == mode
        and entry.attributes_class == attributes
        and modes <= entry.access_modes
        and (selector is None or selector.matches(entry.volume.labels))
    ]
    return Candidates(claim, claimed, free)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume refers to a claim: by name, and by uid if it has one."""
    ref = volume.spec.claim_ref
    if ref is None or (ref.name, ref.namespace) != (claim.name, claim.namespace):
        return False
    return not ref.uid or ref.uid == claim.uid


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return compile_selector(claim.spec.selector)
    except SelectorError as error:
        place = f"{claim.namespace}/{claim.name}"
        raise MatchError(f"error creating internal label selector for claim: {place}: {error}") from None


class _Taken:
    """The volumes that earlier claims took, by group."""

    __slots__ = ("_matches", "_names")

    def __init__(self, matches: list[Match]) -> None:
        self._matches = tuple(matches)
        self._names = {entry.name for match in matches for entry in match.volumes.values()}

    def at(self, group: int, entry: VolumeEntry) -> bool:
        """Return whether a volume is taken in a group."""
        return entry.name in self._names and any(match.volumes.get(group) is entry for match in self._matches)


def _choose(candidates: Candidates, groups: NodeGroups, taken: _Taken | None) -> dict[int, VolumeEntry]:
    """Return the volume of a claim in each group, given the volumes that earlier claims took."""
    found: dict[int, VolumeEntry] = {}
    undecided = set(groups.present)
    for entry in candidates.claimed:
        # A volume that refers to the claim takes precedence: where it is unreachable, the claim has no volume.
        decided = undecided if taken is None else {group for group in undecided if not taken.at(group, entry)}
        found.update(dict.fromkeys(decided.intersection(groups.within(entry.reach)), entry))
        undecided = undecided - decided
    for entry in candidates.free:
        if not undecided:
            break
        for group in groups.within(entry.reach):
            if group in undecided and (taken is None or not taken.at(group, entry)):
                undecided.discard(group)
                found[group] = entry
    return found
