"""PodGroupPodsCount: prefers placements in which more pods of a PodGroup have a node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.framework import MAX_SCORE, Plugin, ProposedPlacements


class PodGroupPodsCount(Plugin):
    """Scores a placement by the number of pods that the group would have, relative to the best placement."""

    def score_placements(self, proposed: ProposedPlacements) -> npt.NDArray[np.int64]:
        """Return the scores; at least one placement has a pod."""
        counts = proposed.pod_counts + len(proposed.scheduled)
        most = int(counts.max())
        if most == 0:
            raise ValueError("no pods from pod group are assigned to any of the candidate placements")
        return counts * MAX_SCORE // most
