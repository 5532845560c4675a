"""Answers that are kept from task to task never change a decision."""

from __future__ import annotations

import pytest

from mooring.batch import score_cache
from mooring.batch.evaluate import evaluate
from tests.golden.decisions import decoded
from tests.golden.sessions import themes


@pytest.mark.parametrize("part", range(3))
def test_golden_sessions_match_with_kept_answers(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden clusters are too small for answers to be kept, so that tests/golden compares the answers without."""
    assert score_cache.LEAST_NODES > 20
    monkeypatch.setattr(score_cache, "LEAST_NODES", 0)
    wrong = []
    for case, expected in decoded(pair for cases in themes().values() for pair in cases[2 * part :: 6]):
        answer = evaluate(case)
        for key in ("bound", "pipelined"):
            wanted = expected.get(key, answer[key])
            places = {name: wanted[name] if wanted.get(name) == "*" else node for name, node in answer[key].items()}
            if places != wanted:
                wrong.append((case["id"], key))
        if answer["evicted"] != expected.get("evicted", answer["evicted"]):
            wrong.append((case["id"], "evicted"))
    assert wrong == []
