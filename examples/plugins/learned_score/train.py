"""Trains the model of LearnedScore with scikit-learn: `python examples/plugins/learned_score/train.py`.

The measurements are synthetic (the slowdown grows with the load, most with memory pressure). Replace them with yours.
"""

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
FEATURES = ["cpu used", "pod's cpu", "memory used", "pod's memory", "pods"]
LEAF = -2


def measurements(count, rng):
    """Return the utilization of nodes, and the slowdown of pods on them."""
    rows = rng.uniform(0, 1, size=(count, len(FEATURES)))
    rows[:, 1] *= rows[:, 0]  # a pod is a part of the utilization
    rows[:, 3] *= rows[:, 2]
    cpu, _, memory, _, pods = rows.T
    slowdown = 1 + 0.5 * cpu**2 + 2.0 * np.maximum(memory - 0.7, 0) ** 2 / 0.09 + 0.2 * pods
    return rows, slowdown + rng.normal(0, 0.02, count)


def exported(tree):
    """Return a tree as arrays. A leaf is its own child, so that all rows take the same number of steps."""
    leaf, own = tree.children_left < 0, np.arange(tree.node_count)
    return {
        "depth": int(tree.max_depth),
        "feature": np.where(leaf, 0, tree.feature).tolist(),
        "threshold": np.where(leaf, 0.0, tree.threshold).round(6).tolist(),
        "left": np.where(leaf, own, tree.children_left).tolist(),
        "right": np.where(leaf, own, tree.children_right).tolist(),
        "value": tree.value[:, 0, 0].round(6).tolist(),
    }


def main():
    try:  # not at the top, because the plugin of this folder also runs without scikit-learn
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        sys.exit("training needs scikit-learn: pip install scikit-learn")
    rng = np.random.default_rng(7)
    rows, slowdown = measurements(4000, rng)
    model = RandomForestRegressor(n_estimators=12, max_depth=6, random_state=7).fit(rows, slowdown)
    samples = measurements(20, rng)[0].round(3)
    made = {
        "kind": "forest",
        "features": FEATURES,
        "trees": [exported(each.tree_) for each in model.estimators_],
        # scikit-learn's predictions, for the test.
        "samples": {"rows": samples.tolist(), "answers": model.predict(samples).round(4).tolist()},
    }
    from learned_score import Forest

    np.testing.assert_allclose(Forest(made).predict(samples), model.predict(samples), atol=1e-3)
    (HERE / "model.json").write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
