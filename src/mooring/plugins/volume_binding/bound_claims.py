"""Whether the volumes that a pod's claims are bound to can be used on a node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework import Nodes
from mooring.plugins.csi_nodes import CSINodeColumns
from mooring.plugins.csi_translation import MIGRATED, TranslationError, csi_affinity, volume_plugin
from mooring.plugins.volume_binding.assume_cache import AssumeCache
from mooring.plugins.volume_binding.reach import Reach, reach_of

Codes = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]

#: Verdicts on bound claims; what is above them stands for an error, by its place in the list of errors.
FINE, CONFLICT, MISSING, FIRST_ERROR = 0, 1, 2, 3


class BoundClaims:
    """Checks the node affinity of bound volumes, as their in-tree plugin or its CSI driver sees it."""

    def __init__(self, volumes: AssumeCache[PersistentVolume], nodes: CSINodeColumns) -> None:
        self._volumes = volumes
        self._nodes = nodes

    def check(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> tuple[Codes | None, list[str]]:
        """A code a node (None if all are fine) and the errors that codes may stand for; the first fault counts."""
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
        """Codes for the nodes that a volume cannot be used on; None if it can on all."""
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
