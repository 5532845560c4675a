import json
from pathlib import Path

import numpy as np

from mooring.framework import Plugin, depends_on


class LearnedScore(Plugin):
    """Prefers the nodes on which a trained model predicts the least slowdown. Evaluates all nodes at once."""

    class Args:
        #: The model that train.py wrote, relative to the folder of this file.
        model: str = "model.json"

    def setup(self):
        path = Path(__file__).parent / self.args.model
        try:
            self.forest = Forest(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"model: {path} is invalid ({error}); create one with train.py") from None

    @depends_on("node", "pods")
    def score_nodes(self, state, pod, nodes):
        return np.rint(1000 * self.forest.predict(self._features(pod, nodes))).astype(np.int64)

    def normalize_scores(self, state, pod, scores):
        lowest, highest = scores.min(), scores.max()
        return 100 * (highest - scores) // max(highest - lowest, 1)

    def _features(self, pod, nodes):
        """Return a row of features for each node, as in train.py: its utilization with the pod, and the pod's share."""
        wanted = self.handle.template(pod).requests
        columns = []
        for resource in ("cpu", "memory"):
            has = np.maximum(nodes.allocatable(resource), 1)
            columns.append((nodes.requested(resource) + wanted.get(resource, 0)) / has)
            columns.append(wanted.get(resource, 0) / has)
        columns.append((nodes.pod_count + 1) / np.maximum(nodes.allowed_pods, 1))
        return np.column_stack(columns)


class Forest:
    """A random forest of scikit-learn as plain arrays, which does not need scikit-learn."""

    def __init__(self, model):
        if model["kind"] != "forest":
            raise ValueError(f"it is a {model['kind']}, not a forest")
        self.features = model["features"]
        self._trees = [
            {name: np.array(values) for name, values in tree.items() if name != "depth"} | {"depth": tree["depth"]}
            for tree in model["trees"]
        ]

    def predict(self, rows):
        """Return the mean of the trees' predictions for each row. All rows descend a tree together, level by level."""
        rows = rows.astype(np.float32)  # as scikit-learn compares
        total, every = np.zeros(len(rows)), np.arange(len(rows))
        for tree in self._trees:
            at = np.zeros(len(rows), dtype=np.intp)
            for _ in range(tree["depth"]):
                goes_left = rows[every, tree["feature"][at]] <= tree["threshold"][at]
                at = np.where(goes_left, tree["left"][at], tree["right"][at])
            total += tree["value"][at]
        return total / len(self._trees)
