"""VolumeBinding's Filter: bound claims by the node affinity of their volumes, unbound claims by matching volumes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import value
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework import Handle, Nodes
from mooring.plugins.volume_binding.assume_cache import AssumeCache
from mooring.plugins.volume_binding.claims import SELECTED_NODE
from mooring.plugins.volume_binding.matching import Match, match_claims
from mooring.plugins.volume_binding.provisioning import Provisioner
from mooring.plugins.volume_binding.scoring import StorageScorer, StorageUse
from mooring.plugins.volume_binding.volume_index import Reach, VolumeIndex, reach_of
from mooring.plugins.volumes.csi_nodes import CSINodeColumns
from mooring.plugins.volumes.csi_translation import MIGRATED, TranslationError, csi_affinity, volume_plugin

Codes = npt.NDArray[np.int16]

Ints = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]

#: Verdicts on bound claims; higher codes stand for an error, by its index in the list of errors.
FINE, CONFLICT, MISSING, FIRST_ERROR = 0, 1, 2, 3


def rows_of(nodes: Nodes) -> npt.NDArray[np.intp]:
    """Return the rows of the nodes."""
    return np.arange(len(nodes)) if nodes.rows is None else nodes.rows


class BoundClaims:
    """Checks the node affinity of bound volumes, translated to CSI if their plugin is migrated."""

    def __init__(self, volumes: AssumeCache[PersistentVolume], nodes: CSINodeColumns) -> None:
        self._volumes = volumes
        self._nodes = nodes

    def check(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> tuple[Codes | None, list[str]]:
        """Return a code per node (None if all succeed) and the errors that codes refer to; the first fault counts."""
        codes: Codes | None = None
        errors: list[str] = []
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            found = MISSING if volume is None else self._misfits(volume, nodes, errors)
            if found is None:
                continue
            if codes is None:
                codes = np.zeros(len(nodes), dtype=np.int16)
            np.copyto(codes, found, where=codes == FINE, casting="unsafe")
            if volume is None:
                break
        return codes, errors

    def _misfits(self, volume: PersistentVolume, nodes: Nodes, errors: list[str]) -> Codes | None:
        """Return codes for the nodes on which a volume cannot be used; None if there are none."""
        reach = reach_of(volume.spec.node_affinity)
        plugin = volume_plugin(volume)
        if plugin is None or plugin not in MIGRATED:
            return _outside(reach, nodes)
        self._nodes.sync()
        column = self._nodes.migrated.get(plugin)
        migrated = nodes.take(column) if column is not None else None
        if migrated is None or not migrated.any():
            return _outside(reach, nodes)
        codes = _outside(reach, nodes)
        if codes is None:
            codes = np.zeros(len(nodes), dtype=np.int16)
        try:
            translated = _outside(reach_of(csi_affinity(volume)), nodes)
        except TranslationError as error:
            codes[migrated] = FIRST_ERROR + len(errors)
            errors.append(f"could not translate pv: {error}")
            return codes
        codes[migrated] = FINE if translated is None else translated[migrated]
        return codes


def _outside(reach: Reach | None, nodes: Nodes) -> Codes | None:
    return None if reach is None else (~nodes.matches_any(reach.terms)).astype(np.int16)  # CONFLICT is 1


class Choice(NamedTuple):
    """The result for unbound claims on one node: free volumes, and the claims to provision."""

    pairs: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    to_make: list[PersistentVolumeClaim]


class WaitingClaims:
    """Matches claims with free volumes, and checks whether the rest can be provisioned."""

    def __init__(self, index: VolumeIndex, handle: Handle) -> None:
        self._index = index
        self._provisioner = Provisioner(handle)

    def candidates(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> npt.NDArray[np.intp] | None:
        """Return the positions of the nodes that claims with a selected node allow; None for all."""
        chosen = {claim.annotations[SELECTED_NODE] for claim in claims if SELECTED_NODE in claim.annotations}
        if not chosen:
            return None
        row = nodes.table.row_of.get(chosen.pop())
        if chosen or row is None:
            return np.zeros(0, dtype=np.intp)
        if nodes.rows is None:
            return np.array([row], dtype=np.intp)
        return np.flatnonzero(nodes.rows == row)

    def check(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> npt.NDArray[np.int8]:
        """Return a code per candidate node. Raises MatchError."""
        codes: npt.NDArray[np.int8] = np.zeros(len(nodes), dtype=np.int8)
        decided, undecided = _told_apart(claims)
        matched = match_claims(undecided, self._index, nodes) if undecided else None
        for claim in decided:
            self._provisioner.check(claim, None, codes, nodes)
        if matched is not None:
            groups, matches = matched
            for claim, volumes in matches:
                if len(volumes) < len(groups.present):
                    needed = ~groups.spread(volumes) if volumes else None
                    self._provisioner.check(claim, needed, codes, nodes)
        return codes

    def scores(self, claims: list[PersistentVolumeClaim], nodes: Nodes, scorer: StorageScorer) -> Ints:
        """Return a score per node that passed. Raises MatchError.

        Where volumes match some claims, only these count; elsewhere the capacity for the claims to provision counts.
        """
        decided, undecided = _told_apart(claims)
        groups, matches = match_claims(undecided, self._index, nodes)
        scores: Ints = np.zeros(len(nodes), dtype=np.int64)
        left = np.ones(len(nodes), dtype=np.bool_)
        for group in set().union(*(match.volumes for match in matches)) & groups.present:
            place = groups.spread([group])
            scores[place] = scorer.score(_static_uses(matches, group))
            left &= ~place
        if left.any():
            rest = Nodes(nodes.table, rows_of(nodes)[left])
            scores[left] = scorer.score(self._provisioner.uses([*decided, *(each.claim for each in matches)], rest))
        return scores

    def choose(self, claims: list[PersistentVolumeClaim], node: Nodes) -> Choice:
        """Return the volumes for the claims on a node that passed."""
        decided, undecided = _told_apart(claims)
        choice = Choice([], decided)
        _, matches = match_claims(undecided, self._index, node)
        for match in matches:
            found = next(iter(match.volumes.values()), None)
            if found is None:
                choice.to_make.append(match.claim)
            else:
                choice.pairs.append((found.volume, match.claim))
        return choice


def _static_uses(matches: list[Match], group: int) -> dict[str, StorageUse]:
    """Return the storage of the volumes that match claims in a group of nodes, by class."""
    found: dict[str, StorageUse] = {}
    for match in matches:
        entry = match.volumes.get(group)
        if entry is not None:
            name = entry.volume.spec.storage_class_name
            requested, capacity = found.get(name, StorageUse(0, 0))
            asked = match.claim.spec.resources.requests.get("storage", 0)
            has = entry.volume.spec.capacity.get("storage", 0)
            found[name] = StorageUse(requested + value(asked), capacity + value(has))
    return found


def _told_apart(
    claims: list[PersistentVolumeClaim],
) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    """Split claims into those that are being provisioned for a node, and the others."""
    decided = [claim for claim in claims if SELECTED_NODE in claim.annotations]
    return decided, [claim for claim in claims if SELECTED_NODE not in claim.annotations]
