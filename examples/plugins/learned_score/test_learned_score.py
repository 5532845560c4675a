import json
import sys
from pathlib import Path

import numpy as np
import pytest

from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod

HERE = Path(__file__).parent
LearnedScore = load_plugin("LearnedScore", HERE / "learned_score.py")
Forest = sys.modules[LearnedScore.__module__].Forest
MODEL = json.loads((HERE / "model.json").read_text())


def test_predictions_equal_scikit_learns():
    samples = MODEL["samples"]
    found = Forest(MODEL).predict(np.array(samples["rows"]))
    np.testing.assert_allclose(found, samples["answers"], atol=1e-3)


def test_rows_together_equal_rows_one_by_one():
    rows = np.random.default_rng(1).uniform(0, 1, size=(50, len(MODEL["features"])))

    def down(tree, row):
        at = 0
        while tree["left"][at] != at:
            at = (
                tree["left"][at] if np.float32(row[tree["feature"][at]]) <= tree["threshold"][at] else tree["right"][at]
            )
        return tree["value"][at]

    one_by_one = [np.mean([down(tree, row) for tree in MODEL["trees"]]) for row in rows]
    np.testing.assert_allclose(Forest(MODEL).predict(rows), one_by_one)


def test_a_full_node_is_worse_than_an_empty_one_and_memory_is_worse_than_cpu():
    nodes = [make_node(name).capacity(cpu="8", memory="16Gi", pods=110).obj() for name in ("empty", "busy", "crammed")]
    pods = [
        make_pod("a").node("busy").req(cpu="6", memory="1Gi").obj(),
        make_pod("b").node("crammed").req(cpu="1", memory="14Gi").obj(),
    ]
    harness = PluginHarness(LearnedScore, nodes=nodes, pods=pods)
    scores = harness.run(make_pod("new").req(cpu="1", memory="1Gi").obj()).scores
    assert scores["empty"] == 100
    assert scores["crammed"] == 0
    assert 50 < scores["busy"] < 100


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file"), ("{", "Expecting"), ('{"kind": "svm"}', "not a forest")]
)
def test_an_invalid_model(tmp_path, text, why):
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=f"model: .*{why}.*create one with train.py"):
        PluginHarness(LearnedScore, args={"model": str(path)})
