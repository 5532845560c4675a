"""Whether volumes for a pod's waiting claims can be found, or made, on a node, and which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework import Handle, Nodes
from mooring.plugins.volume_binding.claims import SELECTED_NODE
from mooring.plugins.volume_binding.matching import match_claims
from mooring.plugins.volume_binding.provisioning import Provisioner
from mooring.plugins.volume_binding.volume_index import VolumeIndex

Codes = npt.NDArray[np.int8]


class Choice(NamedTuple):
    """What waiting claims get on one node: free volumes, and the claims whose volumes are to be made."""

    pairs: list[tuple[PersistentVolume, PersistentVolumeClaim]]
    to_make: list[PersistentVolumeClaim]


class WaitingClaims:
    """Matches claims with free volumes, and checks whether the rest can be made."""

    def __init__(self, index: VolumeIndex, handle: Handle) -> None:
        self._index = index
        self._provisioner = Provisioner(handle)

    def candidates(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> npt.NDArray[np.intp] | None:
        """The places of the nodes that claims with a chosen node leave; None for all of them."""
        chosen = {claim.annotations[SELECTED_NODE] for claim in claims if SELECTED_NODE in claim.annotations}
        if not chosen:
            return None
        row = nodes.table.row_of.get(chosen.pop())
        if chosen or row is None:
            return np.zeros(0, dtype=np.intp)
        if nodes.rows is None:
            return np.array([row], dtype=np.intp)
        return np.flatnonzero(nodes.rows == row)

    def check(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> Codes:
        """A code a node, for nodes that are candidates. Raises MatchError."""
        codes: Codes = np.zeros(len(nodes), dtype=np.int8)
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

    def choose(self, claims: list[PersistentVolumeClaim], node: Nodes) -> Choice:
        """What the claims get on a node that passed."""
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


def _told_apart(
    claims: list[PersistentVolumeClaim],
) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    """Claims whose volumes are being made for a node, and the others."""
    decided = [claim for claim in claims if SELECTED_NODE in claim.annotations]
    return decided, [claim for claim in claims if SELECTED_NODE not in claim.annotations]
