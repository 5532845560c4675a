import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.framework import CycleState, Nodes, Plugin, Pod, depends_on

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class LearnedScoreArgs:
    #: The model that train.py wrote, relative to the folder of this file.
    model: str = "model.json"


class LearnedScore(Plugin[LearnedScoreArgs]):
    """Prefers the nodes on which a trained model predicts the least slowdown. Evaluates all nodes at once."""

    def setup(self) -> None:
        path = Path(__file__).parent / self.args.model
        try:
            self.forest = Forest(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"model: {path} is invalid ({error}); create one with train.py") from None

    @depends_on("node", "pods")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        return np.rint(1000 * self.forest.predict(self._features(pod, nodes))).astype(np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        lowest, highest = int(scores.min()), int(scores.max())
        return 100 * (highest - scores) // max(highest - lowest, 1)

    def _features(self, pod: Pod, nodes: Nodes) -> Floats:
        """Return a row of features for each node, as in train.py: its utilization with the pod, and the pod's share."""
        wanted = self.handle.template(pod).requests
        columns: list[Floats] = []
        for resource in ("cpu", "memory"):
            has = np.maximum(nodes.allocatable(resource), 1)
            columns.append((nodes.requested(resource) + wanted.get(resource, 0)) / has)
            columns.append(wanted.get(resource, 0) / has)
        columns.append((nodes.pod_count + 1) / np.maximum(nodes.allowed_pods, 1))
        return np.column_stack(columns)


class Forest:
    """A random forest of scikit-learn as plain arrays, which does not need scikit-learn."""

    def __init__(self, model: dict[str, Any]) -> None:
        if model["kind"] != "forest":
            raise ValueError(f"it is a {model['kind']}, not a forest")
        self.features: list[str] = model["features"]
        self._trees = [Tree(tree) for tree in model["trees"]]

    def predict(self, rows: Floats) -> Floats:
        """Return the mean of the trees' predictions for each row. All rows descend a tree together, level by level."""
        compared = rows.astype(np.float32)  # as scikit-learn compares
        total, every = np.zeros(len(rows)), np.arange(len(rows))
        for tree in self._trees:
            at = np.zeros(len(rows), dtype=np.intp)
            for _ in range(tree.depth):
                goes_left = compared[every, tree.feature[at]] <= tree.threshold[at]
                at = np.where(goes_left, tree.left[at], tree.right[at])
            total += tree.value[at]
        return total / len(self._trees)


class Tree:
    """A decision tree: an array for each property of its nodes."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.depth: int = tree["depth"]
        self.feature: npt.NDArray[np.intp] = np.array(tree["feature"])
        self.threshold: Floats = np.array(tree["threshold"])
        self.left: npt.NDArray[np.intp] = np.array(tree["left"])
        self.right: npt.NDArray[np.intp] = np.array(tree["right"])
        self.value: Floats = np.array(tree["value"])
