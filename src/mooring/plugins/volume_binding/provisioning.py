"""Whether volumes for a pod's waiting claims can be made on a node."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import value
from mooring.api.selectors import IN, NodeTerm, SelectorError, requirement
from mooring.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from mooring.framework import Handle, Nodes
from mooring.plugins.storage_class import claim_class
from mooring.plugins.volume_binding.capacities import Capacities

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

#: Verdicts on the claims without a volume.
FINE, NO_VOLUME, NO_SPACE = 0, 1, 2


class Provisioner:
    """Asks classes, their topologies and the drivers' capacities."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        self._capacities = Capacities(handle.lister(CSIStorageCapacity))

    def check(self, claim: PersistentVolumeClaim, needed: Mask | None, codes: Codes, nodes: Nodes) -> None:
        """Where a volume is needed (None: everywhere) and ``codes`` say nothing yet, say why it cannot be made."""
        name = claim_class(claim)
        storage_class = self._classes.get(name)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            codes[_undecided(needed, codes)] = NO_VOLUME
            return
        if storage_class.allowed_topologies:
            allowed = nodes.matches_any(_terms(storage_class.allowed_topologies))
            codes[_undecided(needed, codes) & ~allowed] = NO_VOLUME
        size = self._tracked_size(claim, storage_class.provisioner)
        if size is not None:
            codes[_undecided(needed, codes) & ~self._capacities.sufficient(name, size, nodes)] = NO_SPACE

    def _tracked_size(self, claim: PersistentVolumeClaim, driver_name: str) -> int | None:
        """How much is wanted, if the driver says how much it has."""
        wanted = claim.spec.resources.requests.get("storage")
        driver = self._drivers.get(driver_name) if wanted is not None else None
        return value(wanted) if wanted is not None and driver is not None and driver.spec.storage_capacity else None


def _undecided(needed: Mask | None, codes: Codes) -> Mask:
    fine: Mask = codes == FINE
    return fine if needed is None else fine & needed


@functools.lru_cache(maxsize=1024)
def _terms(topologies: tuple[TopologySelectorTerm, ...]) -> tuple[NodeTerm, ...]:
    """A class's topologies as terms of which one must hold; terms that are empty or invalid hold nowhere."""
    terms = []
    for topology in topologies:
        try:
            expressions = [requirement(each.key, IN, each.values) for each in topology.match_label_expressions]
        except SelectorError:
            continue
        if expressions:
            terms.append(NodeTerm(tuple(expressions)))
    return tuple(terms)
